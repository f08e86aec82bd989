//! CapacityBuffer (SIG Autoscaling): room kept free for pods that do not exist yet.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::amount::ResourceList;
use crate::conditions::Condition;
use crate::schema::{cel, keyed_by, root_schema};

/// The only strategy that is known.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";

/// Desired state of a CapacityBuffer.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    singular = "capacitybuffer",
    shortname = "cb",
    category = "autoscaling",
    namespaced,
    status = "CapacityBufferStatus",
    schema = "manual",
    derive = "Default",
    derive = "PartialEq",
    doc = "A CapacityBuffer keeps room free for pods that do not exist yet.",
    printcolumn = r#"{"name": "Strategy", "type": "string", "jsonPath": ".spec.provisioningStrategy"}"#,
    printcolumn = r#"{"name": "PodTemplate", "type": "string", "jsonPath": ".status.podTemplateRef.name"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "ConditionsType", "type": "string", "jsonPath": ".status.conditions[*].type"}"#,
    printcolumn = r#"{"name": "ConditionsStatus", "type": "string", "jsonPath": ".status.conditions[*].status"}"#,
    printcolumn = r#"{"name": "ConditionsReason", "type": "string", "jsonPath": ".status.conditions[*].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel(
    "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
    "podTemplateRef needs replicas or limits",
).and(
    "!has(self.podTemplateRef) || !has(self.scalableRef)",
    "podTemplateRef and scalableRef are mutually exclusive",
))]
pub struct CapacityBufferSpec {
    /// How the room is provided. Only buffer.x-k8s.io/active-capacity is known: nodes are kept running.
    #[serde(default = "active_capacity", skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// PodTemplate in the same namespace that says what one chunk of the buffer looks like. Not together with scalableRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Workload in the same namespace whose pods say what one chunk of the buffer looks like. Not together with podTemplateRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Number of chunks to keep free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Chunks to keep free as a share of the workload's replicas, rounded up. Only with scalableRef; with replicas too, the
    /// larger counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// Ceiling on what all chunks may ask for together. Without replicas and percentage, as many chunks as fit are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Default for CapacityBufferSpec {
    fn default() -> Self {
        Self {
            provisioning_strategy: active_capacity(),
            pod_template_ref: None,
            scalable_ref: None,
            replicas: None,
            percentage: None,
            limits: None,
            extra: Extra::new(),
        }
    }
}

fn active_capacity() -> Option<String> {
    Some(ACTIVE_CAPACITY.to_owned())
}

/// Name of an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A workload that can be scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group of the workload; empty is apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload: Deployment, StatefulSet or ReplicaSet.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Observed state of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// PodTemplate in use; only for buffers with podTemplateRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Generation of that PodTemplate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Number of chunks the buffer comes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Strategy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// ReadyForProvisioning and Provisioning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = keyed_by("type"))]
    pub conditions: Option<Vec<Condition>>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

root_schema!(
    CapacityBuffer,
    CapacityBufferSpec,
    CapacityBufferStatus,
    required = true,
    "A CapacityBuffer keeps room free for pods that do not exist yet, so that they start without waiting for a node. Alpha, feature gate CapacityBuffer."
);

//! NodeClaim: one node, asked for, launched, joined and in the end removed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use model::duration::{GoDuration, NillableDuration};

use crate::Extra;
use crate::amount::ResourceList;
use crate::conditions::{self, Condition};
use crate::nodeclass_ref::NodeClassRef;
use crate::nodepool::thirty_days;
use crate::patterns;
use crate::requirement::{self, Requirement};
use crate::schema::{cel, keyed_by, root_schema};
use crate::taint::Taint;

/// Desired state of a NodeClaim. It cannot be changed after creation.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    singular = "nodeclaim",
    category = "karpenter",
    status = "NodeClaimStatus",
    schema = "manual",
    derive = "Default",
    derive = "PartialEq",
    doc = "A NodeClaim asks for one node and follows it from launch to termination. The autoscaler writes these.",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".metadata.labels.node\\.kubernetes\\.io/instance-type"}"#,
    printcolumn = r#"{"name": "Capacity", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/capacity-type"}"#,
    printcolumn = r#"{"name": "Zone", "type": "string", "jsonPath": ".metadata.labels.topology\\.kubernetes\\.io/zone"}"#,
    printcolumn = r#"{"name": "Node", "type": "string", "jsonPath": ".status.nodeName"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "ImageID", "type": "string", "jsonPath": ".status.imageID", "priority": 1}"#,
    printcolumn = r#"{"name": "ID", "type": "string", "jsonPath": ".status.providerID", "priority": 1}"#,
    printcolumn = r#"{"name": "NodePool", "type": "string", "jsonPath": ".metadata.labels.karpenter\\.sh/nodepool", "priority": 1}"#,
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.nodeClassRef.name", "priority": 1}"#,
    printcolumn = r#"{"name": "Drifted", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Drifted\")].status", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel("self == oldSelf", "spec is immutable"))]
pub struct NodeClaimSpec {
    /// Constraints on the node: instance types, zones, capacity types, own labels.
    #[schemars(schema_with = "requirement::of_nodeclaim")]
    pub requirements: Vec<Requirement>,
    /// Cloud-specific configuration of the node.
    pub node_class_ref: NodeClassRef,
    /// Taints of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that something else removes soon after the node starts. The node is not initialized before they are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Least resources the node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Age at which the node is removed, such as `720h`, or `Never`.
    #[serde(default = "thirty_days")]
    #[schemars(with = "String", regex(pattern = patterns::DURATION_OR_NEVER))]
    pub expire_after: NillableDuration,
    /// Longest time that draining the node may take, such as `48h`. Unset waits without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = patterns::DURATION))]
    pub termination_grace_period: Option<GoDuration>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Least resources a node must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// What the pods to be placed ask for together, daemons included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Observed state of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node, once it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The instance, as aws:///zone/instance-id.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Image the instance was launched with.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Full capacity of the node, as expected from its instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// What of the capacity pods may use, as expected from the instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// Ready, what it depends on, and what is to happen to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "conditions::relaxed_list", transform = keyed_by("type"))]
    pub conditions: Option<Vec<Condition>>,
    /// Last time that a pod was bound to the node, finished, or began to terminate; daemons do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::date_time")]
    pub last_pod_event_time: Option<Time>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

root_schema!(
    NodeClaim,
    NodeClaimSpec,
    NodeClaimStatus,
    required = true,
    "A NodeClaim asks for one node and follows it from launch to termination. The autoscaler writes these; people read them."
);

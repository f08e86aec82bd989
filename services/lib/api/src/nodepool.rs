//! NodePool: what kinds of nodes may be made for which pods, and when they may be taken away again.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use model::duration::{GoDuration, NillableDuration};

use crate::Extra;
use crate::amount::ResourceList;
use crate::conditions::Condition;
use crate::disruption::Disruption;
use crate::nodeclass_ref::NodeClassRef;
use crate::requirement::{self, Requirement};
use crate::restricted;
use crate::schema::{Inner, cel, keyed_by, root_schema};
use crate::taint::Taint;
use crate::{disruption, patterns};

/// Desired state of a NodePool: the nodes it may make, how many, and how they are replaced.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    singular = "nodepool",
    category = "karpenter",
    status = "NodePoolStatus",
    schema = "manual",
    derive = "Default",
    derive = "PartialEq",
    doc = "A NodePool lets the autoscaler make nodes of certain kinds for pods that have no room, up to its limits, and says when it may replace or remove them.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn = r#"{"name": "NodeClass", "type": "string", "jsonPath": ".spec.template.spec.nodeClassRef.name"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight", "priority": 1}"#,
    printcolumn = r#"{"name": "CPU", "type": "string", "jsonPath": ".status.resources.cpu", "priority": 1}"#,
    printcolumn = r#"{"name": "Memory", "type": "string", "jsonPath": ".status.resources.memory", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel(
    "has(self.replicas) == has(oldSelf.replicas)",
    "a pool cannot change between static (with replicas) and dynamic (without)",
).and(
    "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
    "a static pool (with replicas) may only limit nodes",
).and(
    "!has(self.replicas) || !has(self.weight)",
    "a static pool (with replicas) cannot have a weight",
))]
pub struct NodePoolSpec {
    /// Blueprint of the nodes of this pool.
    pub template: NodeClaimTemplate,
    /// When and how many nodes of this pool may be removed or replaced voluntarily.
    #[serde(default = "disruption::when_absent")]
    #[schemars(extend("default" = json!({"consolidateAfter": "0s"})))]
    pub disruption: Disruption,
    /// Ceiling on what the nodes of this pool may have together, by resource (cpu, memory, nvidia.com/gpu and so on), and on
    /// their number as `nodes`. At the ceiling no more nodes are made; existing ones stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Preference among pools: the pool with the higher weight is tried first. Unset is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Makes the pool static: it keeps exactly this many nodes, whatever pods ask for. Alpha, feature gate StaticCapacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Blueprint of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations that every node of the pool gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMeta>,
    /// What every node of the pool is made of.
    pub spec: NodeClaimTemplateSpec,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Labels and annotations of a blueprint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels for claim and node. Pods may select on them as on requirements with one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        extend("maxProperties" = 100, "x-kubernetes-map-type" = "atomic"),
        transform = Inner(json!({"maxLength": 63, "pattern": patterns::LABEL_VALUE})),
        transform = restricted::label_rules()
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations for claim and node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What a node is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Constraints on the nodes: instance types, zones, capacity types, own labels. All must hold, together with those of the
    /// pods. An empty list allows everything the cloud offers.
    #[schemars(schema_with = "requirement::of_nodepool")]
    pub requirements: Vec<Requirement>,
    /// Cloud-specific configuration of the nodes. Group and kind are fixed once set; another name replaces the nodes.
    #[schemars(transform = cel("self.group == oldSelf.group", "nodeClassRef.group is immutable")
        .and("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"))]
    pub node_class_ref: NodeClassRef,
    /// Taints of the nodes. Only pods that tolerate all of them are placed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that something else (a CNI agent, a driver installer) removes soon after the node starts. Pods need not
    /// tolerate them, but wait until they are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Age at which a node is removed, counted from the claim's creation, such as `720h`. `Never` lets nodes live on. Expiry
    /// is not held back by budgets.
    #[serde(default = "thirty_days")]
    #[schemars(with = "String", regex(pattern = patterns::DURATION_OR_NEVER))]
    pub expire_after: NillableDuration,
    /// Longest time that draining a node may take, such as `48h`; then remaining pods are deleted, whatever PodDisruptionBudgets and
    /// do-not-disrupt annotations say. Unset waits without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", regex(pattern = patterns::DURATION))]
    pub termination_grace_period: Option<GoDuration>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Default of `expireAfter`, here and on NodeClaims.
pub(crate) fn thirty_days() -> NillableDuration {
    NillableDuration::After("720h".parse().expect("720h is a duration"))
}

/// Observed state of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Capacity of all nodes of the pool together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceList>,
    /// Number of nodes of the pool.
    #[serde(default)]
    pub nodes: i64,
    /// Generation of the NodeClass when the pool's registration health was last reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Ready, and what it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = keyed_by("type"))]
    pub conditions: Option<Vec<Condition>>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

root_schema!(
    NodePool,
    NodePoolSpec,
    NodePoolStatus,
    required = true,
    "A NodePool lets the autoscaler make nodes of certain kinds for pods that have no room, up to its limits, and says when it may replace or remove them."
);

impl NodePool {
    /// Whether the pool keeps a fixed number of nodes.
    pub fn is_static(&self) -> bool {
        self.spec.replicas.is_some()
    }

    /// Whether the pool uses a NodeClass that we act on.
    pub fn is_managed(&self) -> bool {
        self.spec.template.spec.node_class_ref.is_supported()
    }
}

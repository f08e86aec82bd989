//! A pod as scheduling sees it: everything that decides where it may run, already extracted from the API object.
//!
//! What identifies one pod (name, node, volumes) is in [`Pod`]; what it asks for is in [`PodSpec`], shared by an `Arc` among
//! the replicas of a workload. Whoever builds pods should share specs (pods of one ReplicaSet differ in nothing here): the
//! solver groups by pointer first, and only then by content.

mod affinity;
mod ports;
mod selector;
mod spread;
mod volume;

use std::sync::Arc;

pub use affinity::{PodAffinityTerm, WeightedPodAffinityTerm};
pub use ports::{HostPort, Protocol};
pub use selector::{LabelSelector, SelectorOperator, SelectorRequirement};
pub use spread::{NodeInclusionPolicy, TopologySpread, WhenUnsatisfiable};
pub use volume::{EBS_DRIVER, Volume};

use crate::catalog::LabelMap;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taint::Toleration;

/// One pod, bound or pending. Pods that have finished (Succeeded, Failed) are left out by whoever builds the input.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// Breaks ties in the placing order. The name does where there is no uid (offline input).
    pub uid: Arc<str>,
    /// Seconds since the epoch; only the order matters (older pods are placed first among equals).
    pub created: i64,
    /// Name of the node (or of the NodeClaim whose node has not registered) that it is bound to. `None`: it is pending
    /// and must be placed.
    pub node: Option<Arc<str>>,
    pub spec: Arc<PodSpec>,
    /// Volumes backed by a PersistentVolumeClaim; empty for most pods. Per pod, since every StatefulSet replica has its own.
    pub volumes: Vec<Volume>,
    /// Has a deletion timestamp. It uses its node's resources, and no topology count includes it.
    pub terminating: bool,
    /// Owned by a DaemonSet: its requests are the overhead that its node was expected to have.
    pub daemon: bool,
    /// Owned by a DaemonSet or by its node (static pod): goes with the node and is never placed elsewhere.
    pub bound_to_node: bool,
    /// Whether it needs a new place when its node is removed: active (or a terminating StatefulSet pod), not of a
    /// DaemonSet, not protected, not blocked by a PodDisruptionBudget. Meaningless for pending pods.
    pub reschedulable: bool,
    /// `karpenter.sh/do-not-disrupt` is in force.
    pub do_not_disrupt: bool,
    /// A placeholder of a CapacityBuffer: placed last, never nominated, never an obstacle to others.
    pub buffer: bool,
    /// Why validation refuses to schedule it (restricted label, missing claim, …), as a sentence. Such a pod is reported as
    /// unschedulable with this reason and disturbs nothing else.
    pub rejected: Option<String>,
}

impl Pod {
    /// An ordinary pending pod. Other fields can be set afterwards.
    pub fn pending(namespace: &str, name: &str, spec: Arc<PodSpec>) -> Self {
        let name: Arc<str> = Arc::from(name);
        Self {
            namespace: Arc::from(namespace),
            uid: Arc::clone(&name),
            name,
            created: 0,
            node: None,
            spec,
            volumes: Vec::new(),
            terminating: false,
            daemon: false,
            bound_to_node: false,
            reschedulable: true,
            do_not_disrupt: false,
            buffer: false,
            rejected: None,
        }
    }

    /// `namespace/name`, as people write it.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// What a pod asks of the place where it runs. Shared among replicas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpec {
    pub labels: LabelMap,
    /// Effective requests: containers, init steps and sidecars, pod-level resources and overhead combined as the
    /// scheduler does. Does not contain `pods`; every pod counts as one.
    pub requests: Resources,
    pub node_selector: LabelMap,
    /// OR-ed terms of the required node affinity; each is the AND of its expressions. Empty: no constraint.
    pub required_node_affinity: Vec<Requirements>,
    /// In declaration order; weight 1 to 100.
    pub preferred_node_affinity: Vec<WeightedNodeTerm>,
    pub tolerations: Vec<Toleration>,
    pub topology_spread: Vec<TopologySpread>,
    pub affinity: Vec<PodAffinityTerm>,
    pub anti_affinity: Vec<PodAffinityTerm>,
    pub preferred_affinity: Vec<WeightedPodAffinityTerm>,
    pub preferred_anti_affinity: Vec<WeightedPodAffinityTerm>,
    pub host_ports: Vec<HostPort>,
    pub priority: i32,
    /// Refers to a ResourceClaim. Dynamic resource allocation is refused for now; this is the seam for it.
    pub uses_resource_claims: bool,
}

/// A preferred node-affinity term.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedNodeTerm {
    pub weight: i32,
    pub term: Requirements,
}

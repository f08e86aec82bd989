//! NodePools, DaemonSets, and the input of a decision that bundles everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::{InstanceType, LabelMap};
use crate::node::Node;
use crate::pod::{Pod, PodSpec};
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taint::Taint;

/// A NodePool that nodes may be made from, with the types that its node class offers. Pools that are not ready, or being
/// deleted, are left out by whoever builds the input.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePool {
    pub name: Arc<str>,
    /// Higher is tried first; 0 where unset. Ties: name descending.
    pub weight: i32,
    /// Upper bounds on the sum of the capacity of its nodes, by resource; `nodes` bounds their number.
    pub limits: Resources,
    /// Template labels, without `karpenter.sh/nodepool` and the node-class label.
    pub labels: LabelMap,
    /// Label that names the node class on nodes: key (`<group>/<kind>`) and value.
    pub node_class_label: Option<(String, String)>,
    pub taints: Vec<Taint>,
    /// Ignored in scheduling: they are gone when the node is ready.
    pub startup_taints: Vec<Taint>,
    /// Template requirements, with their `minValues`.
    pub requirements: Requirements,
    /// `spec.replicas` is set: its nodes are capacity like any other, but pods never cause new ones.
    pub fixed_size: bool,
    /// What its node class offers, NodeOverlays applied. Pools with the same offer should share the `Arc`.
    pub instance_types: Arc<Vec<InstanceType>>,
}

/// A DaemonSet, as overhead of every node that it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonSet {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// A representative pod: the newest real one where there is one, with the required node affinity of the template.
    pub pod: Arc<PodSpec>,
}

impl DaemonSet {
    /// Whether its pods are part of the overhead of nodes, new and existing. Dynamic resource allocation is not planned for,
    /// so a DaemonSet with resource claims counts nowhere, as in Karpenter while it ignores DRA.
    pub fn is_overhead(&self) -> bool {
        !self.pod.uses_resource_claims
    }
}

/// Everything that a scheduling decision depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterInput {
    /// Bound pods (their node must be in `nodes`, or they are ignored) and pending ones, in input order.
    pub pods: Vec<Pod>,
    pub nodes: Vec<Node>,
    pub pools: Vec<NodePool>,
    pub daemon_sets: Vec<DaemonSet>,
    /// Labels of namespaces, for namespace selectors. A namespace that is missing here has only its name label.
    pub namespaces: BTreeMap<String, LabelMap>,
    /// Label keys, beyond `labels::is_well_known`, that a node will carry only if its type says so.
    pub extra_well_known: BTreeSet<String>,
}

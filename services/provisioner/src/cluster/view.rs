//! An immutable view of the cluster: what the solver needs, and sums that others read.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodePool;
use jiff::Timestamp;
use model::catalog::LabelMap;
use model::node::Node;
use model::pod::Pod;
use model::pool::DaemonSet;
use model::resources::Resources;
use solver::Snapshot;

use super::backoff::Backoff;
use super::buffers::Placeholders;
use super::storage::Storage;

/// Everything in one version. Shared by `Arc`; nothing in it changes.
#[derive(Clone)]
pub(crate) struct ClusterView {
    /// Grows by one with each view of this replica.
    pub(crate) version: u64,
    pub(crate) at: Timestamp,
    /// Every watch has delivered its first full list, and there is a catalogue.
    pub(crate) synced: bool,
    /// As pricing-cache counts.
    pub(crate) catalog_version: u64,
    /// Highest resourceVersion of a NodeClaim that is in it.
    pub(crate) claims_version: u64,
    /// Ready for questions.
    pub(crate) snapshot: Snapshot,
    /// All nodes, and claims whose node has not joined, by name (the claim's until the node has registered).
    pub(crate) nodes: Arc<BTreeMap<Arc<str>, Arc<NodeView>>>,
    /// What the nodes of each pool have together; nodes on their way out do not count.
    pub(crate) pools: Arc<BTreeMap<Arc<str>, PoolUsage>>,
    /// NodePools that nodes can be made from now, with their types, overlays applied.
    pub(crate) usable_pools: Arc<Vec<model::pool::NodePool>>,
    /// Claims not launched yet, by the reservation that they are to be launched into.
    pub(crate) held_reservations: Arc<BTreeMap<String, u32>>,
    /// Launches that failed for a lasting reason.
    pub(crate) backoff: Arc<Backoff>,
    pub(crate) storage: Arc<Storage>,
    /// NodePools as they are in the API, ready or not.
    pub(crate) pool_objects: Arc<BTreeMap<String, Arc<NodePool>>>,
    /// Pods that kube-scheduler found no place for, in order of their names.
    pub(crate) pending: Arc<Vec<PendingPod>>,
    /// Pods that are bound.
    pub(crate) bound_pods: u32,
    /// UIDs of pods on nodes that go, which need a place too, by namespace and name.
    pub(crate) leaving: Arc<Leaving>,
    /// Placeholders of CapacityBuffers among the pods without a place.
    pub(crate) placeholders: Arc<Placeholders>,
    pub(crate) placeholder_pods: Arc<Vec<Pod>>,
    pub(crate) daemon_sets: Arc<Vec<DaemonSet>>,
    /// Labels by name.
    pub(crate) namespaces: Arc<BTreeMap<String, LabelMap>>,
}

/// UIDs by namespace and name.
pub(crate) type Leaving = BTreeMap<(Arc<str>, Arc<str>), Arc<str>>;

/// One node or claim.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) node: Arc<Node>,
    /// Name of the Node object, once there is one.
    pub(crate) object: Option<Arc<str>>,
    /// False for a claim without an instance: then its figures are what is certain of it.
    pub(crate) launched: bool,
    /// The claim is being deleted, or the Node where there is no claim.
    pub(crate) deleted: bool,
    /// Of the Node.
    pub(crate) created: Option<Timestamp>,
    /// Sum of what its pods request, `pods` included.
    pub(crate) requested: Resources,
    /// Sum of the limits of its pods.
    pub(crate) limits: Resources,
    /// The part of both that is DaemonSets'.
    pub(crate) of_daemons: Daemons,
    pub(crate) burden: Burden,
    /// Bound to it; their node is Kubernetes' name.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Meant for it, and not bound yet.
    pub(crate) nominated: Vec<Arc<Pod>>,
    /// Its pods will soon be deleted, whatever protects them.
    pub(crate) forced: bool,
}

/// What it would take to empty a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burden {
    /// Other than daemons.
    pub(crate) pods: usize,
    /// One of its pods must not be disrupted.
    pub(crate) protected: bool,
    /// Sum of the pods' eviction costs, in [`api::convert::eviction_cost`]'s unit.
    pub(crate) cost: i64,
}

/// What daemons ask for on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Daemons {
    pub(crate) requested: Resources,
    pub(crate) limits: Resources,
}

/// One pod, for explanations.
#[derive(Clone, Debug)]
pub(crate) struct PodFacts {
    /// Its node is Kubernetes' name.
    pub(crate) pod: Pod,
    /// kube-scheduler found no place for it, and we may.
    pub(crate) waiting: bool,
    /// Name, as in views, of the node that it is on or meant for.
    pub(crate) on: Option<Arc<str>>,
    /// kube-scheduler refused it on nodes that were made for it: what that means.
    pub(crate) refused: Option<Arc<str>>,
}

/// Use of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PoolUsage {
    /// Sum of capacities; claims that are not launched yet count with the most they may become.
    pub(crate) capacity: Resources,
    /// The same without claims that are not launched: what the status of a NodePool shows.
    pub(crate) launched: Resources,
    /// Number of launched nodes.
    pub(crate) nodes: u32,
}

/// A pod that waits for a place.
#[derive(Clone, Debug)]
pub(crate) struct PendingPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// Since this replica knows.
    pub(crate) since: Timestamp,
    /// Node or claim that was made for it.
    pub(crate) nominated: Option<Arc<str>>,
    /// Why it is not decided about at all.
    pub(crate) rejected: Option<Arc<str>>,
    /// kube-scheduler refused it on nodes that were made for it: what that means.
    pub(crate) refused: Option<Arc<str>>,
}

impl ClusterView {
    /// Whether the pod exists only as room that is kept free.
    pub(crate) fn is_placeholder(&self, pod: &solver::PodRef) -> bool {
        !self.placeholders.is_empty()
            && self.placeholders.contains_key(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name)))
    }

    pub(crate) fn empty() -> Self {
        Self {
            version: 0,
            at: Timestamp::UNIX_EPOCH,
            synced: false,
            catalog_version: 0,
            claims_version: 0,
            snapshot: Snapshot::build(model::pool::ClusterInput::default()),
            nodes: Arc::default(),
            pools: Arc::default(),
            usable_pools: Arc::default(),
            held_reservations: Arc::default(),
            backoff: Arc::default(),
            storage: Arc::default(),
            pool_objects: Arc::default(),
            pending: Arc::default(),
            bound_pods: 0,
            leaving: Arc::default(),
            placeholders: Arc::default(),
            placeholder_pods: Arc::default(),
            daemon_sets: Arc::default(),
            namespaces: Arc::default(),
        }
    }
}

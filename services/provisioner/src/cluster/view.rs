//! An immutable view of the cluster: what the solver needs, and sums that others read.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::node::Node;
use model::resources::Resources;
use solver::Snapshot;

/// Everything in one version. Shared by `Arc`; nothing in it changes.
#[derive(Clone)]
pub(crate) struct ClusterView {
    /// Grows by one with each view of this replica.
    pub(crate) version: u64,
    pub(crate) at: Timestamp,
    /// Every watch has delivered its first full list, and there is a catalogue.
    pub(crate) synced: bool,
    pub(crate) catalog_version: u64,
    /// Ready for questions.
    pub(crate) snapshot: Snapshot,
    /// All nodes, and claims whose node has not joined, by name.
    pub(crate) nodes: Arc<BTreeMap<Arc<str>, Arc<NodeView>>>,
    /// What the nodes of each pool have together; nodes on their way out do not count.
    pub(crate) pools: Arc<BTreeMap<Arc<str>, PoolUsage>>,
}

/// One node or claim.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    pub(crate) node: Node,
    /// Of instance or Node; `None` while the claim has not been launched.
    pub(crate) provider_id: Option<Arc<str>>,
    /// Sum of what its pods request.
    pub(crate) requested: Resources,
    pub(crate) pods: u32,
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

impl ClusterView {
    pub(crate) fn empty() -> Self {
        Self {
            version: 0,
            at: Timestamp::UNIX_EPOCH,
            synced: false,
            catalog_version: 0,
            snapshot: Snapshot::build(model::pool::ClusterInput::default()),
            nodes: Arc::default(),
            pools: Arc::default(),
        }
    }
}

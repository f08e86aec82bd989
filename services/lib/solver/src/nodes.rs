//! Nodes ready for packing: what is left of each for pods, and what its pods already take of ports and attachments.

use std::sync::Arc;

use model::catalog::LabelMap;
use model::node::{Node, NodeState};
use model::pod::HostPort;
use model::pool::DaemonSet;
use model::price::MicroDollars;
use model::requirements::Requirements;
use model::resources::Resources;
use smallvec::SmallVec;

use crate::classes::ClassId;
use crate::plan::PodRef;
use crate::pools::{daemon_tolerates, required_alternatives};
use crate::sets::TaintSetId;

/// A pod of the cluster: who it is, and which class of demands it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) created: i64,
    pub(crate) class: ClassId,
    pub(crate) terminating: bool,
    pub(crate) daemon: bool,
    pub(crate) reschedulable: bool,
}

impl PodEntry {
    pub(crate) fn key(&self) -> PodRef {
        PodRef { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }

    /// Pods about to be placed anew are counted where they will be, not where they are.
    pub(crate) fn counts_for_topology(&self, node_goes_away: bool) -> bool {
        !(self.terminating || node_goes_away && self.reschedulable)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NodeData {
    pub(crate) name: Arc<str>,
    /// With the hostname filled in.
    pub(crate) labels: Arc<LabelMap>,
    pub(crate) taints: TaintSetId,
    pub(crate) pool: Option<Arc<str>>,
    pub(crate) state: NodeState,
    pub(crate) registered: bool,
    pub(crate) initialized: bool,
    pub(crate) managed: bool,
    pub(crate) settling: bool,
    pub(crate) capacity: Resources,
    pub(crate) allocatable: Box<[i64]>,
    /// What daemons are expected to take in all, whether they run already or not.
    pub(crate) expected_daemons: Box<[i64]>,
    pub(crate) csi_limits: Vec<(Arc<str>, u32)>,
    pub(crate) price: Option<MicroDollars>,
    pub(crate) pods: Vec<PodEntry>,
    pub(crate) ports: SmallVec<[HostPort; 2]>,
    /// Driver and claim of every attached volume, sorted.
    pub(crate) attachments: Vec<(Arc<str>, Arc<str>)>,
}

impl NodeData {
    pub(crate) fn deleting(&self) -> bool {
        self.state == NodeState::Deleting
    }

    /// Nodes are offered to pods in this order: ready before those still starting, then by name.
    pub(crate) fn order(&self) -> (bool, &str) {
        (!self.initialized, &self.name)
    }
}

/// The labels with a hostname, as scheduling reads them.
pub(crate) fn labels_of(node: &Node) -> LabelMap {
    let mut labels: LabelMap =
        node.labels.iter().map(|(k, v)| (model::labels::normalize(k).to_owned(), v.clone())).collect();
    labels.entry(model::labels::HOSTNAME.to_owned()).or_insert_with(|| node.name.to_string());
    labels
}

/// Whether a node that exists satisfies requirements: a label that it lacks, it lacks.
pub(crate) fn accepts(labels: &LabelMap, asked: &Requirements) -> bool {
    asked.iter().all(|r| match labels.get(r.key()) {
        Some(value) => r.contains(value),
        None => r.allows_absence(),
    })
}

/// Whether the daemon is overhead of the node.
pub(crate) fn expects(node: &Node, labels: &LabelMap, daemon: &DaemonSet) -> bool {
    daemon.is_overhead()
        && daemon_tolerates(&daemon.pod, node.scheduling_taints())
        && required_alternatives(&daemon.pod).iter().any(|asked| accepts(labels, asked))
}

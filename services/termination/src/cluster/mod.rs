//! What the service knows of the cluster: nodes, claims, pods, budgets and volume attachments, reduced to what removal
//! needs, with the indexes that its questions need. One owner, no I/O: watches and answered writes are fed in, and every
//! change says whose removal may be affected by it.

mod bound_pod;
mod budgets;
mod claim;
mod convert;
mod joined;
mod node;
mod pods;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::NodeClaim;
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use policy::drain;
use policy::drain::pdb::Pdb;
use policy::drain::volumes::Attachment;
use runtime::watch::Change;

pub(crate) use bound_pod::BoundPod;
pub(crate) use claim::{Claim, DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED};
pub(crate) use node::{EXCLUDE_LABEL, EXCLUDE_VALUE, NodeState};

use self::budgets::Budgets;
use self::joined::{Joined, Moved};
use self::pods::Pods;
use self::volumes::Volumes;

/// Whose removal a change may affect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Node(Arc<str>),
    Claim(Arc<str>),
}

impl Key {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Claim(name) => name,
        }
    }
}

/// A change of one kind, from a watch or from the answer to a write.
#[derive(Debug)]
pub(crate) enum Fact {
    Node(Change<Node>),
    Claim(Change<NodeClaim>),
    Pod(Change<BoundPod>),
    Pdb(Change<PodDisruptionBudget>),
    Attachment(Change<VolumeAttachment>),
    Volume(Change<PersistentVolume>),
}

impl Fact {
    /// How many kinds there are: all must have been listed before anything is decided.
    pub(crate) const KINDS: usize = 6;

    /// The kind, and whether this is all there is of it.
    pub(crate) fn kind(&self) -> (&'static str, bool) {
        match self {
            Self::Node(change) => ("Node", change.is_whole()),
            Self::Claim(change) => ("NodeClaim", change.is_whole()),
            Self::Pod(change) => ("Pod", change.is_whole()),
            Self::Pdb(change) => ("PodDisruptionBudget", change.is_whole()),
            Self::Attachment(change) => ("VolumeAttachment", change.is_whole()),
            Self::Volume(change) => ("PersistentVolume", change.is_whole()),
        }
    }
}

runtime::changes_as!(
    Fact: Node(Node),
    Claim(NodeClaim),
    Pod(BoundPod),
    Pdb(PodDisruptionBudget),
    Attachment(VolumeAttachment),
    Volume(PersistentVolume),
);

#[derive(Default)]
pub(crate) struct ClusterState {
    nodes: Joined<NodeState>,
    claims: Joined<Claim>,
    pods: Pods,
    budgets: Budgets,
    volumes: Volumes,
}

impl ClusterState {
    pub(crate) fn apply(&mut self, fact: Fact, touched: &mut BTreeSet<Key>) {
        match fact {
            Fact::Node(change) => {
                let moved = self.nodes.change(change, NodeState::of);
                self.touch(moved, Key::Node, touched);
            }
            Fact::Claim(change) => {
                let moved = self.claims.change(change, Claim::of);
                self.touch(moved, Key::Claim, touched);
            }
            Fact::Pod(change) => touched.extend(self.pods.change(change).into_iter().map(Key::Node)),
            Fact::Pdb(change) => self.budgets.change(change),
            Fact::Attachment(change) => {
                touched.extend(self.volumes.attachment_change(change).into_iter().map(Key::Node));
            }
            Fact::Volume(change) => self.volumes.volume_change(change),
        }
    }

    /// The objects themselves and everything that shares a provider id with them.
    fn touch(&self, moved: Vec<Moved>, key: impl Fn(Arc<str>) -> Key, touched: &mut BTreeSet<Key>) {
        for (name, provider_id) in moved {
            touched.insert(key(name));
            if let Some(id) = provider_id {
                touched.extend(self.nodes.names_with(&id).cloned().map(Key::Node));
                touched.extend(self.claims.names_with(&id).cloned().map(Key::Claim));
            }
        }
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Arc<NodeState>> {
        self.nodes.get(name)
    }

    pub(crate) fn claim(&self, name: &str) -> Option<&Arc<Claim>> {
        self.claims.get(name)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<NodeState>> {
        self.nodes.iter()
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.iter()
    }

    /// Everything that is being taken down.
    pub(crate) fn leaving(&self) -> BTreeSet<Key> {
        let nodes = self.nodes().filter(|node| node.is_leaving()).map(|node| Key::Node(node.name.clone()));
        let claims =
            self.claims().filter(|claim| claim.is_leaving()).map(|claim| Key::Claim(claim.name.clone()));
        nodes.chain(claims).collect()
    }

    /// By name. An empty provider id matches nothing.
    pub(crate) fn nodes_with(&self, provider_id: &str) -> Vec<Arc<NodeState>> {
        self.nodes.with(provider_id).cloned().collect()
    }

    pub(crate) fn claims_with(&self, provider_id: &str) -> Vec<Arc<Claim>> {
        self.claims.with(provider_id).cloned().collect()
    }

    /// The one claim of a node; several are as good as none.
    pub(crate) fn claim_of(&self, node: &NodeState) -> Option<Arc<Claim>> {
        let mut found = self.claims.with(node.provider_id.as_deref()?);
        let first = found.next()?;
        found.next().is_none().then(|| Arc::clone(first))
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<drain::Pod>> {
        self.pods.on(node).cloned().collect()
    }

    pub(crate) fn pdbs_in(&self, namespace: &str) -> Vec<Arc<Pdb>> {
        self.budgets.of(namespace).cloned().collect()
    }

    pub(crate) fn pdb(&self, namespace: &str, name: &str) -> Option<&Arc<Pdb>> {
        self.budgets.get(namespace, name)
    }

    /// The one budget that covers a pod. None, when several do: those are refused whatever they allow.
    pub(crate) fn budget_of(&self, pod: &drain::Pod) -> Option<Arc<Pdb>> {
        self.budgets.covering(pod)
    }

    /// Moves when a budget came, went or changed what it covers.
    pub(crate) fn pdb_coverage(&self) -> u64 {
        self.budgets.coverage()
    }

    pub(crate) fn attachments_of(&self, node: &str) -> Vec<Attachment> {
        self.volumes.attached_to(node)
    }
}

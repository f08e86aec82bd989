//! Pods as they weigh on their node's disruption. Who may be evicted is `drain`'s business; here are the few facts more that
//! choosing a node needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::eviction;

use super::blocked::PdbBlock;
use crate::drain::Pod;
use crate::drain::pdb::Pdb;
use crate::drain::pod::Owner;

/// A pod bound to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    pub pod: Pod,
    /// Owned by a StatefulSet: its successor cannot exist before it is gone.
    pub stateful: bool,
    /// From [`super::eviction_cost`].
    pub eviction_cost: i64,
}

impl Resident {
    /// Needs another place when the node goes.
    pub fn is_reschedulable(&self) -> bool {
        let stays_needed = self.pod.is_active() || (self.stateful && self.pod.deletion.is_some());
        stays_needed && !matches!(self.pod.owner, Owner::Daemon | Owner::Node)
    }

    /// Its own annotation forbids to disrupt the node. Daemons and mirror pods count; pods that are over or leaving do not.
    pub fn is_protected(&self, now: Timestamp) -> bool {
        self.pod.is_active() && self.pod.protection(now).is_active()
    }
}

/// All PodDisruptionBudgets, by namespace.
#[derive(Clone, Debug, Default)]
pub struct Pdbs(BTreeMap<Arc<str>, Vec<Arc<Pdb>>>);

impl FromIterator<Arc<Pdb>> for Pdbs {
    fn from_iter<I: IntoIterator<Item = Arc<Pdb>>>(all: I) -> Self {
        let mut map: BTreeMap<Arc<str>, Vec<Arc<Pdb>>> = BTreeMap::new();
        for pdb in all {
            map.entry(Arc::clone(&pdb.namespace)).or_default().push(pdb);
        }
        for list in map.values_mut() {
            list.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Self(map)
    }
}

impl Pdbs {
    /// Why the pod may not be evicted now, by the rule for candidates ([`eviction::holding`]).
    pub fn block(&self, pod: &Pod, now: Timestamp) -> Option<PdbBlock> {
        if !pod.is_evictable(now) {
            return None;
        }
        let covering = self.0.get(&pod.namespace)?.iter().filter(|pdb| pdb.selects(pod)).collect();
        let held = eviction::holding(
            covering,
            pod.unhealthy,
            |pdb: &&Arc<Pdb>| pdb.allowed > 0,
            |pdb| pdb.unhealthy_always,
        );
        match held.as_slice() {
            [] => None,
            [only] => {
                Some(PdbBlock::Spent { budget: only.key(), healthy: only.healthy, desired: only.desired })
            }
            several => Some(PdbBlock::Several(several.iter().map(|pdb| pdb.key()).collect())),
        }
    }
}

//! What holds nodes where they are, for a plan that would take some away.

use std::collections::BTreeSet;
use std::sync::Arc;

use consolidation::{PodFacts, PodIndex};
use jiff::Timestamp;
use model::labels;

use super::pods::PodKey;
use super::state::State;

/// As of one instant.
pub(crate) struct RemovalFacts {
    /// Of pods on nodes of ours, and of those that wait.
    pub(crate) facts: PodIndex,
    /// Nodes with `karpenter.sh/do-not-disrupt: "true"`, by the solver's name.
    pub(crate) nodes: BTreeSet<Arc<str>>,
}

impl State {
    pub(super) fn holding(&self, now: Timestamp) -> RemovalFacts {
        let ours = self.nodes.entries.values().filter(|e| e.node.managed());
        let on_ours = ours.flat_map(|entry| self.on.get(&entry.node.name).into_iter().flatten());
        let named = |key: &PodKey| (Arc::clone(&key.namespace), Arc::clone(&key.name));
        let facts = on_ours
            .chain(&self.pods.waiting)
            .filter_map(|key| Some((named(key), Arc::new(self.facts_of(key, now)?))))
            .collect();
        let held =
            |name: &&Arc<str>| self.nodes.annotation(name, labels::DO_NOT_DISRUPT) == Some(labels::TRUE);
        RemovalFacts { facts, nodes: self.nodes.entries.keys().filter(held).cloned().collect() }
    }

    fn facts_of(&self, key: &PodKey, now: Timestamp) -> Option<PodFacts> {
        let record = self.pods.records.get(key)?;
        let budgets = self.budgets.get(&*key.namespace).map_or(&[][..], Vec::as_slice);
        Some(PodFacts { obstacle: record.obstacle(budgets, now), eviction_cost: record.eviction_cost })
    }
}

//! The whole input of a decision, for building a snapshot anew, and the views beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pool::{ClusterInput, DaemonSet};
use model::quantity::Quantity;
use model::resources::{PODS, Resources};

use super::excerpt::shown;
use super::pods::{PodKey, Shown};
use super::pools;
use super::state::State;
use super::view::{Burden, Daemons, NodeView, PendingPod, PodFacts, PoolUsage};

impl State {
    pub(super) fn input(&self) -> ClusterInput {
        self.input_with(pools::usable(&self.pools, &self.offer, &self.nodes.held_reservations()))
    }

    pub(super) fn daemon_sets(&self) -> Vec<DaemonSet> {
        self.daemons.converted.values().cloned().collect()
    }

    pub(super) fn input_with(&self, pools: Vec<model::pool::NodePool>) -> ClusterInput {
        let mut pods = Vec::with_capacity(self.pods.records.len());
        for record in self.pods.records.values() {
            let node = match &record.shown {
                Shown::No => continue,
                Shown::Pending => None,
                Shown::On(node) => Some(node),
            };
            let forced = node.and_then(|name| self.nodes.entries.get(name)).is_some_and(|e| e.forced);
            pods.push(shown(&record.pod, node, forced));
        }
        pods.extend(self.buffers.all.iter().cloned());
        ClusterInput {
            pods,
            nodes: self.nodes.entries.values().map(|e| (*e.node).clone()).collect(),
            pools,
            daemon_sets: self.daemon_sets(),
            namespaces: self.namespaces.clone(),
            extra_well_known: Default::default(),
        }
    }

    pub(super) fn node_view(&self, name: &Arc<str>) -> Option<NodeView> {
        let entry = self.nodes.entries.get(name)?;
        let (mut requested, mut limits) = (Resources::new(), Resources::new());
        let (mut of_daemons, mut burden) = (Daemons::default(), Burden::default());
        let (mut pods, mut nominated) = (Vec::new(), Vec::new());
        for record in self.on.get(name).into_iter().flatten().filter_map(|key| self.pods.records.get(key)) {
            // Pods that are only meant for it are not on it.
            if record.pod.node.is_none() {
                nominated.push(Arc::clone(&record.pod));
                continue;
            }
            requested.add(&record.pod.spec.requests);
            burden.cost = burden.cost.saturating_add(record.eviction_cost);
            burden.protected |= record.pod.do_not_disrupt;
            burden.pods += usize::from(!record.pod.daemon);
            if let Some(own) = &record.told.limits {
                limits.add(own);
            }
            if record.pod.daemon {
                of_daemons.requested.add(&record.pod.spec.requests);
                if let Some(own) = &record.told.limits {
                    of_daemons.limits.add(own);
                }
            }
            pods.push(Arc::clone(&record.pod));
        }
        requested.insert(PODS, Quantity::from_units(i64::try_from(pods.len()).unwrap_or(i64::MAX)));
        Some(NodeView {
            node: Arc::clone(&entry.node),
            object: entry.object.clone(),
            launched: entry.launched,
            deleted: entry.deleted,
            created: entry.created,
            requested,
            limits,
            of_daemons,
            burden,
            pods,
            nominated,
            forced: entry.forced,
        })
    }

    pub(super) fn about(&self, namespace: &str, name: &str) -> Option<PodFacts> {
        let key = PodKey { namespace: Arc::from(namespace), name: Arc::from(name) };
        let record = self.pods.records.get(&key)?;
        let on = match &record.shown {
            Shown::On(node) => Some(Arc::clone(node)),
            _ => None,
        };
        Some(PodFacts {
            pod: (*record.pod).clone(),
            waiting: record.waiting_since.is_some(),
            on,
            refused: record.refusals.as_ref().map(|refusals| Arc::from(refusals.explained())),
        })
    }

    pub(super) fn usage(&self) -> BTreeMap<Arc<str>, PoolUsage> {
        let mut all: BTreeMap<Arc<str>, PoolUsage> = BTreeMap::new();
        for entry in self.nodes.entries.values() {
            let leaving = entry.node.state == model::node::NodeState::Deleting;
            let Some(pool) = entry.node.pool.as_ref().filter(|_| !leaving) else { continue };
            let usage = all.entry(Arc::clone(pool)).or_default();
            usage.capacity.add(&entry.node.capacity);
            if entry.launched {
                usage.launched.add(&entry.node.capacity);
                usage.nodes += 1;
            }
        }
        all
    }

    /// UIDs of pods on nodes that go.
    pub(super) fn leaving_pods(&self) -> BTreeMap<(Arc<str>, Arc<str>), Arc<str>> {
        let mut all = BTreeMap::new();
        let leaving = |e: &&super::nodes::Entry| e.node.state == model::node::NodeState::Deleting;
        for entry in self.nodes.entries.values().filter(leaving) {
            for key in self.on.get(&entry.node.name).into_iter().flatten() {
                if let Some(record) = self.pods.records.get(key).filter(|r| entry.moves(&r.pod)) {
                    let name = (Arc::clone(&key.namespace), Arc::clone(&key.name));
                    all.insert(name, Arc::clone(&record.pod.uid));
                }
            }
        }
        all
    }

    pub(super) fn pending(&self) -> Vec<PendingPod> {
        let mut all = Vec::with_capacity(self.pods.waiting.len());
        for key in &self.pods.waiting {
            let Some(record) = self.pods.records.get(key) else { continue };
            let nominated = match &record.shown {
                Shown::On(node) => Some(Arc::clone(node)),
                _ => None,
            };
            all.push(PendingPod {
                pod: Arc::clone(&record.pod),
                namespace: Arc::clone(&key.namespace),
                name: Arc::clone(&key.name),
                uid: Arc::clone(&record.pod.uid),
                since: record.waiting_since.unwrap_or_default(),
                nominated,
                rejected: record.pod.rejected.as_deref().map(Arc::from),
                refused: record.refusals.as_ref().map(|refusals| Arc::from(refusals.explained())),
            });
        }
        all
    }
}

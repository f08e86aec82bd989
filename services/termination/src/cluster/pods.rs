//! Bound pods, by uid and by node. Pods without a node hold none up and are not kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use policy::drain;
use runtime::watch::Change;

use super::bound_pod::BoundPod;

#[derive(Default)]
pub(super) struct Pods {
    /// Uid to node.
    home: HashMap<Arc<str>, Arc<str>>,
    /// Node to uid to pod.
    by_node: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<drain::Pod>>>,
    labels: residents::Labels,
}

impl Pods {
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &Arc<drain::Pod>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// The nodes whose pods are not the same any more.
    pub(super) fn change(&mut self, change: Change<BoundPod>) -> BTreeSet<Arc<str>> {
        let mut nodes = BTreeSet::new();
        match change {
            Change::Applied(pod) => self.put(&pod, &mut nodes),
            Change::Deleted(pod) => {
                if let Some(uid) = pod.metadata.uid.as_deref() {
                    self.remove(uid, &mut nodes);
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.home.keys().cloned().collect();
                for pod in &all {
                    if let Some(uid) = pod.metadata.uid.as_deref() {
                        gone.remove(uid);
                    }
                    self.put(pod, &mut nodes);
                }
                for uid in gone {
                    self.remove(&uid, &mut nodes);
                }
                self.labels.forget_unused();
            }
        }
        nodes
    }

    fn put(&mut self, pod: &BoundPod, nodes: &mut BTreeSet<Arc<str>>) {
        let Some((node, state)) = pod.resident(&mut self.labels) else { return };
        let uid = state.uid.clone();
        self.by_node.entry(node.clone()).or_default().insert(uid.clone(), Arc::new(state));
        self.home.insert(uid, node.clone());
        nodes.insert(node);
    }

    fn remove(&mut self, uid: &str, nodes: &mut BTreeSet<Arc<str>>) {
        let Some(node) = self.home.remove(uid) else { return };
        if let Some(own) = self.by_node.get_mut(&node) {
            own.remove(uid);
            if own.is_empty() {
                self.by_node.remove(&node);
            }
        }
        nodes.insert(node);
    }
}

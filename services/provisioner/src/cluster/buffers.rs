//! Placeholders of CapacityBuffers in the cluster's state: pods without a place that no API object stands for.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pod::Pod;

use super::ClusterHandle;
use super::actor::Message;
use super::state::State;
use crate::buffers::BufferKey;

/// Which buffer a placeholder belongs to, by the placeholder's namespace and name.
pub(crate) type Placeholders = BTreeMap<(Arc<str>, Arc<str>), BufferKey>;

#[derive(Default)]
pub(super) struct Buffers {
    pods: BTreeMap<BufferKey, Vec<Pod>>,
    pub(super) owners: Arc<Placeholders>,
    /// Of all buffers; shared with views.
    pub(super) all: Arc<Vec<Pod>>,
}

impl State {
    /// `pods` replace what the buffer stood for.
    pub(super) fn set_buffer(&mut self, key: BufferKey, pods: Vec<Pod>) {
        let old = self.buffers.pods.get(&key).map_or(&[][..], Vec::as_slice);
        if old == pods.as_slice() {
            return;
        }
        let old = self.buffers.pods.remove(&key).unwrap_or_default();
        let owners = Arc::make_mut(&mut self.buffers.owners);
        for pod in old {
            owners.remove(&(Arc::clone(&pod.namespace), Arc::clone(&pod.name)));
            self.delta.push(solver::Change::PodRemoved {
                namespace: pod.namespace,
                name: pod.name,
                node: None,
            });
        }
        for pod in &pods {
            owners.insert((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), key.clone());
            self.delta.push(solver::Change::PodAdded(pod.clone()));
        }
        // Also without any: the decision gives free the nodes that the buffer held.
        self.triggers.push((Arc::clone(&key.1), false));
        if !pods.is_empty() {
            self.buffers.pods.insert(key, pods);
        }
        self.buffers.all = Arc::new(self.buffers.pods.values().flatten().cloned().collect());
        self.delta.any = true;
    }

    /// Pods that run may have taken the room.
    pub(super) fn look_at_buffers(&mut self) {
        let names: Vec<_> = self.buffers.pods.keys().map(|(_, name)| (Arc::clone(name), false)).collect();
        self.triggers.extend(names);
    }
}

impl ClusterHandle {
    /// What the buffer stands for from now on.
    pub(crate) async fn set_buffer(&self, key: BufferKey, pods: Vec<Pod>) {
        let _ = self.inbox.send(Message::Buffer { key, pods }).await;
    }

    /// Buffers are to be decided about again.
    pub(crate) async fn look_at_buffers(&self) {
        let _ = self.inbox.send(Message::LookAtBuffers).await;
    }
}

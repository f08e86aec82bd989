//! Carrying changes of the cluster over to a new snapshot. What did not change is shared with the old one.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::node::Node;
use model::pod::Pod;
use model::taint::Effect;

use crate::classes::Registry;
use crate::nodes::{NodeData, PodEntry};
use crate::plan::PodRef;
use crate::snapshot::{Snapshot, block_most, entry, node_data};
use crate::world::World;

/// One change. Whoever watches the cluster knows the old state of an object and says where it was.
#[derive(Clone, Debug)]
pub enum Change {
    /// A pod appeared, or was bound: `pod.node` says where it is now.
    PodAdded(Pod),
    /// A pod is gone from where it was.
    PodRemoved { namespace: Arc<str>, name: Arc<str>, node: Option<Arc<str>> },
    /// A node appeared or changed; its pods stay.
    NodeSet(Node),
    /// A node is gone, with its pods.
    NodeRemoved(Arc<str>),
}

/// The change does not fit what the snapshot was compiled for (a resource, a selector or a soft taint that was unknown when it
/// was built): build a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsRebuild;

impl Snapshot {
    /// A snapshot with the changes made, in order.
    pub fn apply(&self, changes: &[Change]) -> Result<Self, NeedsRebuild> {
        let mut world = self.changing();
        let mut stale = false;
        for change in changes {
            let of_node = matches!(change, Change::NodeSet(_) | Change::NodeRemoved(_));
            // Pods find their nodes by index, so the list must be in order for them; a run of changes of nodes needs that once.
            if stale && !of_node {
                world.order_nodes();
            }
            stale = of_node;
            match change {
                Change::PodAdded(pod) => world.add_pod(pod)?,
                Change::PodRemoved { namespace, name, node } => {
                    world.remove_pod(namespace, name, node.as_deref())
                }
                Change::NodeSet(node) => world.set_node(node)?,
                Change::NodeRemoved(name) => world.nodes.retain(|n| n.name != *name),
            }
        }
        if stale {
            world.order_nodes();
        }
        Ok(Self { world: Arc::new(world) })
    }

    /// A copy of the world that forgets what any change may alter.
    fn changing(&self) -> World {
        let mut world = (*self.world).clone();
        world.lazy.forget_pods();
        world
    }

    /// This snapshot with some more pending pods.
    pub(crate) fn with_pending(&self, pods: &[Pod]) -> Result<Self, NeedsRebuild> {
        let mut world = self.changing();
        for pod in pods {
            world.add_pod(pod)?;
        }
        Ok(Self { world: Arc::new(world) })
    }
}

impl World {
    fn order_nodes(&mut self) {
        self.nodes.sort_by(|a, b| a.order().cmp(&b.order()));
        self.refresh_nodes();
    }

    fn add_pod(&mut self, pod: &Pod) -> Result<(), NeedsRebuild> {
        if let (Some(why), None) = (&pod.rejected, &pod.node) {
            let key = PodRef { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) };
            Arc::make_mut(&mut self.rejected).push((key, why.clone()));
            return Ok(());
        }
        if !self.dims.covers(&pod.spec.requests)
            || !self.dims.covers_volumes(&pod.volumes)
            || !self.classes.knows_selectors_of(&pod.spec)
        {
            return Err(NeedsRebuild);
        }
        let (old_classes, old_groups) = (self.classes.list.len(), self.groups.list.len());
        let class = match self.classes.find(pod) {
            Some(known) => known,
            None => {
                let mut registry = Registry {
                    sets: Arc::make_mut(&mut self.sets),
                    groups: Arc::make_mut(&mut self.groups),
                    dims: &self.dims,
                    namespaces: &*self.namespaces,
                    soft_taints: self.soft_taints,
                };
                Arc::make_mut(&mut self.classes).add(pod, &mut registry)
            }
        };
        self.grow(old_classes, old_groups);
        let entry = entry(pod, class, &mut BTreeSet::new());
        match pod.node.as_deref() {
            None => Arc::make_mut(&mut self.pending).push(entry),
            Some(name) => {
                if let Some(index) = self.node_index(name) {
                    self.change_node(index, |node| node.pods.push(entry));
                }
            }
        }
        Ok(())
    }

    fn remove_pod(&mut self, namespace: &str, name: &str, node: Option<&str>) {
        let other = |p: &PodEntry| &*p.namespace != namespace || &*p.name != name;
        match node {
            None => {
                Arc::make_mut(&mut self.pending).retain(other);
                Arc::make_mut(&mut self.rejected)
                    .retain(|(p, _)| &*p.namespace != namespace || &*p.name != name);
            }
            Some(on) => {
                if let Some(index) = self.node_index(on) {
                    self.change_node(index, |node| node.pods.retain(other));
                }
            }
        }
    }

    /// Changes the pods of one node, and with them its free room and the topology counts.
    fn change_node(&mut self, index: u32, change: impl FnOnce(&mut NodeData)) {
        self.count_one(index, -1);
        let node = Arc::make_mut(&mut self.nodes[index as usize]);
        change(node);
        let node = Arc::clone(&self.nodes[index as usize]);
        let node = self.with_usage(&node);
        self.nodes[index as usize] = Arc::new(node);
        self.count_one(index, 1);
        let dims = self.dims.len();
        let free = self.free_of(&self.nodes[index as usize]);
        let columns = Arc::make_mut(&mut self.free);
        columns[index as usize * dims..(index as usize + 1) * dims].copy_from_slice(&free);
        let block = index as usize / 64;
        let end = columns.len().min((block + 1) * 64 * dims);
        let most = block_most(&columns[block * 64 * dims..end], dims);
        Arc::make_mut(&mut self.block_most)[block * dims..(block + 1) * dims].copy_from_slice(&most);
    }

    fn count_one(&mut self, node: u32, by: i32) {
        let data = Arc::clone(&self.nodes[node as usize]);
        let mut counts = std::mem::take(&mut self.counts);
        let all = Arc::make_mut(&mut counts);
        for pod in data.pods.iter().filter(|p| p.counts_for_topology(data.deleting())) {
            let class = self.classes.get(pod.class);
            for &group in &class.selected {
                if let Some(place) = self.place_of(group, node) {
                    Arc::make_mut(&mut all[group as usize]).add_selected(place, by);
                }
            }
            for &group in class.stated_anti() {
                if let Some(place) = self.place_of(group, node) {
                    Arc::make_mut(&mut all[group as usize]).add_stating(place, by);
                }
            }
        }
        self.counts = counts;
    }

    fn with_usage(&self, node: &NodeData) -> NodeData {
        let mut out = node.clone();
        out.ports.clear();
        out.attachments.clear();
        for pod in &node.pods {
            let class = self.classes.get(pod.class);
            out.ports.extend(class.ports.iter().copied());
            out.attachments.extend(class.attachments.iter().cloned());
        }
        out.attachments.sort_unstable();
        out.attachments.dedup();
        out
    }

    fn set_node(&mut self, node: &Node) -> Result<(), NeedsRebuild> {
        let soft = node.taints.iter().any(|t| t.effect == Effect::PreferNoSchedule);
        if soft && !self.soft_taints {
            return Err(NeedsRebuild);
        }
        let old = self.node_index(&node.name);
        let pods = old.map(|index| self.nodes[index as usize].pods.clone()).unwrap_or_default();
        let sets = Arc::make_mut(&mut self.sets);
        let data = node_data(node, pods, &self.dims, sets, &self.classes, &self.daemons, &self.prices);
        match old {
            Some(index) => self.nodes[index as usize] = Arc::new(data),
            None => self.nodes.push(Arc::new(data)),
        }
        Ok(())
    }
}

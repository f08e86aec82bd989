//! The cluster as commands leave it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::labels;
use model::node::{Node, NodeState};
use model::pod::Pod;
use model::pool::{ClusterInput, NodePool};
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::{HUGE_PAGES_PREFIX, MEMORY, Resources};
use solver::{Change, NewNode, Plan, PodRef, Snapshot};

use crate::launch::{options_of, price_in};
use crate::name_of;

pub(super) struct State {
    /// Pods that go with their node stay in the list, on a node that is not in the other.
    pub(super) input: ClusterInput,
    /// Index of each pod in the input's list.
    index: BTreeMap<String, usize>,
    /// Index of each node in the input's list.
    nodes: BTreeMap<Arc<str>, usize>,
    /// Indices of the pods of each node.
    on_node: BTreeMap<Arc<str>, Vec<usize>>,
    /// By pod: how often commands moved it.
    times_moved: Vec<u32>,
    /// As of the last question, and what has happened since.
    snapshot: Option<Snapshot>,
    changes: Vec<Change>,
}

impl State {
    /// The input with the plan carried out, and every node quiet.
    pub(super) fn new(mut input: ClusterInput, plan: &Plan) -> Self {
        for node in &mut input.nodes {
            (node.settling, node.nominated) = (false, false);
        }
        let index = input.pods.iter().enumerate().map(|(i, pod)| (pod.key(), i)).collect();
        let nodes = input.nodes.iter().enumerate().map(|(i, node)| (Arc::clone(&node.name), i)).collect();
        let mut on_node: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (number, pod) in input.pods.iter().enumerate() {
            if let Some(node) = &pod.node {
                on_node.entry(Arc::clone(node)).or_default().push(number);
            }
        }
        let times_moved = vec![0; input.pods.len()];
        let mut state =
            Self { input, index, nodes, on_node, times_moved, snapshot: None, changes: Vec::new() };
        for (number, node) in plan.new_nodes.iter().enumerate() {
            let name = state.launch(node, number);
            for pod in &node.pods {
                state.bind(&pod.to_string(), &name);
            }
        }
        for existing in &plan.existing {
            for pod in &existing.pods {
                state.bind(&pod.to_string(), &existing.node);
            }
        }
        state
    }

    fn bind(&mut self, pod: &str, node: &Arc<str>) {
        if let Some(&index) = self.index.get(pod) {
            let pod = &mut self.input.pods[index];
            // Pods that are placed now can be moved later.
            pod.reschedulable |=
                pod.node.is_none() && !pod.bound_to_node && !pod.do_not_disrupt && !pod.buffer;
            let before = pod.node.replace(Arc::clone(node));
            if let Some(pods) = before.and_then(|before| self.on_node.get_mut(&before)) {
                pods.retain(|other| *other != index);
            }
            self.on_node.entry(Arc::clone(node)).or_default().push(index);
        }
    }

    /// The cluster as it is now. Only what the commands since the last call changed is worked out anew.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let changes = std::mem::take(&mut self.changes);
        let known = self.snapshot.take();
        let updated = match known {
            Some(known) if changes.is_empty() => Some(known),
            known => known.and_then(|known| known.apply(&changes).ok()),
        };
        let snapshot = updated.unwrap_or_else(|| Snapshot::build(self.input.clone()));
        self.snapshot = Some(snapshot.clone());
        snapshot
    }

    pub(super) fn is_pending(&self, namespace: &str, name: &str) -> bool {
        let index = self.index.get(&format!("{namespace}/{name}"));
        index.is_some_and(|&i| self.input.pods[i].node.is_none())
    }

    pub(super) fn node_of(&self, pod: &str) -> Option<Arc<str>> {
        self.index.get(pod).and_then(|&i| self.input.pods[i].node.clone())
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).map(|&index| &self.input.nodes[index])
    }

    pub(super) fn pods_on(&self, node: &str) -> Vec<&Pod> {
        let pods = self.on_node.get(node).into_iter().flatten();
        pods.map(|&index| &self.input.pods[index]).collect()
    }

    /// A pod on the node that commands moved so often already.
    pub(super) fn pod_moved(&self, times: u32, node: &str) -> Option<&Pod> {
        let mut pods = self.on_node.get(node).into_iter().flatten();
        pods.find(|&&index| self.times_moved[index] >= times).map(|&index| &self.input.pods[index])
    }

    /// What all nodes of ours cost an hour.
    pub(super) fn hourly(&self) -> MicroDollars {
        self.input.nodes.iter().filter(|n| n.managed()).filter_map(|n| price_in(&self.input, n)).sum()
    }

    pub(super) fn price_of(&self, node: &str) -> MicroDollars {
        self.node(node).and_then(|n| price_in(&self.input, n)).unwrap_or(MicroDollars::ZERO)
    }

    /// Brings up a node, without pods. Its reservation, if it has one, is used up by one.
    pub(super) fn launch(&mut self, node: &NewNode, number: usize) -> Arc<str> {
        let name: Arc<str> = Arc::from(name_of(number));
        if let Some(launched) = launched(node, &name, &self.input.pools) {
            self.changes.push(Change::NodeSet(launched.clone()));
            self.nodes.insert(Arc::clone(&name), self.input.nodes.len());
            self.input.nodes.push(launched);
        }
        if let Some(id) = &node.launch.reservation {
            // The catalogue changes with it.
            self.snapshot = None;
            for pool in &mut self.input.pools {
                for kind in Arc::make_mut(&mut pool.instance_types) {
                    for offering in &mut kind.offerings {
                        if let Some(reservation) = offering.reservation.as_mut().filter(|r| r.id == *id) {
                            reservation.capacity = reservation.capacity.saturating_sub(1);
                        }
                    }
                }
            }
        }
        name
    }

    /// Takes nodes away. Their pods go to where `targets` says; daemons and the like go with their node. Returns the pods that
    /// moved, and from where.
    pub(super) fn remove(
        &mut self,
        nodes: &[Arc<str>],
        targets: &BTreeMap<String, Arc<str>>,
    ) -> Vec<(PodRef, Arc<str>)> {
        self.changes.extend(nodes.iter().cloned().map(Change::NodeRemoved));
        let mut moved = Vec::new();
        for node in nodes {
            self.forget(node);
            for index in self.on_node.remove(node).unwrap_or_default() {
                let pod = &mut self.input.pods[index];
                let Some(to) = targets.get(&pod.key()) else { continue };
                pod.node = Some(Arc::clone(to));
                self.times_moved[index] += 1;
                self.changes.push(Change::PodAdded(pod.clone()));
                let (namespace, name) = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
                moved.push((PodRef { namespace, name }, Arc::clone(node)));
                self.on_node.entry(Arc::clone(to)).or_default().push(index);
            }
        }
        moved
    }

    fn forget(&mut self, node: &Arc<str>) {
        let Some(index) = self.nodes.remove(node) else { return };
        self.input.nodes.swap_remove(index);
        if let Some(other) = self.input.nodes.get(index) {
            self.nodes.insert(Arc::clone(&other.name), index);
        }
    }
}

fn launched(node: &NewNode, name: &Arc<str>, pools: &[NodePool]) -> Option<Node> {
    let pool = pools.iter().find(|p| p.name == node.pool)?;
    let kind = options_of(pool, &node.launch.instance_type)?;
    let mut own = pool.labels.clone();
    own.extend(node.requirements.labels());
    own.extend(kind.requirements.labels());
    own.extend(pool.node_class_label.clone());
    let offering = kind.offerings.iter().find(|o| {
        o.zone == node.launch.zone
            && o.capacity_type == node.launch.capacity_type
            && o.reservation.as_ref().map(|r| &r.id) == node.launch.reservation.as_ref()
    });
    let mut put = |key: &str, value: &str| {
        own.insert(key.to_owned(), value.to_owned());
    };
    put(labels::NODEPOOL, &node.pool);
    put(labels::HOSTNAME, name);
    put(labels::INSTANCE_TYPE, &node.launch.instance_type);
    put(labels::ZONE, &node.launch.zone);
    put(labels::CAPACITY_TYPE, node.launch.capacity_type.as_str());
    put(labels::REGISTERED, labels::TRUE);
    put(labels::INITIALIZED, labels::TRUE);
    if let Some(id) = offering.and_then(|o| o.zone_id.as_deref()) {
        put(labels::ZONE_ID, id);
    }
    if let Some(id) = &node.launch.reservation {
        put(labels::CAPACITY_RESERVATION_ID, id);
    }
    Some(Node {
        name: Arc::clone(name),
        claim: Some(Arc::clone(name)),
        pool: Some(Arc::clone(&node.pool)),
        labels: own,
        taints: pool.taints.clone(),
        startup_taints: Vec::new(),
        allocatable: allocatable(&kind.capacity, &kind.overhead),
        capacity: kind.capacity.clone(),
        state: NodeState::Ready,
        registered: true,
        initialized: true,
        nominated: false,
        settling: false,
        csi_limits: BTreeMap::new(),
    })
}

/// Capacity less overhead, and memory less what is set aside as huge pages; never negative.
pub(super) fn allocatable(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut free = capacity.clone();
    free.sub(overhead);
    let huge: Quantity =
        capacity.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES_PREFIX)).map(|(_, q)| q).sum();
    let memory = free.get(MEMORY) - huge;
    free.insert(MEMORY, memory);
    free.into_iter().map(|(name, q)| (name, if q.is_negative() { Quantity::ZERO } else { q })).collect()
}

//! Building a snapshot from plain input.

mod prices;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::node::Node;
use model::pod::Pod;
use model::pool::{ClusterInput, NodePool};
use model::price::MicroDollars;
use model::resources::Resources;
use model::taint::{Effect, Taint};
use packing::Bits;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::NodeId;
use crate::cells::Cells;
use crate::classes::{ClassId, Classes, Registry, selector_keys};
use crate::dims::{AttachLimits, Dims};
use crate::nodes::{NodeData, PodEntry, expects, labels_of};
use crate::plan::PodRef;
use crate::pools::{PoolData, PoolInput, counted};
use crate::reach::WellKnown;
use crate::sets::Sets;
use crate::table::TypeTable;
use crate::topology::groups::{Groups, NO_DOMAIN};
use crate::world::{KnownNamespaces, Lazy, World, universe};
pub(crate) use prices::PriceList;

/// An immutable view of a cluster, ready for any number of questions at once. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) world: Arc<World>,
}

impl Snapshot {
    pub fn build(input: ClusterInput) -> Self {
        let soft = |taints: &[Taint]| taints.iter().any(|t| t.effect == Effect::PreferNoSchedule);
        let soft_taints =
            input.pools.iter().any(|p| soft(&p.taints)) || input.nodes.iter().any(|n| soft(&n.taints));
        let requests = input.pods.iter().map(|p| &p.spec.requests);
        let types = input.pools.iter().flat_map(|pool| pool.instance_types.iter());
        let dims = Dims::new(requests.chain(input.daemon_sets.iter().map(|d| &d.pod.requests)))
            .with_volumes(types.map(|t| &t.attach_limits), input.pods.iter().flat_map(|p| &p.volumes));
        let well_known = WellKnown(input.extra_well_known);
        let (cells, tables, table_of) = tables(&input.pools, &dims);
        let pool_input =
            PoolInput { cells: &cells, dims: &dims, well_known: &well_known, daemons: &input.daemon_sets };
        let mut pools: Vec<PoolData> = input
            .pools
            .iter()
            .zip(&table_of)
            .map(|(pool, &table)| PoolData::new(pool, table, &tables[table], &pool_input))
            .collect();
        pools.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));

        let seen: BTreeSet<String> = input.pods.iter().map(|p| p.namespace.to_string()).collect();
        let namespaces = KnownNamespaces::new(input.namespaces, seen);
        let (mut sets, mut groups) = (Sets::default(), Groups::default());
        let mut classes = Classes::new(relevant_keys(&input.pods));
        let mut registry = Registry {
            sets: &mut sets,
            groups: &mut groups,
            dims: &dims,
            namespaces: &namespaces,
            soft_taints,
        };
        let mut shared: FxHashMap<(usize, Arc<str>), ClassId> = FxHashMap::default();
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        let (mut pending, mut rejected) = (Vec::new(), Vec::new());
        let mut bound: FxHashMap<Arc<str>, Vec<PodEntry>> = FxHashMap::default();
        for pod in &input.pods {
            if let (Some(why), None) = (&pod.rejected, &pod.node) {
                rejected.push((
                    PodRef { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) },
                    why.clone(),
                ));
                continue;
            }
            let class = if pod.volumes.is_empty() && !pod.buffer {
                let key = (Arc::as_ptr(&pod.spec) as usize, Arc::clone(&pod.namespace));
                *shared.entry(key).or_insert_with(|| classes.add(pod, &mut registry))
            } else {
                classes.add(pod, &mut registry)
            };
            let entry = entry(pod, class, &mut names);
            match &pod.node {
                None => pending.push(entry),
                Some(node) => bound.entry(Arc::clone(node)).or_default().push(entry),
            }
        }
        groups.link(&mut classes.list, 0, 0);

        let prices = PriceList::of(&input.pools);
        let mut nodes: Vec<NodeData> = Vec::with_capacity(input.nodes.len());
        for node in &input.nodes {
            let pods = bound.remove(&node.name).unwrap_or_default();
            nodes.push(node_data(node, pods, &dims, &mut sets, &classes, &input.daemon_sets, &prices));
        }
        nodes.sort_by(|a, b| a.order().cmp(&b.order()));
        let universe = universe(&mut groups, &pools, &tables, &cells);

        let mut world = World {
            dims: Arc::new(dims),
            well_known: Arc::new(well_known),
            cells: Arc::new(cells),
            tables: Arc::new(tables),
            pools: Arc::new(pools),
            daemons: Arc::new(input.daemon_sets),
            namespaces: Arc::new(namespaces),
            sets: Arc::new(sets),
            classes: Arc::new(classes),
            groups: Arc::new(groups),
            universe: Arc::new(universe),
            soft_taints,
            nodes: nodes.into_iter().map(Arc::new).collect(),
            free: Arc::default(),
            block_most: Arc::default(),
            open: Arc::default(),
            deleting: Arc::default(),
            node_domains: Arc::default(),
            counts: Arc::default(),
            pending: Arc::new(pending),
            rejected: Arc::new(rejected),
            prices: Arc::new(prices),
            limits_left: Arc::default(),
            lazy: Lazy::default(),
        };
        world.refresh_nodes();
        Self { world: Arc::new(world) }
    }

    /// Valid for this snapshot only.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.world.node_index(name).map(NodeId)
    }

    pub fn node_count(&self) -> usize {
        self.world.nodes.len()
    }

    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> {
        (0..self.world.nodes.len() as u32).map(NodeId)
    }

    pub fn node_name(&self, node: NodeId) -> &Arc<str> {
        &self.world.nodes[node.0 as usize].name
    }

    /// What the node costs an hour, where its type, zone and capacity type are in the catalogue.
    pub fn node_price(&self, node: NodeId) -> Option<MicroDollars> {
        self.world.nodes[node.0 as usize].price
    }

    /// Pods of the node that would need a new place.
    pub fn reschedulable_pods(&self, node: NodeId) -> impl Iterator<Item = PodRef> + '_ {
        self.world.nodes[node.0 as usize].pods.iter().filter(|p| p.reschedulable).map(PodEntry::key)
    }

    pub fn pending_count(&self) -> usize {
        self.world.pending.len()
    }

    /// Distinct kinds of pods; the work of a solve grows with this, not with replicas.
    pub fn class_count(&self) -> usize {
        self.world.classes.list.len()
    }

    /// Pools whose own requirements leave no instance type at all.
    pub fn pools_without_types(&self) -> impl Iterator<Item = &Arc<str>> {
        self.world.pools.iter().filter(|p| p.excludes_everything && !p.fixed_size).map(|p| &p.name)
    }
}

impl World {
    /// Brings everything up to date after classes (and with them groups, keys and sets) were added.
    pub(crate) fn grow(&mut self, old_classes: usize, old_groups: usize) {
        if self.classes.list.len() == old_classes {
            return;
        }
        let new_keys = self.groups.keys.len() > self.universe.len();
        self.groups.link(&mut Arc::make_mut(&mut self.classes).list, old_classes, old_groups);
        self.lazy.grow(&self.sets);
        if self.groups.list.len() == old_groups {
            return;
        }
        if new_keys {
            let groups = Arc::make_mut(&mut self.groups);
            self.universe = Arc::new(universe(groups, &self.pools, &self.tables, &self.cells));
        }
        self.refresh_nodes();
    }

    /// Recomputes everything that follows from the list of nodes.
    pub(crate) fn refresh_nodes(&mut self) {
        self.lazy.grow(&self.sets);
        self.lazy.forget_nodes();
        let dims = self.dims.len();
        let mut free = Vec::with_capacity(self.nodes.len() * dims);
        for node in &self.nodes {
            free.extend(self.free_of(node));
        }
        self.block_most = Arc::new(block_most(&free, dims));
        self.free = Arc::new(free);
        let mut open = Bits::new(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            if !node.deleting() {
                open.set(index);
            }
        }
        self.deleting = Arc::new((0..self.nodes.len() as u32).filter(|n| !open.has(*n as usize)).collect());
        self.open = Arc::new(open);
        let groups = Arc::make_mut(&mut self.groups);
        let mut domains = Vec::with_capacity(groups.keys.len());
        for key in &mut groups.keys {
            let of_node = |node: &Arc<NodeData>| match node.labels.get(&key.name) {
                Some(value) if !key.host => key.add(value, &self.cells),
                _ => NO_DOMAIN,
            };
            domains.push(self.nodes.iter().map(of_node).collect());
        }
        self.node_domains = Arc::new(domains);
        self.limits_left = Arc::new(self.limits_left());
        self.counts = Arc::new(self.count_all().into_iter().map(Arc::new).collect());
    }

    pub(crate) fn free_of(&self, node: &NodeData) -> Vec<i64> {
        let mut free = node.allocatable.to_vec();
        let mut due = node.expected_daemons.to_vec();
        for pod in &node.pods {
            let requests = &self.classes.get(pod.class).requests;
            for dim in 0..free.len() {
                free[dim] = free[dim].saturating_sub(requests[dim]);
                if pod.daemon {
                    due[dim] -= requests[dim];
                }
            }
        }
        for (left, due) in free.iter_mut().zip(due) {
            *left = left.saturating_sub(due.max(0));
        }
        free
    }

    fn limits_left(&self) -> Vec<(Vec<i64>, Option<i64>)> {
        let mut used: FxHashMap<&str, (Vec<&Resources>, i64)> = FxHashMap::default();
        for node in self.nodes.iter().filter(|n| !n.deleting()) {
            if let Some(pool) = &node.pool {
                let entry = used.entry(pool).or_default();
                entry.0.push(&node.capacity);
                entry.1 += 1;
            }
        }
        let of_pool = |pool: &PoolData| {
            let (nodes, count) = used.get(&*pool.name).map_or((&[][..], 0), |(n, c)| (&n[..], *c));
            let left = |limit: &crate::pools::Limit| {
                nodes.iter().fold(limit.limit, |left, c| left.saturating_sub(counted(c, &limit.resource)))
            };
            (pool.limits.iter().map(left).collect(), pool.max_nodes.map(|most| most - count))
        };
        self.pools.iter().map(of_pool).collect()
    }
}

/// By block of 64 nodes: the most that any of them has free, by column.
pub(crate) fn block_most(free: &[i64], dims: usize) -> Vec<i64> {
    let mut out = Vec::new();
    for block in free.chunks(64 * dims) {
        let start = out.len();
        out.extend_from_slice(&block[..dims]);
        for node in block.chunks(dims) {
            for (most, amount) in out[start..].iter_mut().zip(node) {
                *most = (*most).max(*amount);
            }
        }
    }
    out
}

/// One table per distinct offer.
fn tables(pools: &[NodePool], dims: &Dims) -> (Cells, Vec<TypeTable>, Vec<usize>) {
    let mut cells = Cells::default();
    let mut tables: Vec<TypeTable> = Vec::new();
    let mut table_of = Vec::new();
    for pool in pools {
        let known = tables.iter().position(|t| Arc::ptr_eq(&t.types, &pool.instance_types));
        table_of.push(known.unwrap_or_else(|| {
            tables.push(TypeTable::new(&pool.instance_types, &mut cells, dims));
            tables.len() - 1
        }));
    }
    for table in &mut tables {
        table.widen(cells.len());
    }
    (cells, tables, table_of)
}

fn relevant_keys(pods: &[Pod]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut last: *const model::pod::PodSpec = std::ptr::null();
    for pod in pods {
        let spec = Arc::as_ptr(&pod.spec);
        if spec != last {
            selector_keys(&pod.spec, &mut keys);
            last = spec;
        }
    }
    keys
}

pub(crate) fn entry(pod: &Pod, class: ClassId, names: &mut BTreeSet<Arc<str>>) -> PodEntry {
    let namespace = names.get(&pod.namespace).cloned().unwrap_or_else(|| {
        names.insert(Arc::clone(&pod.namespace));
        Arc::clone(&pod.namespace)
    });
    PodEntry {
        namespace,
        name: Arc::clone(&pod.name),
        uid: Arc::clone(&pod.uid),
        created: pod.created,
        class,
        terminating: pod.terminating,
        daemon: pod.daemon,
        reschedulable: pod.reschedulable && !pod.bound_to_node,
    }
}

pub(crate) fn node_data(
    node: &Node,
    pods: Vec<PodEntry>,
    dims: &Dims,
    sets: &mut Sets,
    classes: &Classes,
    daemons: &[model::pool::DaemonSet],
    prices: &PriceList,
) -> NodeData {
    let labels = labels_of(node);
    let mut expected = vec![0; dims.len()].into_boxed_slice();
    for daemon in daemons.iter().filter(|d| expects(node, &labels, d)) {
        for (sum, amount) in expected.iter_mut().zip(dims.requests(&daemon.pod.requests)) {
            *sum += amount;
        }
    }
    let mut ports = SmallVec::new();
    let mut attachments = Vec::new();
    for pod in &pods {
        let class = classes.get(pod.class);
        ports.extend(class.ports.iter().copied());
        attachments.extend(class.attachments.iter().cloned());
    }
    attachments.sort_unstable();
    attachments.dedup();
    NodeData {
        name: Arc::clone(&node.name),
        taints: sets.taints.add(node.scheduling_taints().cloned().collect()),
        pool: node.pool.clone(),
        state: node.state,
        registered: node.registered,
        initialized: node.initialized,
        managed: node.managed(),
        settling: node.settling,
        capacity: node.capacity.clone(),
        // Limits of a node that exists are `csi_limits`.
        allocatable: dims.capacity(&node.allocatable, &AttachLimits::new()),
        expected_daemons: expected,
        csi_limits: node.csi_limits.iter().map(|(driver, count)| (Arc::clone(driver), *count)).collect(),
        price: prices.of_node(node),
        pods,
        ports,
        attachments,
        labels: Arc::new(labels),
    }
}

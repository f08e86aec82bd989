//! The state of one decision: overlays over the world, and the new nodes so far.

use std::cell::RefCell;

use model::pod::HostPort;
use packing::Bits;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::bin::{Bin, Item};
use super::demand::{Demand, DemandId};
use super::ledger::Ledger;
use crate::classes::{ClassData, ClassId, Variant};
use crate::dims::fits;
use crate::options::Options;
use crate::sets::{ReqSetId, TolSetId};
use crate::table::NO_PRICE;
use crate::topology::group::{GroupId, Kind};
use crate::topology::groups::{DomainId, TopoKeyId};
use crate::world::World;

type PriceKey = (ClassId, ReqSetId, TolSetId, TopoKeyId, DomainId);

pub(crate) struct State<'w> {
    pub(crate) world: &'w World,
    pub(crate) options: &'w Options,
    pub(crate) demands: &'w [Demand<'w>],
    pub(crate) ledger: Ledger,
    /// Nodes that received pods in this decision.
    pub(crate) touched: FxHashMap<u32, Touched>,
    /// Nodes that are to be removed, sorted.
    pub(crate) removed: Vec<u32>,
    pub(crate) bins: Vec<Bin>,
    /// By pool: what is left of each limit, and of the number of nodes.
    pub(crate) limits: Vec<(Vec<i64>, Option<i64>)>,
    /// Instances left, by reservation.
    pub(crate) reservations: Vec<u32>,
    /// Required anti-affinity rules that some pod to be placed states: where the pods that they select go must be decided.
    pub(crate) live_anti: FxHashSet<GroupId>,
    /// Rules on domains that some pod to be placed states, on any rung: those pods count on where others are.
    pub(crate) live: FxHashSet<GroupId>,
    prices: RefCell<FxHashMap<PriceKey, (i64, bool)>>,
    /// By class and topology key: domains in which some pool could make a node for such a pod.
    pub(super) reachable: RefCell<FxHashMap<(ClassId, TopoKeyId), Bits>>,
    /// Of several alternatives that a pod may use, the cheapest counts; otherwise the first that does.
    pub(crate) cheapest_alternative: bool,
    /// Rows that new nodes may be made of, by pool; `None`: all. Packings narrow this to steer by price.
    pub(crate) steer: Vec<Option<Bits>>,
}

/// What was added to a node that exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    pub(crate) used: SmallVec<[i64; 4]>,
    pub(crate) items: SmallVec<[Item; 2]>,
    pub(crate) ports: SmallVec<[HostPort; 2]>,
    /// Indices of classes whose volumes were attached.
    pub(crate) attached: SmallVec<[u32; 2]>,
}

impl<'w> State<'w> {
    pub(crate) fn new(
        world: &'w World,
        options: &'w Options,
        demands: &'w [Demand<'w>],
        removed: &[u32],
    ) -> Self {
        let (mut live_anti, mut live) = (FxHashSet::default(), FxHashSet::default());
        for demand in demands.iter().filter(|demand| demand.placeable) {
            let class = world.classes.get(demand.class);
            live_anti.extend(class.stated_anti());
            live.extend(class.ladder(options.preferences).iter().flat_map(|v| &v.domain_groups));
        }
        let mut state = Self {
            world,
            options,
            demands,
            ledger: Ledger::default(),
            touched: FxHashMap::default(),
            removed: removed.to_vec(),
            bins: Vec::new(),
            limits: world.limits_left.to_vec(),
            reservations: world.cells.reservations.iter().map(|r| r.capacity).collect(),
            live_anti,
            live,
            prices: RefCell::default(),
            reachable: RefCell::default(),
            cheapest_alternative: false,
            steer: vec![None; world.pools.len()],
        };
        state.removed.sort_unstable();
        state.removed.dedup();
        for index in 0..state.removed.len() {
            state.take_away(state.removed[index]);
        }
        state
    }

    /// Forgets a node: its pods no longer count for topology, and its capacity no longer counts against limits.
    fn take_away(&mut self, node: u32) {
        let data = &self.world.nodes[node as usize];
        for pod in data.pods.iter().filter(|p| p.counts_for_topology(data.deleting())) {
            let class = self.world.classes.get(pod.class);
            for &group in &class.selected {
                if let Some(place) = self.world.place_of(group, node) {
                    self.ledger.add_selected(self.world, group, place, -1);
                }
            }
            for &group in class.stated_anti() {
                if let Some(place) = self.world.place_of(group, node) {
                    self.ledger.add_stating(self.world, group, place, -1);
                }
            }
        }
        let pool = data.pool.as_ref().and_then(|name| self.world.pools.iter().position(|p| p.name == *name));
        if let (Some(pool), false) = (pool, data.deleting()) {
            let (left, nodes) = &mut self.limits[pool];
            for (slot, limit) in left.iter_mut().zip(&self.world.pools[pool].limits) {
                *slot = slot.saturating_add(crate::pools::counted(&data.capacity, &limit.resource));
            }
            if let Some(nodes) = nodes {
                *nodes += 1;
            }
        }
    }

    pub(crate) fn class_of(&self, demand: DemandId) -> &'w ClassData {
        self.world.classes.get(self.demands[demand as usize].class)
    }

    pub(crate) fn variant(&self, demand: DemandId, rung: u16) -> &'w Variant {
        &self.class_of(demand).ladder(self.options.preferences)[rung as usize]
    }

    /// Cheapest launch of a new node for one pod in the domain; [`NO_PRICE`] if there is none.
    pub(crate) fn price_in(
        &self,
        class: &ClassData,
        variant: &Variant,
        key: TopoKeyId,
        domain: DomainId,
    ) -> i64 {
        self.cheapest_in(class, variant, key, domain).0
    }

    /// Every eligible domain can be filled by new nodes without limit.
    pub(crate) fn endless(
        &self,
        class: &ClassData,
        variant: &Variant,
        group: GroupId,
        eligible: &Bits,
    ) -> bool {
        let host_affinity = |g: &GroupId| self.world.groups.get(*g).rule.kind == Kind::Affinity;
        let key = self.world.topo_key_of(group);
        !variant.host_groups.iter().any(host_affinity)
            && eligible.iter().all(|d| self.cheapest_in(class, variant, key, d as DomainId).1)
    }

    fn cheapest_in(
        &self,
        class: &ClassData,
        variant: &Variant,
        key: TopoKeyId,
        domain: DomainId,
    ) -> (i64, bool) {
        let slot = (class.id, variant.asked[0], variant.tolerations, key, domain);
        if let Some(known) = self.prices.borrow().get(&slot) {
            return *known;
        }
        let mut best = (NO_PRICE, false);
        for pool in 0..self.world.pools.len() {
            let (price, bought) = self.cheapest_of_pool(class, variant, pool, key, domain);
            if price != NO_PRICE {
                let data = &self.world.pools[pool];
                // Reserved instances run out.
                let endless = bought
                    && data.limits.is_empty()
                    && data.max_nodes.is_none()
                    && data.min_values.is_empty();
                best = (best.0.min(price), best.1 | endless);
            }
        }
        self.prices.borrow_mut().insert(slot, best);
        best
    }

    /// The price, and whether there is a node at all that need not be reserved.
    fn cheapest_of_pool(
        &self,
        class: &ClassData,
        variant: &Variant,
        pool: usize,
        key: TopoKeyId,
        domain: DomainId,
    ) -> (i64, bool) {
        let (world, dims) = (self.world, self.world.dims.len());
        let data = &world.pools[pool];
        if !data.usable || !world.tolerates_pool(variant.tolerations, pool) {
            return (NO_PRICE, false);
        }
        let (mut best, mut bought) = (NO_PRICE, false);
        for &asked in &variant.asked {
            let Some(reach) = world.reach(asked, pool) else { continue };
            let Some(reach) = self.narrowed(pool, reach.clone(), key, &[domain]) else { continue };
            for cell in reach.cells.iter() {
                let fitting = world.by_price(data.table, cell).iter().find(|row| {
                    reach.rows.has(**row as usize) && fits(&class.requests, data.room(**row as usize, dims))
                });
                if let Some(row) = fitting {
                    best = best.min(world.table(pool).price(*row as usize, cell));
                    bought |= world.cells.list[cell].reservation.is_none();
                }
            }
        }
        (best, bought)
    }

    /// The reach within some domains of a key; `None` if empty.
    pub(crate) fn narrowed(
        &self,
        pool: usize,
        mut reach: crate::reach::Reach,
        key: TopoKeyId,
        domains: &[DomainId],
    ) -> Option<crate::reach::Reach> {
        let topo = &self.world.groups.keys[key];
        if let Some(masks) = &topo.cells {
            let mut union = Bits::new(self.world.cells.len());
            domains.iter().for_each(|d| union.add(&masks[*d as usize]));
            reach.cells.keep(&union);
            return (!reach.cells.is_empty()).then_some(reach);
        }
        let values = domains.iter().map(|d| &*topo.values[*d as usize]);
        let asked = model::requirement::Requirement::one_of(&topo.name, values);
        let ok = self.world.offer(pool).narrow(&mut reach, &asked);
        (ok && !reach.rows.is_empty() && !reach.cells.is_empty()).then_some(reach)
    }
}

//! From filled bins to a plan: what each new node may be launched as, cheapest first, and which pods go where.

use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType};
use model::labels;
use model::price::MicroDollars;
use model::requirement::Requirement;
use model::requirements::Requirements;
use packing::Bits;
use packing::LowerBound;
use rustc_hash::FxHashMap;

use crate::engine::bin::Bin;
use crate::engine::demand::{DemandId, Origin};
use crate::engine::state::State;
use crate::explain::{Explainer, Explanation};
use crate::pack::greedy::Leftover;
use crate::plan::{ExistingNode, Launch, NewNode, Plan, PodRef, Unschedulable};
use crate::reach::Reach;
use crate::topology::groups::NO_DOMAIN;

/// What a new node would be launched as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) price: i64,
    pub(crate) row: usize,
    pub(crate) cell: usize,
}

impl State<'_> {
    /// Reserved, else spot, else on-demand; of that, the cheapest. Bought capacity goes on demand where that is cheaper.
    pub(crate) fn launch(&self, pool: usize, reach: &Reach) -> Option<Choice> {
        let reserved = self.cheapest(pool, reach, CapacityType::Reserved);
        reserved.or_else(|| {
            let spot = self.cheapest(pool, reach, CapacityType::Spot);
            let on_demand = self.cheapest(pool, reach, CapacityType::OnDemand);
            match (spot, on_demand) {
                (Some(spot), Some(other))
                    if other.price < spot.price && self.can_do_without_spot(pool, reach) =>
                {
                    Some(other)
                }
                (spot, on_demand) => spot.or(on_demand),
            }
        })
    }

    /// Whether a node that must not be launched as spot keeps as many values as its pool asks for.
    fn can_do_without_spot(&self, pool: usize, reach: &Reach) -> bool {
        self.world.pools[pool].min_values.is_empty()
            || self.has_min_values(pool, &self.without_spot(pool, reach))
    }

    fn without_spot(&self, pool: usize, reach: &Reach) -> Reach {
        let mut out = reach.clone();
        out.cells.remove(&self.world.cells.of_capacity_type(CapacityType::Spot));
        crate::pools::keep_offered(&mut out, self.world.table(pool));
        out
    }

    /// Ties go to the type that is cheaper on demand, as they do at launch: all that is reserved costs next to nothing, a large
    /// type as little as a small one.
    fn cheapest(&self, pool: usize, reach: &Reach, wanted: CapacityType) -> Option<Choice> {
        let index = self.world.pools[pool].table;
        let table = &self.world.tables[index];
        let mut best: Option<Choice> = None;
        for cell in reach.cells.iter().filter(|c| self.world.cells.list[*c].capacity_type == wanted) {
            let rows = self.world.by_price(index, cell).iter().map(|row| *row as usize);
            for row in rows.filter(|row| reach.rows.has(*row)) {
                let price = table.price(row, cell);
                if best.as_ref().is_some_and(|b| b.price < price) {
                    break;
                }
                let found = Choice { price, row, cell };
                let tie = |c: &Choice| {
                    let row = &table.rows[c.row];
                    let on_demand = on_demand_price(&table.types[row.of_type]);
                    (on_demand, &row.name, &self.world.cells.list[c.cell].zone)
                };
                if best.as_ref().is_none_or(|b| price < b.price || tie(&found) < tie(b)) {
                    best = Some(found);
                }
            }
        }
        best
    }

    pub(crate) fn price_of(&self, bin: &Bin) -> i64 {
        self.launch(bin.pool, &bin.reach).map_or(0, |c| c.price)
    }

    pub(crate) fn cost(&self) -> i64 {
        self.bins.iter().map(|b| self.price_of(b)).sum()
    }
}

/// The least that the type costs on demand anywhere, whether or not it can be bought now.
fn on_demand_price(kind: &InstanceType) -> MicroDollars {
    let on_demand = kind.offerings.iter().filter(|o| o.capacity_type == CapacityType::OnDemand);
    on_demand.map(|o| o.price).min().unwrap_or(MicroDollars::MAX)
}

/// What decides the requirements of a node: pool, requirement sets of its pods, cells, open labels, decided domains.
type Demands = (usize, Vec<u32>, Bits, Vec<Requirement>, Vec<u32>);

/// What decides the list of types: pool, rows and cells.
type Open = (usize, Bits, Bits);

/// Everything that a plan needs beside the state.
pub(crate) struct Finish<'s, 'w> {
    state: &'s State<'w>,
    /// Next pod to hand out, by demand.
    next: Vec<usize>,
    types: FxHashMap<Open, Arc<[Arc<str>]>>,
    requirements: FxHashMap<Demands, Arc<Requirements>>,
    /// By pool and rows: the least that daemons take.
    overheads: FxHashMap<(usize, Bits), Vec<i64>>,
}

/// `keep_going` is asked before each explanation: pods that come after the deadline have a short one.
pub(crate) fn plan(
    state: &State<'_>,
    leftover: &Leftover,
    lower_bound: Option<LowerBound>,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Plan {
    let mut finish = Finish {
        state,
        next: vec![0; state.demands.len()],
        types: FxHashMap::default(),
        requirements: FxHashMap::default(),
        overheads: FxHashMap::default(),
    };
    let mut plan = Plan::default();
    let mut distrusted = Vec::new();
    let mut touched: Vec<u32> = state.touched.keys().copied().collect();
    touched.sort_unstable();
    for node in touched {
        let data = &state.world.nodes[node as usize];
        let distrust = state.options.distrust_uninitialized && data.managed && !data.initialized;
        let mut pods = Vec::new();
        for item in &state.touched[&node].items {
            let taken = finish.take(item.demand, item.count);
            let moved = state.demands[item.demand as usize].origin != Origin::Deleting;
            if distrust && moved {
                let why = Arc::new(Explanation::on_uninitialized(&data.name));
                distrusted.extend(taken.into_iter().map(|pod| Unschedulable { pod, why: Arc::clone(&why) }));
            } else {
                pods.extend(taken);
            }
        }
        if !pods.is_empty() {
            plan.existing.push(ExistingNode { node: Arc::clone(&data.name), pods });
        }
    }
    for bin in &state.bins {
        if let Some(node) = finish.new_node(bin) {
            plan.cost += node.launch.price;
            plan.new_nodes.push(node);
        }
    }
    finish.report(leftover, &mut plan, keep_going);
    plan.unschedulable.extend(distrusted);
    // Nothing costs less than nothing.
    let least = (plan.cost == MicroDollars::ZERO).then_some(MicroDollars::ZERO);
    plan.lower_bound = lower_bound.map(|bound| MicroDollars::new(bound.get())).or(least);
    plan
}

impl Finish<'_, '_> {
    fn take(&mut self, demand: DemandId, count: u32) -> Vec<PodRef> {
        let start = self.next[demand as usize];
        let end = start + count as usize;
        self.next[demand as usize] = end;
        self.state.demands[demand as usize].pods[start..end].iter().map(|p| p.key()).collect()
    }

    fn report(&mut self, leftover: &Leftover, plan: &mut Plan, keep_going: &(dyn Fn() -> bool + Sync)) {
        let mut explainer = Explainer::new(self.state);
        for demand in 0..self.state.demands.len() as u32 {
            let count = leftover.counts[demand as usize];
            if count == 0 {
                continue;
            }
            let pods = self.take(demand, count);
            if leftover.unreached[demand as usize] > 0 {
                plan.unreached.extend(pods);
                continue;
            }
            if !self.state.options.report_pending
                && self.state.demands[demand as usize].origin == Origin::Pending
            {
                continue;
            }
            let explained = keep_going().then(|| explainer.why_not(demand));
            let why = Arc::new(explained.unwrap_or_else(Explanation::cut_short));
            plan.unschedulable
                .extend(pods.into_iter().map(|pod| Unschedulable { pod, why: Arc::clone(&why) }));
        }
    }

    fn new_node(&mut self, bin: &Bin) -> Option<NewNode> {
        let (state, world) = (self.state, self.state.world);
        let launch = state.launch(bin.pool, &bin.reach)?;
        // Where on-demand was chosen over dearer spot, spot must not be chosen at launch after all.
        let cell = &world.cells.list[launch.cell];
        let reach = match cell.capacity_type {
            CapacityType::OnDemand => state.without_spot(bin.pool, &bin.reach),
            CapacityType::Reserved | CapacityType::Spot => bin.reach.clone(),
        };
        let mut pods = Vec::new();
        for item in &bin.items {
            pods.extend(self.take(item.demand, item.count));
        }
        let table = world.table(bin.pool);
        let requirements = self.requirements(bin, &reach);
        Some(NewNode {
            pool: Arc::clone(&world.pools[bin.pool].name),
            pods,
            requirements,
            instance_types: self.types(bin.pool, &reach),
            launch: Launch {
                instance_type: Arc::clone(&table.rows[launch.row].name),
                zone: Arc::clone(&cell.zone),
                capacity_type: cell.capacity_type,
                reservation: cell.reservation.map(|r| Arc::clone(&world.cells.reservations[r].id)),
                price: MicroDollars::new(launch.price),
            },
            requests: self.requests(bin, &reach),
            min_values_relaxed: bin.min_values_relaxed,
        })
    }

    fn types(&mut self, pool: usize, reach: &Reach) -> Arc<[Arc<str>]> {
        let table = self.state.world.table(pool);
        let key = (pool, reach.rows.clone(), reach.cells.clone());
        let list = self.types.entry(key).or_insert_with(|| {
            let rows = self.state.listed(pool, reach).into_iter();
            rows.map(|row| Arc::clone(&table.rows[row].name)).collect()
        });
        Arc::clone(list)
    }

    /// Pool and pods combined, with the decisions of the packing.
    fn requirements(&mut self, bin: &Bin, reach: &Reach) -> Arc<Requirements> {
        let (state, world) = (self.state, self.state.world);
        let mut sets: Vec<u32> = Vec::new();
        for item in &bin.items {
            let variant = state.variant(item.demand, item.rung);
            // With several volume alternatives, the one that agrees with the node is the one that was used.
            let agreed = variant.asked.iter().find(|set| {
                world
                    .reach(**set, bin.pool)
                    .is_some_and(|own| reach.rows.within(&own.rows) && reach.cells.within(&own.cells))
            });
            sets.extend(agreed);
        }
        sets.sort_unstable();
        sets.dedup();
        let key = (bin.pool, sets, reach.cells.clone(), reach.loose.clone(), self.pinned(bin));
        if let (Some(known), true) =
            (self.requirements.get(&key), world.pools[bin.pool].min_values.is_empty())
        {
            return Arc::clone(known);
        }
        let mut all = world.pools[bin.pool].template.clone();
        for &set in &key.1 {
            for requirement in world.sets.requirements.get(set).iter() {
                let known = all.contains_key(requirement.key()) || world.well_known.has(requirement.key());
                if known && requirement.key() != labels::HOSTNAME {
                    all.add(requirement.clone());
                }
            }
        }
        for loose in &reach.loose {
            all.add(loose.clone());
        }
        self.add_cells(&mut all, reach);
        self.add_decided(&mut all, &key.4);
        if bin.min_values_relaxed {
            let listed = state.as_rows(bin.pool, &state.listed(bin.pool, reach));
            for (name, _) in &world.pools[bin.pool].min_values {
                let found = u32::try_from(state.distinct(bin.pool, name, &listed)).unwrap_or(u32::MAX);
                if let Some(requirement) = all.get_mut(name) {
                    requirement.set_min_values(requirement.min_values().map(|n| n.min(found)));
                }
            }
        }
        let all = Arc::new(all);
        self.requirements.insert(key, Arc::clone(&all));
        all
    }

    /// Capacity types that are really on offer, a decided zone, the reservation.
    fn add_cells(&self, all: &mut Requirements, reach: &Reach) {
        let cells = &self.state.world.cells;
        let values = |key: &str| -> Vec<String> {
            reach.cells.iter().filter_map(|cell| cells.label(cell, key)).map(str::to_owned).collect()
        };
        all.add(Requirement::one_of(labels::CAPACITY_TYPE, values(labels::CAPACITY_TYPE)));
        let zones = values(labels::ZONE);
        let every: Vec<String> =
            (0..cells.len()).filter_map(|c| cells.label(c, labels::ZONE)).map(str::to_owned).collect();
        let zones = Requirement::one_of(labels::ZONE, zones);
        if zones.values().len() < Requirement::one_of(labels::ZONE, every).values().len() {
            all.add(zones);
        }
        let ids = values(labels::CAPACITY_RESERVATION_ID);
        if !ids.is_empty() {
            all.add(Requirement::one_of(labels::CAPACITY_RESERVATION_ID, ids));
        }
    }

    /// By topology key: the domain, where some pod needs it to be decided, or others count on the pod there.
    fn pinned(&self, bin: &Bin) -> Vec<u32> {
        let world = self.state.world;
        let mut out = vec![NO_DOMAIN; bin.domains.len()];
        for item in &bin.items {
            let class = self.state.class_of(item.demand);
            let variant = self.state.variant(item.demand, item.rung);
            let counted_on = class.selected.iter().filter(|g| self.state.live.contains(g));
            for &group in variant.domain_groups.iter().chain(&class.kept_from_domain).chain(counted_on) {
                let key = world.topo_key_of(group);
                out[key] = bin.domains[key];
            }
        }
        out
    }

    fn add_decided(&self, all: &mut Requirements, pinned: &[u32]) {
        for (key, domain) in self.state.world.groups.keys.iter().zip(pinned) {
            if *domain != NO_DOMAIN {
                all.add(Requirement::is(&key.name, &*key.values[*domain as usize]));
            }
        }
    }

    /// Pods, and the least daemon overhead of the rows, by resource.
    fn requests(&mut self, bin: &Bin, reach: &Reach) -> model::resources::Resources {
        let world = self.state.world;
        let (dims, data) = (world.dims.len(), &world.pools[bin.pool]);
        let least = self.overheads.entry((bin.pool, reach.rows.clone())).or_insert_with(|| {
            let mut rows = reach.rows.iter().map(|row| data.overhead(row, dims));
            let mut least = rows.next().map_or_else(|| vec![0; dims], <[i64]>::to_vec);
            for own in rows {
                least.iter_mut().zip(own).for_each(|(a, b)| *a = (*a).min(*b));
            }
            least
        });
        let total: Vec<i64> = bin.used.iter().zip(least).map(|(a, b)| a.saturating_add(*b)).collect();
        world.dims.resources(&total)
    }
}

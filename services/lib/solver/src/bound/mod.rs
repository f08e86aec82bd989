//! Lower bounds on the cost of any plan that places the same pods, and the linear programme behind them.
//!
//! The bound forgets preferences, topology domains, pool weights, limits and reservations, and lets every pool serve every pod
//! that it can: whatever plan there is, it solves this easier problem too, so none can cost less.

pub(crate) mod fractional;
pub(crate) mod simplex;

use crate::engine::demand::DemandId;
use crate::engine::state::State;
use crate::pack::greedy::Leftover;
use crate::pack::repack::columns;
use crate::pack::repack::problem::{Ask, Choice, Problem};
use crate::pack::repack::realize::{caps, reserved};

/// What remains to be proven once it is known which pods are placed. It stands by itself, so that the search can go on beside
/// the packing.
pub(crate) enum Question {
    /// Nothing: the bound, in micro-dollars an hour.
    Answered(i64),
    Search(Problem),
}

impl Question {
    pub(crate) fn of(state: &State<'_>, leftover: &Leftover) -> Self {
        let (problem, _) = Problem::new(state.world, &asks(state, leftover), &reserved(state), Choice::All);
        if !state.touched.is_empty() || has_reservations(state) {
            return Self::Answered(beside_room(state, &problem));
        }
        if !problem.is_feasible() {
            return Self::Answered(0);
        }
        // With many sizes an easier problem must do: the packing itself has already taken its time.
        let many = problem.sizes.len() > 60;
        Self::Search(if many { problem.eased().0 } else { problem })
    }

    /// Whether the search takes so long that another thread is worth its while.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Self::Search(problem) if problem.sizes.len() * problem.kinds.len() > 500)
    }

    /// In micro-dollars an hour.
    pub(crate) fn answer(&self, keep_going: &(dyn Fn() -> bool + Sync)) -> i64 {
        match self {
            Self::Answered(bound) => *bound,
            Self::Search(problem) => columns::price(problem, columns::Proof::Quick, keep_going).bound,
        }
    }
}

/// What every pod that was placed asks of new nodes at least.
fn asks<'w>(state: &State<'w>, leftover: &Leftover) -> Vec<Ask<'w>> {
    let world = state.world;
    let mut asks = Vec::new();
    for demand in 0..state.demands.len() as DemandId {
        let placed = state.demands[demand as usize].pods.len() as u32 - leftover.counts[demand as usize];
        if placed == 0 {
            continue;
        }
        let class = state.class_of(demand);
        let rung = class.ladder(state.options.preferences).len() - 1;
        let variant = state.variant(demand, rung as u8);
        let mut reaches = Vec::new();
        for pool in (0..world.pools.len()).filter(|p| world.pools[*p].usable) {
            if world.tolerates_pool(variant.tolerations, pool) {
                let sets = class.ladder(state.options.preferences).iter().flat_map(|v| &v.asked);
                let mut seen: Vec<u32> = sets.copied().collect();
                seen.sort_unstable();
                seen.dedup();
                reaches.extend(seen.iter().filter_map(|s| Some((pool, world.reach(*s, pool)?.clone()))));
            }
        }
        let (cap, exclusion) = caps(state, demand, rung as u8);
        asks.push(Ask { request: &class.requests, count: placed, cap, exclusion, reaches });
    }
    asks
}

/// Some pool can use capacity that is reserved.
fn has_reservations(state: &State<'_>) -> bool {
    let reserved = reserved(state);
    let usable = |pool: &crate::pools::PoolData| pool.usable && pool.base.cells.meets(&reserved);
    state.options.use_reserved
        && state.world.cells.reservations.iter().any(|r| r.capacity > 0)
        && state.world.pools.iter().any(usable)
}

/// Pods on nodes that exist need not be paid for, those on reserved instances only what these cost, and other pods could have
/// gone there: at resource prices that no new node beats, what the pods are worth beyond all such room has to be bought.
fn beside_room(state: &State<'_>, problem: &Problem) -> i64 {
    let (prices, _, _) = columns::resource_prices(problem);
    if prices.is_empty() || !problem.is_feasible() {
        return 0;
    }
    let worth =
        |amounts: &[i64]| amounts.iter().zip(&prices).map(|(a, p)| (*a).max(0) as f64 * p).sum::<f64>();
    let pods: f64 = problem.sizes.iter().map(|s| worth(&s.request) * f64::from(s.count)).sum();
    let open = state.world.open.iter().filter(|n| state.removed.binary_search(&(*n as u32)).is_err());
    let free: f64 = open.map(|n| worth(state.world.free(n))).sum();
    let saved: f64 = if has_reservations(state) { reserved_savings(state, &worth) } else { 0.0 };
    crate::pack::repack::knapsack::cautious(pods - (free + saved) * (1.0 + 1e-9))
}

/// The most that all reserved instances together can save: each holds what its largest type has room for, at its price.
fn reserved_savings(state: &State<'_>, worth: &dyn Fn(&[i64]) -> f64) -> f64 {
    let (world, dims) = (state.world, state.world.dims.len());
    let mut most = vec![0.0_f64; world.cells.reservations.len()];
    for pool in world.pools.iter().filter(|p| p.usable) {
        let table = &world.tables[pool.table];
        for row in pool.base.rows.iter() {
            for cell in table.rows[row].cells.iter().filter(|c| pool.base.cells.has(*c)) {
                if let Some(id) = world.cells.list[cell].reservation {
                    let saved = worth(pool.room(row, dims)) - table.price(row, cell) as f64;
                    most[id] = most[id].max(saved);
                }
            }
        }
    }
    most.iter().zip(&world.cells.reservations).map(|(most, r)| most * f64::from(r.capacity)).sum()
}

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
use crate::pack::repack::problem::{Ask, Problem};
use crate::pack::repack::realize::{caps, reserved};

/// In micro-dollars an hour.
pub(crate) fn of(state: &State<'_>, leftover: &Leftover, keep_going: &(dyn Fn() -> bool + Sync)) -> i64 {
    let world = state.world;
    // Reserved capacity may be worth more than its price, and free room on nodes could have gone to other pods.
    if !reserved(state).is_empty() && state.bins.iter().any(|b| b.reservation.is_some()) {
        return 0;
    }
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
    let (problem, _) = Problem::new(world, &asks, &reserved(state));
    if !state.touched.is_empty() {
        return beside_nodes(state, &problem);
    }
    if !problem.is_feasible() {
        return 0;
    }
    // With many sizes an easier problem must do: the packing itself has already taken its time.
    let (easier, _) = problem.eased();
    let problem = if problem.sizes.len() > 60 { easier } else { problem };
    columns::price(&problem, columns::Proof::Quick, keep_going).bound
}

/// Pods on nodes that exist need not be paid for, and other pods could have gone there: at resource prices that no new node
/// beats, what the pods are worth beyond all free room has to be bought.
fn beside_nodes(state: &State<'_>, problem: &Problem) -> i64 {
    let (prices, _, _) = columns::resource_prices(problem);
    if prices.is_empty() || !problem.is_feasible() {
        return 0;
    }
    let worth =
        |amounts: &[i64]| amounts.iter().zip(&prices).map(|(a, p)| (*a).max(0) as f64 * p).sum::<f64>();
    let pods: f64 = problem.sizes.iter().map(|s| worth(&s.request) * f64::from(s.count)).sum();
    let open = state.world.open.iter().filter(|n| state.removed.binary_search(&(*n as u32)).is_err());
    let free: f64 = open.map(|n| worth(state.world.free(n))).sum();
    crate::pack::repack::knapsack::cautious(pods - free * (1.0 + 1e-9))
}

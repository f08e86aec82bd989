//! Column generation: what every size should cost, which loads are worth having, and how little any packing can cost.

use super::fill::{Scratch, fill};
use super::knapsack;
use super::problem::{KindId, Load, Problem};
use crate::bound::simplex::{Column, Cover};

/// Sizes beyond this make the linear programme too slow; resource prices must do.
const MOST_SIZES: usize = 320;
const MOST_ROUNDS: usize = 400;

pub(crate) struct Priced {
    /// What one pod of each size should cost, in micro-dollars an hour.
    pub(crate) value: Vec<f64>,
    /// Loads in the optimal mix, and how often each.
    pub(crate) mix: Vec<(Load, f64)>,
    /// No packing costs less.
    pub(crate) bound: i64,
}

/// `exact`: also prove that no better load exists, for a bound that is close.
pub(crate) fn price(problem: &Problem, exact: bool, keep_going: &(dyn Fn() -> bool + Sync)) -> Priced {
    let (resource_value, resource_bound) = resource_prices(problem);
    if problem.sizes.len() > MOST_SIZES {
        return Priced { value: resource_value, mix: Vec::new(), bound: resource_bound };
    }
    let mut loads: Vec<Load> = Vec::new();
    let mut start = Vec::new();
    for (size, data) in problem.sizes.iter().enumerate() {
        let (kind, count) = best_alone(problem, size);
        start.push(Column { cost: problem.kinds[kind as usize].price.max(1) as f64, entries: vec![(size as u32, f64::from(count))] });
        loads.push(Load { kind, content: vec![(size as u32, count.min(data.count))] });
    }
    let need: Vec<f64> = problem.sizes.iter().map(|s| f64::from(s.count)).collect();
    let mut lp = Cover::new(&need, start);
    let all: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut scratch = Scratch::default();
    let mut bound = resource_bound;
    let mut order: Vec<KindId> = (0..problem.kinds.len() as KindId).collect();
    let first = add_fills(problem, &mut lp, &mut loads, &order, &all, &resource_value, f64::NEG_INFINITY, &mut scratch);
    debug_assert!(first <= order.len());
    let mut exact_rounds = 0;
    for _ in 0..MOST_ROUNDS {
        lp.optimise(4 * problem.sizes.len() + 50);
        let duals = lp.duals();
        // Kinds that just gave a column are likely to give another.
        let found = add_fills(problem, &mut lp, &mut loads, &order, &all, &duals, 1e-6, &mut scratch);
        if found > 0 && keep_going() {
            continue;
        }
        if !exact || exact_rounds > 40 || !keep_going() {
            bound = bound.max(knapsack::certify(problem, &duals, &need));
            break;
        }
        exact_rounds += 1;
        let (certified, better) = knapsack::search(problem, &duals, &need);
        bound = bound.max(certified);
        if better.is_empty() {
            break;
        }
        for load in better {
            add(problem, &mut lp, &mut loads, load);
        }
    }
    order.clear();
    let value = lp.duals().iter().map(|d| d.max(0.0)).collect();
    let mix = lp.solution().into_iter().map(|(column, times)| (loads[column].clone(), times)).collect();
    Priced { value, mix, bound }
}

fn add(problem: &Problem, lp: &mut Cover, loads: &mut Vec<Load>, load: Load) {
    let entries = load.content.iter().map(|(s, n)| (*s, f64::from(*n))).collect();
    lp.add(Column { cost: problem.kinds[load.kind as usize].price.max(1) as f64, entries });
    loads.push(load);
}

/// Adds the fills that are worth more than they cost. Returns how many.
#[allow(clippy::too_many_arguments, reason = "a step of the loop above, apart only for its name")]
fn add_fills(
    problem: &Problem,
    lp: &mut Cover,
    loads: &mut Vec<Load>,
    order: &[KindId],
    all: &[u32],
    value: &[f64],
    margin: f64,
    scratch: &mut Scratch,
) -> usize {
    let mut found: Vec<(f64, Load)> = Vec::new();
    for &kind in order {
        let worth = fill(problem, kind, all, value, scratch);
        let price = problem.kinds[kind as usize].price.max(1) as f64;
        if worth > price * (1.0 + margin) && !scratch.content.is_empty() {
            found.push((worth / price, Load { kind, content: scratch.content.clone() }));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)));
    found.truncate(12);
    let count = found.len();
    for (_, load) in found {
        add(problem, lp, loads, load);
    }
    count
}

/// The kind in which pods of one size alone are cheapest, and how many it holds.
fn best_alone(problem: &Problem, size: usize) -> (KindId, u32) {
    let data = &problem.sizes[size];
    let mut best: Option<(f64, KindId, u32)> = None;
    for kind in data.kinds.iter() {
        let most = crate::dims::times(&data.request, &problem.kinds[kind].room).min(data.cap).max(1);
        let each = problem.kinds[kind].price.max(1) as f64 / f64::from(most.min(data.count.max(1)));
        if best.is_none_or(|(least, ..)| each < least) {
            best = Some((each, kind as KindId, most.min(data.count.max(1))));
        }
    }
    best.map_or((0, 1), |(_, kind, most)| (kind, most))
}

/// Prices of resources such that no kind holds more value than it costs; what all pods are worth at those prices bounds the
/// cost from below.
pub(crate) fn resource_prices(problem: &Problem) -> (Vec<f64>, i64) {
    let Some(first) = problem.sizes.first() else { return (Vec::new(), 0) };
    let dims = first.request.len();
    let mut demand = vec![0.0; dims];
    for size in &problem.sizes {
        for (sum, amount) in demand.iter_mut().zip(&size.request) {
            *sum += *amount as f64 * f64::from(size.count);
        }
    }
    let used: Vec<usize> = (0..dims).filter(|d| demand[*d] > 0.0).collect();
    let need = vec![1.0; used.len()];
    let part = |kind: usize, dim: usize| problem.kinds[kind].room[dim] as f64 / demand[dim];
    let mut start = Vec::new();
    for (row, &dim) in used.iter().enumerate() {
        let best = (0..problem.kinds.len()).filter(|k| part(*k, dim) > 0.0).min_by(|a, b| {
            let each = |k: usize| problem.kinds[k].price.max(1) as f64 / part(k, dim);
            each(*a).total_cmp(&each(*b))
        });
        let Some(kind) = best else { return (vec![0.0; problem.sizes.len()], 0) };
        start.push(Column { cost: problem.kinds[kind].price.max(1) as f64, entries: vec![(row as u32, part(kind, dim))] });
    }
    let mut lp = Cover::new(&need, start);
    for kind in 0..problem.kinds.len() {
        let entries = used.iter().enumerate().map(|(row, dim)| (row as u32, part(kind, *dim))).collect();
        lp.add(Column { cost: problem.kinds[kind].price.max(1) as f64, entries });
    }
    lp.optimise(2000);
    let mut price = vec![0.0; dims];
    for (dual, &dim) in lp.duals().iter().zip(&used) {
        price[dim] = dual.max(0.0) / demand[dim];
    }
    // Rounding must not make a kind worth more than its price.
    let worth = |room: &[i64]| room.iter().zip(&price).map(|(r, p)| *r as f64 * p).sum::<f64>();
    let over = problem
        .kinds
        .iter()
        .map(|k| worth(&k.room) / k.price.max(1) as f64)
        .fold(1.0_f64, f64::max);
    let value: Vec<f64> = problem
        .sizes
        .iter()
        .map(|s| s.request.iter().zip(&price).map(|(r, p)| *r as f64 * p).sum::<f64>() / over)
        .collect();
    let total: f64 = value.iter().zip(&problem.sizes).map(|(v, s)| v * f64::from(s.count)).sum();
    (value, knapsack::cautious(total))
}

//! Column generation: what every size should cost, which loads are worth having, and how little any packing can cost.

use super::fill::{Scratch, fill};
use super::knapsack;
use super::problem::{KindId, Load, Problem, SizeId};
use super::simplex::{Column, Cover};
use super::tuning::Tuning;

pub(crate) struct Priced {
    /// What one item of each size should cost.
    pub(crate) value: Vec<f64>,
    /// Loads in the optimal mix, and how often each.
    pub(crate) mix: Vec<(Load, f64)>,
    /// Loads that are worth nearly what they cost, best first.
    pub(crate) good: Vec<Load>,
    /// No packing costs less.
    pub(crate) bound: i64,
}

/// How close a bound is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Whatever falls off, and values for an easier problem than the one that is packed. Its optimum gives all value to the
    /// few sizes that force bins, and none to the many that ride along; smoothed values from before that pack far better.
    Rough,
    /// Whatever falls off.
    None,
    /// From the values that were found, without a search for loads that would refute them.
    Quick,
    /// Also prove that no better load exists.
    Exact,
}

impl Proof {
    /// By which part a round has to lower the cost of the mix, and how many may fail to in a row, before the search for loads
    /// has to be more thorough.
    fn patience(self, tuning: &Tuning) -> (f64, usize) {
        match self {
            Self::Rough => tuning.patience.rough,
            Self::None => tuning.patience.none,
            Self::Quick => tuning.patience.quick,
            Self::Exact => tuning.patience.exact,
        }
    }
}

/// Values from resource prices alone: no search, for questions by the thousand.
pub(crate) fn by_resources(problem: &Problem) -> Priced {
    let (_, value, bound) = resource_prices(problem);
    Priced { value, mix: Vec::new(), good: Vec::new(), bound }
}

pub(crate) fn price(problem: &Problem, proof: Proof, keep_going: &(dyn Fn() -> bool + Sync)) -> Priced {
    let (tuning, exact) = (&problem.tuning, proof == Proof::Exact);
    let most_sizes = if exact { tuning.most_sizes_proven } else { tuning.most_sizes };
    if problem.sizes.len() > most_sizes {
        let (easier, belongs) = problem.eased();
        if easier.sizes.len() < problem.sizes.len() && easier.sizes.len() <= most_sizes {
            let proof = if proof == Proof::None { Proof::Rough } else { proof };
            let priced = price(&easier, proof, keep_going);
            let value = belongs.iter().map(|size| priced.value[*size as usize]).collect();
            return Priced { value, mix: Vec::new(), good: Vec::new(), bound: priced.bound };
        }
    }
    let (_, resource_value, resource_bound) = resource_prices(problem);
    if problem.sizes.len() > most_sizes {
        return Priced { value: resource_value, mix: Vec::new(), good: Vec::new(), bound: resource_bound };
    }
    let need: Vec<f64> = problem.sizes.iter().map(|s| f64::from(s.count)).collect();
    let all: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let (mut lp, mut loads) = start(problem, &need);
    let mut scratch = Scratch::default();
    let mut bound = resource_bound;
    let mut pricing = Pricing::new(problem);
    pricing.add_fills(problem, &mut lp, &mut loads, &all, &resource_value, f64::NEG_INFINITY, &mut scratch);
    let most_work = if exact { tuning.most_work } else { tuning.most_work / tuning.work_without_proof };
    let (mut work, mut last) = (0, f64::INFINITY);
    let (mut stalled, mut searches, mut pivots) = (0, 0, 0);
    let (enough, patience) = proof.patience(tuning);
    let mut smoothed: Option<Vec<f64>> = None;
    loop {
        lp.optimise(tuning.pivots_per_size * problem.sizes.len() + tuning.more_pivots);
        let duals = lp.duals();
        let cost: f64 = duals.iter().zip(&need).map(|(d, n)| d * n).sum();
        stalled = if cost < last * (1.0 - enough) { 0 } else { stalled + 1 };
        last = cost;
        smoothed =
            Some(smoothed.map_or_else(|| duals.clone(), |values| smooth(values, &duals, tuning.inertia)));
        let (done, stale) = (work > most_work || !keep_going(), stalled > patience);
        let found = if done || stale {
            0
        } else {
            pricing.add_fills(problem, &mut lp, &mut loads, &all, &duals, tuning.fill_margin, &mut scratch)
        };
        work += pricing.asked * problem.sizes.len()
            + (lp.pivots - pivots) * need.len() * need.len() / tuning.entries_per_pair;
        pivots = lp.pivots;
        if found > 0 {
            continue;
        }
        if proof == Proof::Quick {
            bound = bound.max(knapsack::certify(problem, &duals, &need, keep_going));
        }
        if !exact {
            break;
        }
        if !done && !stale {
            work += 2 * problem.kinds.len() * problem.sizes.len();
            let better = knapsack::rounded(problem, &duals, keep_going);
            if !better.is_empty() {
                better.into_iter().for_each(|load| add(problem, &mut lp, &mut loads, load));
                continue;
            }
        }
        let (certified, better) = knapsack::search(problem, &duals, &need, keep_going);
        bound = bound.max(certified);
        work += 4 * problem.kinds.len() * problem.sizes.len();
        searches += 1;
        let close = bound as f64 > cost * (1.0 - tuning.close_to_mix);
        if done || close || better.is_empty() || searches * problem.sizes.len() > tuning.searches_times_sizes
        {
            break;
        }
        stalled = 0;
        better.into_iter().for_each(|load| add(problem, &mut lp, &mut loads, load));
    }
    let value = smoothed.filter(|_| proof == Proof::Rough).unwrap_or_else(|| lp.duals());
    let value: Vec<f64> =
        value.iter().zip(&resource_value).map(|(d, r)| d.max(tuning.least_value * r)).collect();
    let mix = lp.solution().into_iter().map(|(column, times)| (loads[column].clone(), times)).collect();
    let good = good_loads(problem, &value, loads);
    Priced { value, mix, good, bound }
}

/// Values of earlier rounds with a part of the latest.
fn smooth(mut values: Vec<f64>, latest: &[f64], inertia: f64) -> Vec<f64> {
    values.iter_mut().zip(latest).for_each(|(value, now)| *value = inertia * *value + (1.0 - inertia) * now);
    values
}

fn good_loads(problem: &Problem, value: &[f64], loads: Vec<Load>) -> Vec<Load> {
    let rated = loads.into_iter().map(|load| (problem.value_for_money(&load, value), load));
    let mut ranked: Vec<(f64, Load)> =
        rated.filter(|(ratio, _)| *ratio > problem.tuning.good_ratio).collect();
    ranked.sort_by(|a, b| {
        b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)).then_with(|| a.1.content.cmp(&b.1.content))
    });
    ranked.dedup_by(|a, b| a.1 == b.1);
    ranked.truncate(problem.tuning.most_good);
    ranked.into_iter().map(|(_, load)| load).collect()
}

/// A programme that starts with every size by itself.
pub(crate) fn start(problem: &Problem, need: &[f64]) -> (Cover, Vec<Load>) {
    let mut loads: Vec<Load> = Vec::new();
    let mut columns = Vec::new();
    for (size, data) in problem.sizes.iter().enumerate() {
        let (kind, count) = problem.best_alone(size as SizeId);
        let cost = problem.price(kind);
        columns.push(Column { cost, entries: vec![(size as u32, f64::from(count))] });
        loads.push(Load { kind, content: vec![(size as u32, count.min(data.count))] });
    }
    (Cover::new(need, columns), loads)
}

pub(crate) fn add(problem: &Problem, lp: &mut Cover, loads: &mut Vec<Load>, load: Load) {
    let entries = load.content.iter().map(|(s, n)| (*s, f64::from(*n))).collect();
    lp.add(Column { cost: problem.price(load.kind), entries });
    loads.push(load);
}

/// Looks for loads worth more than they cost. Kinds that gave one are likely to give another, so they are asked first, and a
/// round ends once it has found a few.
struct Pricing {
    order: Vec<KindId>,
    /// Kinds looked at in the last round.
    asked: usize,
}

impl Pricing {
    fn new(problem: &Problem) -> Self {
        Self { order: (0..problem.kinds.len() as KindId).collect(), asked: 0 }
    }

    /// Returns how many were added.
    #[allow(clippy::too_many_arguments, reason = "a step of the loop above, apart only for its name")]
    fn add_fills(
        &mut self,
        problem: &Problem,
        lp: &mut Cover,
        loads: &mut Vec<Load>,
        all: &[u32],
        value: &[f64],
        margin: f64,
        scratch: &mut Scratch,
    ) -> usize {
        let mut found: Vec<(f64, usize, Load)> = Vec::new();
        let mut asked = 0;
        for (index, &kind) in self.order.iter().enumerate() {
            asked = index + 1;
            let worth = fill(problem, kind, all, value, scratch);
            let price = problem.price(kind);
            if worth > price * (1.0 + margin) && !scratch.content.is_empty() {
                found.push((worth / price, index, Load { kind, content: scratch.content.clone() }));
                if found.len() >= problem.tuning.loads_per_round && margin > 0.0 {
                    break;
                }
            }
        }
        self.asked = asked;
        // Those that were asked in vain go to the end of the queue.
        let fruitful: Vec<usize> = found.iter().map(|(_, index, _)| *index).collect();
        let mut next: Vec<KindId> = fruitful.iter().map(|i| self.order[*i]).collect();
        next.extend(&self.order[asked..]);
        next.extend((0..asked).filter(|i| !fruitful.contains(i)).map(|i| self.order[i]));
        self.order = next;
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.kind.cmp(&b.2.kind)));
        let count = found.len();
        for (_, _, load) in found {
            add(problem, lp, loads, load);
        }
        count
    }
}

/// Prices of resources such that no kind holds more value than it costs; what every size is worth at those prices; and what all
/// items are worth, which bounds the cost from below.
pub(crate) fn resource_prices(problem: &Problem) -> (Vec<f64>, Vec<f64>, i64) {
    let Some(first) = problem.sizes.first() else { return (Vec::new(), Vec::new(), 0) };
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
            let each = |k: usize| problem.price(k as KindId) / part(k, dim);
            each(*a).total_cmp(&each(*b))
        });
        let Some(kind) = best else { return (Vec::new(), vec![0.0; problem.sizes.len()], 0) };
        start.push(Column {
            cost: problem.price(kind as KindId),
            entries: vec![(row as u32, part(kind, dim))],
        });
    }
    let mut lp = Cover::new(&need, start);
    for kind in 0..problem.kinds.len() {
        let entries = used.iter().enumerate().map(|(row, dim)| (row as u32, part(kind, *dim))).collect();
        lp.add(Column { cost: problem.price(kind as KindId), entries });
    }
    lp.optimise(problem.tuning.resource_pivots);
    let mut price = vec![0.0; dims];
    for (dual, &dim) in lp.duals().iter().zip(&used) {
        price[dim] = dual.max(0.0) / demand[dim];
    }
    // Rounding must not make a kind worth more than its price.
    let worth = |room: &[i64]| room.iter().zip(&price).map(|(r, p)| *r as f64 * p).sum::<f64>();
    let over = problem.kinds.iter().map(|k| worth(&k.room) / k.cost()).fold(1.0_f64, f64::max);
    let value: Vec<f64> = problem
        .sizes
        .iter()
        .map(|s| s.request.iter().zip(&price).map(|(r, p)| *r as f64 * p).sum::<f64>() / over)
        .collect();
    let total: f64 = value.iter().zip(&problem.sizes).map(|(v, s)| v * f64::from(s.count)).sum();
    price.iter_mut().for_each(|p| *p /= over);
    (price, value, knapsack::cautious(total))
}

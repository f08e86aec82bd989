//! The most value that a bin of a kind can hold, searched for exactly or bounded from above.
//!
//! For any non-negative prices of resources, a bin holds at most what its room is worth plus what each item is worth beyond
//! the resources that it takes. Good prices make that bound tight; branching closes the rest.

use super::fill::{Scratch, extend};
use super::problem::{KindId, Load, Problem, SizeId};
use super::tuning::numeric::{CAUTION, LEAST_WORTH, NEARLY_ONE};
use crate::fractional::{self, Cut, Item};

/// Rounds a bound down, well beyond floating-point error.
pub(crate) fn cautious(total: f64) -> i64 {
    (total * (1.0 - CAUTION)).floor().max(0.0) as i64
}

/// A lower bound from any values of sizes: scaled down until no kind can hold more value than it costs. Zero if there was no
/// time for it.
pub(crate) fn certify(
    problem: &Problem,
    values: &[f64],
    need: &[f64],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> i64 {
    let mut over = 1.0_f64;
    let mut known: Vec<Vec<f64>> = Vec::new();
    // The dearest first: prices that are good for a large bin mostly do for smaller ones, too.
    for kind in (0..problem.kinds.len() as KindId).rev() {
        if !keep_going() {
            return 0;
        }
        let price = problem.price(kind);
        let items = items_of(problem, kind, values);
        let room = &problem.kinds[kind as usize].room[..];
        if known
            .iter()
            .rev()
            .take(problem.tuning.prices_to_try)
            .any(|prices| bound_at(problem, room, &items, prices) <= over * price)
        {
            continue;
        }
        // Those of the problem with items that can be cut make the bound least.
        let prices = good_prices(problem, room, &items, None);
        over = over.max(bound_at(problem, room, &items, &prices) / price);
        known.push(prices);
    }
    let total: f64 = values.iter().zip(need).map(|(v, n)| v.max(0.0) * n).sum();
    cautious(total / over)
}

/// As [`certify`], branching where the bound alone does not do. Also returns loads worth more than they cost, if any.
pub(crate) fn search(
    problem: &Problem,
    values: &[f64],
    need: &[f64],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> (i64, Vec<Load>) {
    let mut over = 1.0_f64;
    let (mut steps, mut cuts) = (0, 0);
    let sizes = (problem.sizes.len() as u32).max(1);
    let tuning = &problem.tuning;
    let most_cuts = tuning.cuts_times_sizes_squared / (sizes * sizes);
    let most_steps = tuning.most_steps_in_all / sizes.max(tuning.sizes_per_step) * tuning.sizes_per_step;
    let mut better: Vec<(f64, Load)> = Vec::new();
    for kind in 0..problem.kinds.len() as KindId {
        if !keep_going() {
            return (0, Vec::new());
        }
        let price = problem.price(kind);
        let mut bounded = Bounded::new(problem, kind, values);
        let root = bounded.root();
        if root <= price * (1.0 + tuning.slack) {
            over = over.max(root / price);
            continue;
        }
        bounded.most_steps = tuning.most_steps.min(most_steps.saturating_sub(steps));
        bounded.most_cuts = tuning.most_cuts.min(most_cuts.saturating_sub(cuts));
        let most = bounded.branch(price);
        steps += bounded.steps;
        cuts += bounded.cuts;
        over = over.max(most / price);
        if bounded.best > price * (1.0 + tuning.branched_margin) {
            better.push((bounded.best / price, Load { kind, content: bounded.best_content() }));
        }
    }
    better.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)));
    better.truncate(tuning.loads_per_search);
    let total: f64 = values.iter().zip(need).map(|(v, n)| v.max(0.0) * n).sum();
    (cautious(total / over), better.into_iter().map(|(_, load)| load).collect())
}

/// Loads worth more than they cost, from cut items rounded down and what still fits beside them: large bins lose little by that.
pub(crate) fn rounded(
    problem: &Problem,
    values: &[f64],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Vec<Load> {
    let all: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut scratch = Scratch::default();
    let mut found: Vec<(f64, Load)> = Vec::new();
    for kind in 0..problem.kinds.len() as KindId {
        if !keep_going() {
            break;
        }
        let price = problem.price(kind);
        let items = items_of(problem, kind, values);
        let cut = cut(problem, &problem.kinds[kind as usize].room, &items, None);
        scratch.start(problem, kind);
        let mut order: Vec<(f64, usize)> = cut.amounts.iter().enumerate().map(|(i, n)| (*n, i)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut worth = 0.0;
        for (amount, index) in order {
            let (size, _, value) = items[index];
            let take = (amount + NEARLY_ONE).floor() as u32;
            let take = take.min(scratch.most(problem, size, all[size as usize]));
            if take > 0 {
                scratch.take(problem, size, take);
                worth += value * f64::from(take);
            }
        }
        worth += extend(problem, kind, &all, values, &mut scratch);
        if worth > price * (1.0 + problem.tuning.rounded_margin) {
            found.push((worth / price, Load { kind, content: scratch.content.clone() }));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)));
    found.truncate(problem.tuning.loads_per_search);
    found.into_iter().map(|(_, load)| load).collect()
}

/// Sizes worth anything that go into the kind, with the most of each that could go in alone.
fn items_of(problem: &Problem, kind: KindId, values: &[f64]) -> Vec<(SizeId, u32, f64)> {
    let room = &problem.kinds[kind as usize].room[..];
    let mut items: Vec<(SizeId, u32, f64)> = Vec::new();
    for &size in &problem.accepts[kind as usize] {
        let data = &problem.sizes[size as usize];
        let most = crate::amounts::times(&data.request, room).min(data.cap).min(data.count);
        if most > 0 && values[size as usize] > 0.0 {
            items.push((size, most, values[size as usize]));
        }
    }
    items
}

struct Bounded<'a> {
    problem: &'a Problem,
    room: &'a [i64],
    /// Sizes worth anything, best first, with the most of each that could go in alone.
    items: Vec<(SizeId, u32, f64)>,
    /// Several sets of resource prices; each gives a bound, and the least counts.
    price_sets: Vec<Vec<f64>>,
    /// By price set: sum over the items from an index on of what they are worth beyond their resources.
    suffixes: Vec<Vec<f64>>,
    best: f64,
    chosen: Vec<u32>,
    best_chosen: Vec<u32>,
    steps: u32,
    most_steps: u32,
    cuts: u32,
    most_cuts: u32,
    /// The largest bound of a branch that was given up.
    open: f64,
}

impl<'a> Bounded<'a> {
    fn new(problem: &'a Problem, kind: KindId, values: &[f64]) -> Self {
        let room = &problem.kinds[kind as usize].room[..];
        let items = items_of(problem, kind, values);
        let mut price_sets = vec![good_prices(problem, room, &items, None)];
        price_sets.extend(
            (0..room.len()).filter(|d| room[*d] > 0).map(|d| good_prices(problem, room, &items, Some(d))),
        );
        let main = &price_sets[0];
        let density =
            |i: &(SizeId, u32, f64)| i.2 / worth(&problem.sizes[i.0 as usize].request, main).max(LEAST_WORTH);
        let mut order: Vec<(f64, (SizeId, u32, f64))> = items.iter().map(|i| (density(i), *i)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.0.cmp(&b.1.0)));
        let items: Vec<(SizeId, u32, f64)> = order.into_iter().map(|(_, i)| i).collect();
        let suffix = |prices: &Vec<f64>| {
            let mut out = vec![0.0; items.len() + 1];
            for (index, (size, most, value)) in items.iter().enumerate().rev() {
                let beyond = (value - worth(&problem.sizes[*size as usize].request, prices)).max(0.0);
                out[index] = out[index + 1] + f64::from(*most) * beyond;
            }
            out
        };
        let suffixes = price_sets.iter().map(suffix).collect();
        Self {
            problem,
            room,
            chosen: vec![0; items.len()],
            items,
            price_sets,
            suffixes,
            best: 0.0,
            best_chosen: Vec::new(),
            steps: 0,
            most_steps: problem.tuning.most_steps,
            cuts: 0,
            most_cuts: problem.tuning.most_cuts,
            open: 0.0,
        }
    }

    /// The most that can still be added to what is left of the room, from an item on.
    fn beyond(&self, index: usize, left: &[i64]) -> f64 {
        let bounds =
            self.price_sets.iter().zip(&self.suffixes).map(|(prices, s)| worth(left, prices) + s[index]);
        bounds.fold(f64::INFINITY, f64::min)
    }

    /// As [`Self::beyond`], at the prices that are best for just this.
    fn beyond_at_best(&self, index: usize, left: &[i64]) -> f64 {
        let items: Vec<(SizeId, u32, f64)> = self.items[index..]
            .iter()
            .map(|(size, most, value)| {
                let fits = crate::amounts::times(&self.problem.sizes[*size as usize].request, left);
                (*size, fits.min(*most), *value)
            })
            .filter(|(_, most, _)| *most > 0)
            .collect();
        bound_at(self.problem, left, &items, &good_prices(self.problem, left, &items, None))
    }

    fn root(&self) -> f64 {
        self.beyond(0, self.room)
    }

    /// Searches; the result is an upper bound of what the kind can hold.
    fn branch(&mut self, price: f64) -> f64 {
        // Loads worth no more than this are of no interest.
        let floor = price * (1.0 + self.problem.tuning.slack);
        let mut left = self.room.to_vec();
        self.step(0, &mut left, 0.0, floor);
        self.best.max(self.open).max(floor.min(self.root()))
    }

    fn step(&mut self, index: usize, left: &mut [i64], value: f64, floor: f64) {
        if value > self.best {
            self.best = value;
            self.best_chosen = self.chosen.clone();
        }
        if index >= self.items.len() {
            return;
        }
        let mut bound = value + self.beyond(index, left);
        if bound <= self.best.max(floor) {
            return;
        }
        if self.cuts < self.most_cuts {
            self.cuts += 1;
            bound = bound.min(value + self.beyond_at_best(index, left));
            if bound <= self.best.max(floor) {
                return;
            }
        }
        self.steps += 1;
        if self.steps > self.most_steps {
            self.open = self.open.max(bound);
            return;
        }
        let (size, most, each) = self.items[index];
        let data = &self.problem.sizes[size as usize];
        let taken = |exclusion: u32| -> u32 {
            let same = |i: &(SizeId, u32, f64)| self.problem.sizes[i.0 as usize].exclusion == Some(exclusion);
            self.items.iter().zip(&self.chosen).filter(|(i, _)| same(i)).map(|(_, n)| *n).sum()
        };
        let free = data.exclusion.map_or(u32::MAX, |e| data.cap.saturating_sub(taken(e)));
        let fits = crate::amounts::times(&data.request, left).min(most).min(free);
        for count in (0..=fits).rev() {
            for (room, want) in left.iter_mut().zip(&data.request) {
                *room -= want * i64::from(count);
            }
            self.chosen[index] = count;
            self.step(index + 1, left, value + each * f64::from(count), floor);
            self.chosen[index] = 0;
            for (room, want) in left.iter_mut().zip(&data.request) {
                *room += want * i64::from(count);
            }
        }
    }

    fn best_content(&self) -> Vec<(SizeId, u32)> {
        self.items.iter().zip(&self.best_chosen).filter(|(_, n)| **n > 0).map(|(i, n)| (i.0, *n)).collect()
    }
}

fn worth(amounts: &[i64], prices: &[f64]) -> f64 {
    amounts.iter().zip(prices).map(|(a, p)| *a as f64 * p).sum()
}

/// The most value that a bin can hold at any non-negative prices of resources: what its room is worth, and what each item is
/// worth beyond the resources that it takes.
fn bound_at(problem: &Problem, room: &[i64], items: &[(SizeId, u32, f64)], prices: &[f64]) -> f64 {
    let beyond = |(size, most, value): &(SizeId, u32, f64)| {
        (value - worth(&problem.sizes[*size as usize].request, prices)).max(0.0) * f64::from(*most)
    };
    worth(room, prices) + items.iter().map(beyond).sum::<f64>()
}

/// Resource prices that make the bound small.
fn good_prices(
    problem: &Problem,
    room: &[i64],
    items: &[(SizeId, u32, f64)],
    only: Option<usize>,
) -> Vec<f64> {
    let used: Vec<usize> = used_dims(room, only);
    let mut prices = vec![0.0; room.len()];
    for (price, dim) in cut(problem, room, items, only).prices.into_iter().zip(&used) {
        prices[*dim] = price / room[*dim] as f64;
    }
    prices
}

fn used_dims(room: &[i64], only: Option<usize>) -> Vec<usize> {
    (0..room.len()).filter(|d| room[*d] > 0 && only.is_none_or(|o| o == *d)).collect()
}

/// The problem with items that can be cut, for all resources or as if only one were scarce.
fn cut(problem: &Problem, room: &[i64], items: &[(SizeId, u32, f64)], only: Option<usize>) -> Cut {
    let dims = used_dims(room, only);
    let shares: Vec<f64> = items
        .iter()
        .flat_map(|(size, ..)| {
            let request = &problem.sizes[*size as usize].request;
            dims.iter().map(move |d| request[*d] as f64 / room[*d] as f64)
        })
        .collect();
    let cut: Vec<Item<'_>> = items
        .iter()
        .zip(shares.chunks(dims.len().max(1)))
        .map(|((_, most, value), request)| Item { value: *value, request, most: f64::from(*most) })
        .collect();
    fractional::solve(&cut, dims.len())
}

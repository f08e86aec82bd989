//! The most value that a node of a kind can hold, searched for exactly or bounded from above.
//!
//! For any non-negative prices of resources, a node holds at most what its room is worth plus what each pod is worth beyond
//! the resources that it takes. Good prices make that bound tight; branching closes the rest.

use super::problem::{KindId, Load, Problem, SizeId};

/// Steps of branching per kind.
const MOST_STEPS: u32 = 4_000;

/// Rounds a bound down, well beyond floating-point error.
pub(crate) fn cautious(total: f64) -> i64 {
    (total * (1.0 - 1e-7)).floor().max(0.0) as i64
}

/// A lower bound from any values of sizes: scaled down until no kind can hold more value than it costs.
pub(crate) fn certify(problem: &Problem, values: &[f64], need: &[f64]) -> i64 {
    let mut over = 1.0_f64;
    for kind in 0..problem.kinds.len() as KindId {
        let bound = Bounded::new(problem, kind, values).root();
        over = over.max(bound / problem.kinds[kind as usize].price.max(1) as f64);
    }
    let total: f64 = values.iter().zip(need).map(|(v, n)| v.max(0.0) * n).sum();
    cautious(total / over)
}

/// As [`certify`], branching where the bound alone does not do. Also returns loads worth more than they cost, if any.
pub(crate) fn search(problem: &Problem, values: &[f64], need: &[f64]) -> (i64, Vec<Load>) {
    let mut over = 1.0_f64;
    let mut better: Vec<(f64, Load)> = Vec::new();
    for kind in 0..problem.kinds.len() as KindId {
        let price = problem.kinds[kind as usize].price.max(1) as f64;
        let mut bounded = Bounded::new(problem, kind, values);
        let root = bounded.root();
        if root <= price * (1.0 + 1e-6) {
            over = over.max(root / price);
            continue;
        }
        let most = bounded.branch(price);
        over = over.max(most / price);
        if bounded.best > price * (1.0 + 1e-6) {
            better.push((bounded.best / price, Load { kind, content: bounded.best_content() }));
        }
    }
    better.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)));
    better.truncate(20);
    let total: f64 = values.iter().zip(need).map(|(v, n)| v.max(0.0) * n).sum();
    (cautious(total / over), better.into_iter().map(|(_, load)| load).collect())
}

struct Bounded<'a> {
    problem: &'a Problem,
    room: &'a [i64],
    /// Sizes worth anything, best first, with the most of each that could go in alone.
    items: Vec<(SizeId, u32, f64)>,
    prices: Vec<f64>,
    /// Sum over the items from an index on of what they are worth beyond their resources.
    suffix: Vec<f64>,
    best: f64,
    chosen: Vec<u32>,
    best_chosen: Vec<u32>,
    steps: u32,
    /// The largest bound of a branch that was given up.
    open: f64,
}

impl<'a> Bounded<'a> {
    fn new(problem: &'a Problem, kind: KindId, values: &[f64]) -> Self {
        let room = &problem.kinds[kind as usize].room[..];
        let mut items: Vec<(SizeId, u32, f64)> = Vec::new();
        for &size in &problem.accepts[kind as usize] {
            let data = &problem.sizes[size as usize];
            let most = crate::dims::times(&data.request, room).min(data.cap).min(data.count);
            if most > 0 && values[size as usize] > 0.0 {
                items.push((size, most, values[size as usize]));
            }
        }
        let prices = good_prices(problem, room, &items);
        let mut out = Self {
            problem,
            room,
            items,
            prices,
            suffix: Vec::new(),
            best: 0.0,
            chosen: Vec::new(),
            best_chosen: Vec::new(),
            steps: 0,
            open: 0.0,
        };
        let density = |i: &(SizeId, u32, f64)| i.2 / out.resources(i.0).max(1e-12);
        let mut order: Vec<(f64, (SizeId, u32, f64))> = out.items.iter().map(|i| (density(i), *i)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.0.cmp(&b.1.0)));
        out.items = order.into_iter().map(|(_, i)| i).collect();
        out.suffix = vec![0.0; out.items.len() + 1];
        for index in (0..out.items.len()).rev() {
            let (size, most, value) = out.items[index];
            out.suffix[index] = out.suffix[index + 1] + f64::from(most) * (value - out.resources(size)).max(0.0);
        }
        out.chosen = vec![0; out.items.len()];
        out
    }

    fn resources(&self, size: SizeId) -> f64 {
        worth(&self.problem.sizes[size as usize].request, &self.prices)
    }

    fn root(&self) -> f64 {
        worth(self.room, &self.prices) + self.suffix[0]
    }

    /// Searches; the result is an upper bound of what the kind can hold.
    fn branch(&mut self, price: f64) -> f64 {
        // Loads worth no more than the price are of no interest.
        let floor = price * (1.0 + 1e-6);
        let mut left = self.room.to_vec();
        self.step(0, &mut left, 0.0, floor);
        self.best.max(self.open).max(floor.min(self.root()))
    }

    fn step(&mut self, index: usize, left: &mut [i64], value: f64, floor: f64) {
        if value > self.best {
            self.best = value;
            self.best_chosen = self.chosen.clone();
        }
        let bound = value + worth(left, &self.prices) + self.suffix[index.min(self.items.len())];
        if index >= self.items.len() || bound <= self.best.max(floor) {
            return;
        }
        self.steps += 1;
        if self.steps > MOST_STEPS {
            self.open = self.open.max(bound);
            return;
        }
        let (size, most, each) = self.items[index];
        let request = self.problem.sizes[size as usize].request.clone();
        let taken = |exclusion: u32| -> u32 {
            let same = |i: &(SizeId, u32, f64)| self.problem.sizes[i.0 as usize].exclusion == Some(exclusion);
            self.items.iter().zip(&self.chosen).filter(|(i, _)| same(i)).map(|(_, n)| *n).sum()
        };
        let data = &self.problem.sizes[size as usize];
        let free = data.exclusion.map_or(u32::MAX, |e| data.cap.saturating_sub(taken(e)));
        let fits = crate::dims::times(&request, left).min(most).min(free);
        for count in (0..=fits).rev() {
            for (room, want) in left.iter_mut().zip(&request) {
                *room -= want * i64::from(count);
            }
            self.chosen[index] = count;
            self.step(index + 1, left, value + each * f64::from(count), floor);
            self.chosen[index] = 0;
            for (room, want) in left.iter_mut().zip(&request) {
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

/// Resource prices that make the bound small: for each resource in turn the best price with the others fixed.
fn good_prices(problem: &Problem, room: &[i64], items: &[(SizeId, u32, f64)]) -> Vec<f64> {
    let dims = room.len();
    let mut prices = vec![0.0; dims];
    for _ in 0..4 {
        for dim in 0..dims {
            if room[dim] <= 0 {
                continue;
            }
            // The bound is piecewise linear in one price, with corners where a size stops paying for its resources.
            let mut corners: Vec<(f64, f64)> = Vec::new();
            for (size, most, value) in items {
                let request = &problem.sizes[*size as usize].request;
                if request[dim] == 0 {
                    continue;
                }
                let rest = worth(request, &prices) - request[dim] as f64 * prices[dim];
                let corner = (value - rest) / request[dim] as f64;
                if corner > 0.0 {
                    corners.push((corner, request[dim] as f64 * f64::from(*most)));
                }
            }
            corners.sort_by(|a, b| b.0.total_cmp(&a.0));
            let mut filled = 0.0;
            prices[dim] = 0.0;
            for (corner, amount) in corners {
                filled += amount;
                if filled >= room[dim] as f64 {
                    prices[dim] = corner;
                    break;
                }
            }
        }
    }
    prices
}

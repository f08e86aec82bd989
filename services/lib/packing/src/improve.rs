//! Improving a packing: a few bins are emptied and packed again, and the result is kept if it is cheaper.

use super::construct::{Candidate, complete};
use super::fill::Scratch;
use super::problem::{Load, Problem};
use super::tuning::Tuning;

/// How much other values may lead a fill away from what the duals say: large items first, or small ones.
const TILTS: [Tilt; 5] = [Tilt::Flatter(2), Tilt::Flatter(3), Tilt::None, Tilt::Steeper(3), Tilt::Steeper(2)];

/// Deterministic stand-in for chance: which bins are tried together.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// Improves one packing, call by call.
pub(crate) struct Improver<'a> {
    problem: &'a Problem,
    value: &'a [f64],
    good: &'a [Load],
    /// Kinds worth trying, with the most value for money that they hold.
    kinds: Vec<Candidate>,
    /// Values of sizes, each tilted another way.
    tilts: Vec<Vec<f64>>,
    loads: Vec<Load>,
    /// Value for money, beside `loads`.
    worths: Vec<f64>,
    chance: Sequence,
    left: Vec<u32>,
    scratch: Scratch,
}

impl<'a> Improver<'a> {
    /// `most`: by kind, the most value for money that it holds.
    pub(crate) fn new(
        problem: &'a Problem,
        value: &'a [f64],
        good: &'a [Load],
        most: &[Candidate],
        loads: Vec<Load>,
    ) -> Self {
        let kinds = useful_kinds(&problem.tuning, most, &loads);
        let worths = loads.iter().map(|load| problem.value_for_money(load, value)).collect();
        Self {
            problem,
            value,
            good,
            kinds,
            tilts: TILTS.iter().map(|by| by.of(value)).collect(),
            loads,
            worths,
            chance: Sequence(0x9E37_79B9_7F4A_7C15),
            left: vec![0; problem.sizes.len()],
            scratch: Scratch::default(),
        }
    }

    pub(crate) fn cost(&self) -> i64 {
        self.problem.cost(&self.loads)
    }

    /// Goes on from another packing.
    pub(crate) fn take_up(&mut self, most: &[Candidate], loads: Vec<Load>) {
        self.kinds = useful_kinds(&self.problem.tuning, most, &loads);
        self.worths = loads.iter().map(|load| self.problem.value_for_money(load, self.value)).collect();
        self.loads = loads;
    }

    pub(crate) fn into_loads(self) -> Vec<Load> {
        self.loads
    }

    /// `rounds` attempts, mostly with bins among the `bad` worst.
    pub(crate) fn run(&mut self, rounds: usize, bad: usize, keep_going: &(dyn Fn() -> bool + Sync)) {
        let mut worst = self.worst(bad);
        for round in 0..rounds {
            if self.loads.len() < 2
                || (round.is_multiple_of(self.problem.tuning.rounds_per_deadline) && !keep_going())
            {
                break;
            }
            if self.attempt(round, &worst) {
                worst = self.worst(bad);
            }
        }
    }

    /// The bins with the least value for money: they have the most to gain.
    fn worst(&self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        let by_worth = |a: &usize, b: &usize| self.worths[*a].total_cmp(&self.worths[*b]).then(a.cmp(b));
        if count < order.len() {
            order.select_nth_unstable_by(count, by_worth);
            order.truncate(count);
        }
        order.sort_by(by_worth);
        order
    }

    /// Empties a few bins and packs them again; true if that was cheaper.
    fn attempt(&mut self, round: usize, worst: &[usize]) -> bool {
        let (problem, some) = (self.problem, 2 + round % 5);
        let mut taken: Vec<usize> = Vec::new();
        while taken.len() < some.min(self.loads.len()) {
            let bad = taken.len() < 1 + some / 2;
            let pick =
                if bad { worst[self.chance.below(worst.len())] } else { self.chance.below(self.loads.len()) };
            if !taken.contains(&pick) {
                taken.push(pick);
            } else if bad && taken.len() >= worst.len() {
                break;
            }
        }
        let before: i64 = taken.iter().map(|i| problem.kinds[self.loads[*i].kind as usize].price).sum();
        for (size, n) in taken.iter().flat_map(|index| &self.loads[*index].content) {
            self.left[*size as usize] += n;
        }
        let value = &self.tilts[self.chance.below(TILTS.len())];
        let all: f64 = self.left.iter().zip(value).map(|(n, v)| f64::from(*n) * v).sum();
        let candidates: Vec<Candidate> = self
            .kinds
            .iter()
            .map(|most| {
                let whole = all / problem.price(most.kind);
                Candidate { ratio: (problem.tuning.tilted_more * most.ratio).min(whole), kind: most.kind }
            })
            .collect();
        let known = if round.is_multiple_of(2) { self.good } else { &[] };
        let mut fresh = Vec::new();
        complete(problem, &candidates, value, known, &mut self.left, &mut fresh, &mut self.scratch);
        let done = self.left.iter().all(|n| *n == 0);
        self.left.fill(0);
        if !done || (problem.cost(&fresh), fresh.len()) >= (before, taken.len()) {
            return false;
        }
        taken.sort_unstable_by(|a, b| b.cmp(a));
        for index in taken {
            self.loads.swap_remove(index);
            self.worths.swap_remove(index);
        }
        self.worths.extend(fresh.iter().map(|load| problem.value_for_money(load, self.value)));
        self.loads.extend(fresh);
        true
    }
}

/// More (or less) weight on what is worth more than the mean, which keeps its value. Roots are taken by taking square roots:
/// unlike powers, those are the same on every machine.
#[derive(Clone, Copy, Debug)]
enum Tilt {
    None,
    /// Multiplies by the root of the ratio to the mean, and by a lesser root: 2 stands for the power of 5/16, 3 for 5/32.
    Steeper(u32),
    /// Divides by it.
    Flatter(u32),
}

impl Tilt {
    fn of(self, value: &[f64]) -> Vec<f64> {
        let mean = (value.iter().sum::<f64>() / value.len().max(1) as f64).max(f64::MIN_POSITIVE);
        let root = |ratio: f64, halvings: u32| (0..halvings).fold(ratio, |root, _| root.sqrt());
        let factor = |ratio: f64, halvings: u32| root(ratio, halvings) * root(ratio, halvings + 2);
        let tilted = |v: &f64| match self {
            Self::None => *v,
            Self::Steeper(halvings) => v * factor(v / mean, halvings),
            Self::Flatter(_) if *v <= 0.0 => *v,
            Self::Flatter(halvings) => v / factor(v / mean, halvings),
        };
        value.iter().map(tilted).collect()
    }
}

/// Kinds that are in use, and those that could hold nearly their price in value, the best first.
fn useful_kinds(tuning: &Tuning, most: &[Candidate], loads: &[Load]) -> Vec<Candidate> {
    let mut used = vec![false; most.len()];
    loads.iter().for_each(|l| used[l.kind as usize] = true);
    let mut others: Vec<Candidate> =
        most.iter().copied().filter(|c| !used[c.kind as usize] && c.ratio >= tuning.useful_ratio).collect();
    others.sort_by(|a, b| b.cmp(a));
    others.truncate(tuning.most_kinds);
    let mut out: Vec<Candidate> = most.iter().copied().filter(|c| used[c.kind as usize]).collect();
    out.extend(others);
    out
}

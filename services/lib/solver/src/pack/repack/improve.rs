//! Improving a packing: a few nodes are emptied and packed again, and the result is kept if it is cheaper.

use super::construct::complete;
use super::fill::{Scratch, fill};
use super::problem::{KindId, Load, Problem};

/// Deterministic stand-in for chance: which nodes are tried together.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// Kinds that are in use, or that could hold nearly their price in value.
fn useful_kinds(problem: &Problem, value: &[f64], loads: &[Load]) -> Vec<KindId> {
    let all: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut scratch = Scratch::default();
    let mut used = vec![false; problem.kinds.len()];
    loads.iter().for_each(|l| used[l.kind as usize] = true);
    let mut useful = |kind: &KindId| {
        used[*kind as usize] || {
            let worth = fill(problem, *kind, &all, value, &mut scratch);
            worth >= 0.85 * problem.kinds[*kind as usize].price as f64
        }
    };
    (0..problem.kinds.len() as KindId).filter(|k| useful(k)).collect()
}

/// `rounds` attempts. Returns the cheaper packing. `batch` makes one call try other nodes than the last.
pub(crate) fn improve(
    problem: &Problem,
    value: &[f64],
    good: &[Load],
    mut loads: Vec<Load>,
    (batch, rounds): (u64, usize),
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Vec<Load> {
    let mut chance = Sequence(0x9E37_79B9_7F4A_7C15 ^ (batch << 17));
    let bad_ones = 8 << batch.min(4);
    let worth = |load: &Load| -> f64 {
        load.content.iter().map(|(s, n)| value[*s as usize] * f64::from(*n)).sum::<f64>()
            / problem.kinds[load.kind as usize].price.max(1) as f64
    };
    let kinds = useful_kinds(problem, value, &loads);
    let mut left = vec![0_u32; problem.sizes.len()];
    for round in 0..rounds {
        if loads.len() < 2 || (round % 16 == 0 && !keep_going()) {
            break;
        }
        // Badly used nodes first: they have the most to gain.
        let mut order: Vec<(f64, usize)> = loads.iter().enumerate().map(|(i, l)| (worth(l), i)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut taken: Vec<usize> = Vec::new();
        let some = 2 + round % 5;
        while taken.len() < some.min(loads.len()) {
            let bad = taken.len() < 1 + some / 2;
            let pick = if bad {
                order[chance.below(order.len().min(bad_ones))].1
            } else {
                chance.below(loads.len())
            };
            if !taken.contains(&pick) {
                taken.push(pick);
            } else if bad && taken.len() >= order.len().min(bad_ones) {
                break;
            }
        }
        let before: i64 = taken.iter().map(|i| problem.kinds[loads[*i].kind as usize].price).sum();
        for &index in &taken {
            for (size, n) in &loads[index].content {
                left[*size as usize] += n;
            }
        }
        // Other values lead to other fills: large pods first, or rather what the duals say.
        let tilt = 1.0 + 0.15 * (chance.below(5) as f64 - 2.0);
        let tilted: Vec<f64> = value.iter().map(|v| v.powf(tilt)).collect();
        let mut fresh = Vec::new();
        let known = if round % 2 == 0 { good } else { &[] };
        complete(problem, &kinds, &tilted, known, &mut left, &mut fresh);
        let done = left.iter().all(|n| *n == 0);
        left.fill(0);
        if done && (problem.cost(&fresh), fresh.len()) < (before, taken.len()) {
            taken.sort_unstable_by(|a, b| b.cmp(a));
            for index in taken {
                loads.swap_remove(index);
            }
            loads.extend(fresh);
        }
    }
    loads
}

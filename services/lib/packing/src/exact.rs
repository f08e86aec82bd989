//! The cheapest packing of very few items, by trying all of them.
//!
//! A set of items is how many it has of each size. The cheapest packing of a set is a bin for some part that has the set's
//! first item, and the cheapest packing of the others; sets are numbered so that parts come before wholes.

use super::problem::{KindId, Load, Problem, SizeId};

/// The cheapest packing; `None` if there are too many ways.
pub(crate) fn pack(problem: &Problem) -> Option<Vec<Load>> {
    let (mut sets, mut pairs) = (1_usize, 1_usize);
    for size in &problem.sizes {
        let choices = (size.count as usize).saturating_add(1);
        pairs = pairs
            .checked_mul(choices.checked_mul(choices + 1)? / 2)
            .filter(|n| *n <= problem.tuning.most_pairs)?;
        sets *= choices;
    }
    let bases: Vec<usize> = problem.sizes.iter().map(|size| size.count as usize + 1).collect();
    let counts: Vec<Vec<u32>> = (0..sets).map(|set| counts(problem, set)).collect();
    let mut by_price: Vec<KindId> = (0..problem.kinds.len() as KindId).collect();
    by_price.sort_by_key(|kind| (problem.kinds[*kind as usize].price, *kind));
    let node: Vec<Option<KindId>> =
        counts.iter().map(|set| by_price.iter().copied().find(|kind| holds(problem, *kind, set))).collect();
    // By set: the least cost, and the part that shares the first bin.
    let mut best: Vec<Option<(i64, usize)>> = vec![None; sets];
    best[0] = Some((0, 0));
    for set in 1..sets {
        let first = counts[set].iter().position(|n| *n > 0)?;
        let mut part = 0;
        while let Some(next) = next_part(part, &counts[part], &counts[set], &bases) {
            part = next;
            let (true, Some(kind)) = (counts[part][first] > 0, node[part]) else { continue };
            // Numbers of sets subtract as the sets do, since no count of the part is greater.
            let Some((others, _)) = best[set - part] else { continue };
            let cost = others.saturating_add(problem.kinds[kind as usize].price);
            if best[set].is_none_or(|(least, _)| cost < least) {
                best[set] = Some((cost, part));
            }
        }
    }
    let mut loads = Vec::new();
    let mut left = sets - 1;
    while left > 0 {
        let (_, part) = best[left]?;
        let content =
            (0..).zip(&counts[part]).filter(|(_, n)| **n > 0).map(|(s, n)| (s as SizeId, *n)).collect();
        loads.push(Load { kind: node[part]?, content });
        left -= part;
    }
    Some(loads)
}

/// The part of the set that comes after this one; `None` after the set itself.
fn next_part(part: usize, own: &[u32], set: &[u32], bases: &[usize]) -> Option<usize> {
    let (mut next, mut unit) = (part, 1);
    for ((have, most), base) in own.iter().zip(set).zip(bases) {
        if have < most {
            return Some(next + unit);
        }
        next -= *have as usize * unit;
        unit *= base;
    }
    None
}

/// How many items of each size the set of that number has.
fn counts(problem: &Problem, mut set: usize) -> Vec<u32> {
    let digit = |size: &super::problem::Size| {
        let base = size.count as usize + 1;
        let own = set % base;
        set /= base;
        own as u32
    };
    problem.sizes.iter().map(digit).collect()
}

fn holds(problem: &Problem, kind: KindId, set: &[u32]) -> bool {
    let members = || problem.sizes.iter().zip(set).filter(|(_, n)| **n > 0);
    let mut room: Vec<i64> = problem.kinds[kind as usize].room.to_vec();
    for (size, n) in members() {
        if *n > size.cap || !size.kinds.has(kind as usize) {
            return false;
        }
        if let Some(exclusion) = size.exclusion {
            let together: u32 =
                members().filter(|(s, _)| s.exclusion == Some(exclusion)).map(|(_, n)| n).sum();
            if together > size.cap {
                return false;
            }
        }
        room.iter_mut().zip(&size.request).for_each(|(have, want)| *have -= want * i64::from(*n));
    }
    room.iter().all(|have| *have >= 0)
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::super::columns::{Proof, by_resources, price};
    use super::super::problem::{Kind, Size};
    use super::super::simple;
    use super::*;
    use crate::bits::Bits;
    use crate::tuning::Tuning;

    struct Chance(u64);

    impl Chance {
        fn below(&mut self, limit: i64) -> i64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(self.0 >> 33).unwrap_or(0) % limit
        }
    }

    fn random_problem(seed: u64) -> Problem {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let kind = |chance: &mut Chance| Kind {
            price: 1 + chance.below(100_000),
            room: (0..3).map(|_| 10 + chance.below(90)).collect(),
        };
        let mut kinds: Vec<Kind> = (0..1 + chance.below(5)).map(|_| kind(&mut chance)).collect();
        kinds.sort_by_key(|kind| kind.price);
        let sizes = (0..1 + chance.below(4)).map(|_| {
            let request: SmallVec<[i64; 4]> = (0..3).map(|_| chance.below(40)).collect();
            let mut allowed = Bits::new(kinds.len());
            for (id, kind) in kinds.iter().enumerate() {
                if crate::amounts::fits(&request, &kind.room) && chance.below(4) > 0 {
                    allowed.set(id);
                }
            }
            let rule = chance.below(4);
            let cap = if rule == 0 { 2 } else { u32::MAX };
            Size {
                request,
                count: 1 + chance.below(4) as u32,
                cap,
                exclusion: (rule == 0).then_some(7),
                kinds: allowed,
            }
        });
        Problem::new(sizes.collect(), kinds, 3, Tuning::DEFAULT)
    }

    #[test]
    fn no_bound_is_above_the_best_packing_and_no_packing_is_below() {
        let mut tried = 0;
        for seed in 0..3000 {
            let problem = random_problem(seed);
            let Some(best) = pack(&problem).filter(|_| problem.is_feasible()) else { continue };
            let best = problem.cost(&best);
            tried += 1;
            for proof in [Proof::Exact, Proof::Quick, Proof::None] {
                let bound = price(&problem, proof, &|| true).bound;
                assert!(bound <= best, "seed {seed}, {proof:?}: {bound} above {best}: {problem:?}");
            }
            for easier in [problem.eased().0, problem.clone()] {
                let bound = by_resources(&easier).bound;
                assert!(bound <= best, "seed {seed}: {bound} above {best}: {problem:?}");
            }
            let simple = simple::pack(&problem, &|| true).expect("every size has a kind");
            assert!(problem.cost(&simple) >= best, "seed {seed}: {problem:?}");
        }
        assert!(tried > 1000, "only {tried} problems can be packed");
    }
}

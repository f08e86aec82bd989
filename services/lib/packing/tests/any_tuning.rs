//! Whatever the tuning, packings are valid and no bound is above the cheapest packing, which is found by trying them all.

use packing::{Bits, Effort, Kind, Load, Problem, Relaxation, Size, Tuning, fits, pack};

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap_or(0) % limit
    }

    fn amount(&mut self, limit: u32) -> i64 {
        i64::from(self.below(limit))
    }
}

/// At most six items of three sizes, and four kinds.
fn problem(chance: &mut Chance, tuning: Tuning) -> Problem {
    let kind = |chance: &mut Chance| Kind {
        price: 1 + chance.amount(100_000),
        room: (0..2).map(|_| 10 + chance.amount(90)).collect(),
    };
    let kinds: Vec<Kind> = (0..1 + chance.below(4)).map(|_| kind(chance)).collect();
    let mut sizes = Vec::new();
    for _ in 0..1 + chance.below(3) {
        let request = (0..2).map(|_| chance.amount(40)).collect::<Vec<i64>>();
        let mut allowed = Bits::new(kinds.len());
        for (id, kind) in kinds.iter().enumerate() {
            if fits(&request, &kind.room) && chance.below(4) > 0 {
                allowed.set(id);
            }
        }
        let shared = chance.below(4) == 0;
        sizes.push(Size {
            request: request.into_iter().collect(),
            count: 1 + chance.below(2),
            cap: if shared { 1 + chance.below(2) } else { u32::MAX },
            exclusion: shared.then_some(7),
            kinds: allowed,
        });
    }
    // Sizes of one exclusion have one cap.
    let cap = sizes.iter().filter(|size| size.exclusion.is_some()).map(|size| size.cap).min();
    for size in sizes.iter_mut().filter(|size| size.exclusion.is_some()) {
        size.cap = cap.unwrap_or(u32::MAX);
    }
    Problem::new(sizes, kinds, 2, tuning)
}

/// Values far from the defaults, each by itself or together with others.
fn tuning(chance: &mut Chance) -> Tuning {
    let mut out = Tuning::DEFAULT;
    let mut maybe = |change: &dyn Fn(&mut Tuning)| {
        if chance.below(3) == 0 {
            change(&mut out);
        }
    };
    // Without the exact packing of few items, everything else has its turn.
    maybe(&|t| t.most_pairs = 0);
    maybe(&|t| t.most_pairs = 0);
    maybe(&|t| (t.most_sizes, t.most_sizes_proven) = (1, 1));
    maybe(&|t| (t.few_sizes, t.many_sizes) = (100, 0));
    maybe(&|t| (t.few_sizes, t.many_sizes) = (0, 100));
    maybe(&|t| (t.most_steps, t.most_steps_in_all) = (1, 1));
    maybe(&|t| (t.most_cuts, t.slack) = (0, 0.5));
    maybe(&|t| (t.close_to_mix, t.slack) = (0.0, 0.0));
    maybe(&|t| (t.most_work, t.more_pivots, t.pivots_per_size) = (0, 1, 0));
    maybe(&|t| (t.inertia, t.least_value, t.fill_margin) = (0.99, 2.0, 0.5));
    maybe(&|t| (t.take_one_in, t.last_room, t.looks_before_compacting) = (1, 0.0, 1));
    maybe(&|t| (t.quick_rounds, t.least_rounds, t.most_rounds, t.rounds_per_bin) = (0, 0, 0, 0));
    maybe(&|t| (t.useful_ratio, t.most_kinds, t.tilted_more) = (0.0, 1, 10.0));
    maybe(&|t| (t.most_parts_to_dive, t.nearly_whole, t.eased_part) = (1000, 0.1, 1));
    out
}

fn may_hold(problem: &Problem, load: &Load) -> bool {
    let kind = &problem.kinds()[load.kind as usize];
    let members = || load.content.iter().map(|(size, n)| (&problem.sizes()[*size as usize], *n));
    let mut used = vec![0; kind.room.len()];
    for (size, n) in members() {
        used.iter_mut().zip(&size.request).for_each(|(sum, one)| *sum += one * i64::from(n));
    }
    let excluded: u32 = members().filter(|(size, _)| size.exclusion.is_some()).map(|(_, n)| n).sum();
    fits(&used, &kind.room)
        && members().all(|(size, n)| {
            size.kinds.has(load.kind as usize)
                && n <= size.cap
                && (size.exclusion.is_none() || excluded <= size.cap)
        })
}

/// The least cost of packing the items from an index on, beside the loads so far.
fn least(problem: &Problem, items: &[u32], loads: &mut Vec<Load>) -> Option<i64> {
    let Some((&item, rest)) = items.split_first() else { return Some(0) };
    let mut best: Option<i64> = None;
    for index in 0..loads.len() {
        loads[index].content.push((item, 1));
        let together = merged(&loads[index]);
        if may_hold(problem, &together) {
            best = best.into_iter().chain(least(problem, rest, loads)).min();
        }
        loads[index].content.pop();
    }
    for kind in problem.sizes()[item as usize].kinds.iter() {
        loads.push(Load { kind: u32::try_from(kind).unwrap_or(0), content: vec![(item, 1)] });
        let price = problem.kinds()[kind].price;
        let cost = least(problem, rest, loads).map(|others| others + price);
        best = best.into_iter().chain(cost).min();
        loads.pop();
    }
    best
}

fn merged(load: &Load) -> Load {
    let mut content: Vec<(u32, u32)> = Vec::new();
    for (size, n) in &load.content {
        match content.iter_mut().find(|(known, _)| known == size) {
            Some((_, sum)) => *sum += n,
            None => content.push((*size, *n)),
        }
    }
    Load { kind: load.kind, content }
}

#[test]
fn no_tuning_makes_a_packing_invalid_or_a_bound_too_high() {
    let mut packed = 0;
    for seed in 0..3000 {
        let mut chance = Chance(seed * 0x9E37_79B9 + 1);
        let tuning = tuning(&mut chance);
        let problem = problem(&mut chance, tuning);
        let items: Vec<u32> =
            (0..).zip(problem.sizes()).flat_map(|(id, size)| (0..size.count).map(move |_| id)).collect();
        if !problem.is_feasible() {
            assert_eq!(pack(&problem, Effort::Full, &|| true), None, "seed {seed}");
            continue;
        }
        let best = least(&problem, &items, &mut Vec::new()).expect("every size has a kind");
        packed += 1;
        for effort in [Effort::Quick, Effort::Full, Effort::Proven] {
            let found = pack(&problem, effort, &|| true).expect("every size has a kind");
            let cost = problem.cost(&found.loads);
            let mut held = vec![0; problem.sizes().len()];
            for load in &found.loads {
                assert!(may_hold(&problem, load), "seed {seed}, {effort:?}: {load:?} of {problem:?}");
                load.content.iter().for_each(|(size, n)| held[*size as usize] += n);
            }
            let wanted: Vec<u32> = problem.sizes().iter().map(|size| size.count).collect();
            assert_eq!(held, wanted, "seed {seed}, {effort:?}: {problem:?}");
            assert!(cost >= best, "seed {seed}, {effort:?}: {cost} is less than {best}: {problem:?}");
            let bound = found.bound.map_or(0, packing::LowerBound::get);
            assert!(bound <= best, "seed {seed}, {effort:?}: bound {bound} above {best}: {problem:?}");
        }
        let bound = Relaxation::of(&problem).prove(&|| true).map_or(0, packing::LowerBound::get);
        assert!(bound <= best, "seed {seed}: bound {bound} above {best}: {problem:?}");
    }
    assert!(packed > 1000, "only {packed} problems can be packed");
}

#[test]
fn without_time_there_is_no_packing_and_with_little_there_is_a_valid_one() {
    use std::sync::atomic::{AtomicU32, Ordering};
    for seed in 0..300 {
        let mut chance = Chance(seed + 1);
        let problem = problem(&mut chance, Tuning { most_pairs: 0, ..Tuning::DEFAULT });
        assert_eq!(pack(&problem, Effort::Full, &|| false), None);
        let (steps, asked) = (chance.below(20), AtomicU32::new(0));
        let found = pack(&problem, Effort::Proven, &|| asked.fetch_add(1, Ordering::Relaxed) < steps);
        for load in found.iter().flat_map(|found| &found.loads) {
            assert!(may_hold(&problem, load), "seed {seed}: {load:?} of {problem:?}");
        }
    }
}

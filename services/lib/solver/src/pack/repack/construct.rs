//! Building a packing: whole parts of the optimal mix, then node after node by value for money.

use super::columns::Priced;
use super::fill::{Scratch, fill};
use super::problem::{KindId, Load, Problem};

/// Packs everything: whole parts of the mix first.
pub(crate) fn construct(problem: &Problem, priced: &Priced) -> Vec<Load> {
    let mut left: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut loads = Vec::new();
    for (load, times) in &priced.mix {
        let copies = (times.floor() as u32).min(copies(&left, load));
        push(&mut loads, &mut left, load, copies);
    }
    // With and without the loads that are known to be good: either may leave the better rest.
    let (mut other_left, mut other) = (left.clone(), loads.clone());
    let kinds: Vec<KindId> = (0..problem.kinds.len() as KindId).collect();
    complete(problem, &kinds, &priced.value, &priced.good, &mut left, &mut loads);
    complete(problem, &kinds, &priced.value, &[], &mut other_left, &mut other);
    if problem.cost(&other) < problem.cost(&loads) { other } else { loads }
}

/// Packs what is left: always the node with the most value for its price, given what is left. `good` are loads known to be
/// worth their price.
pub(crate) fn complete(
    problem: &Problem,
    kinds: &[KindId],
    value: &[f64],
    good: &[Load],
    left: &mut [u32],
    loads: &mut Vec<Load>,
) {
    let mut scratch = Scratch::default();
    let ratio = |load: &Load| {
        let worth: f64 = load.content.iter().map(|(s, n)| value[*s as usize] * f64::from(*n)).sum();
        worth / problem.kinds[load.kind as usize].price.max(1) as f64
    };
    let mut good: Vec<(f64, &Load)> =
        good.iter().filter(|l| copies(left, l) > 0).map(|l| (ratio(l), l)).collect();
    good.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)));
    // The last known ratio of each kind. As pods go, ratios mostly fall: a kind that still beats all others' old ratios is best.
    let mut known: Vec<(f64, KindId)> = kinds.iter().map(|k| (f64::INFINITY, *k)).collect();
    while left.iter().any(|n| *n > 0) {
        good.retain(|(_, load)| copies(left, load) > 0);
        let ready = good.first().map_or(0.0, |(ratio, _)| *ratio);
        let mut best: Option<(f64, usize)> = None;
        known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (index, slot) in known.iter_mut().enumerate() {
            if slot.0 <= best.map_or(ready, |(ratio, _)| ratio.max(ready)) {
                break;
            }
            let kind = slot.1;
            let worth = fill(problem, kind, left, value, &mut scratch);
            let ratio = worth / problem.kinds[kind as usize].price.max(1) as f64;
            slot.0 = ratio;
            if ratio > 0.0 && best.is_none_or(|(r, _)| ratio > r) {
                best = Some((ratio, index));
            }
        }
        if let (Some((ready, load)), true) =
            (good.first().copied(), best.is_none_or(|(ratio, _)| ratio <= ready))
        {
            debug_assert!(ready > 0.0);
            let copies = copies(left, load);
            push(loads, left, load, copies);
            continue;
        }
        let Some((_, index)) = best else { return };
        let kind = known[index].1;
        fill(problem, kind, left, value, &mut scratch);
        let load = Load { kind, content: scratch.content.clone() };
        let copies = copies(left, &load).max(1);
        push(loads, left, &load, copies);
    }
}

fn copies(left: &[u32], load: &Load) -> u32 {
    load.content.iter().map(|(size, n)| left[*size as usize] / n).min().unwrap_or(0)
}

fn push(loads: &mut Vec<Load>, left: &mut [u32], load: &Load, copies: u32) {
    for _ in 0..copies {
        loads.push(load.clone());
    }
    for (size, n) in &load.content {
        left[*size as usize] -= n * copies;
    }
}

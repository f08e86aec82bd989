//! Building a packing: whole parts of the optimal mix, then node after node by value for money.

use super::columns::Priced;
use super::fill::{Scratch, fill};
use super::problem::{KindId, Load, Problem};

/// Packs everything.
pub(crate) fn construct(problem: &Problem, priced: &Priced) -> Vec<Load> {
    let mut left: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut loads = Vec::new();
    for (load, times) in &priced.mix {
        let copies = (times.floor() as u32).min(copies(&left, load));
        push(&mut loads, &mut left, load, copies);
    }
    complete(problem, &priced.value, &mut left, &mut loads);
    loads
}

/// Packs what is left: always the node with the most value for its price, given what is left.
pub(crate) fn complete(problem: &Problem, value: &[f64], left: &mut [u32], loads: &mut Vec<Load>) {
    let mut scratch = Scratch::default();
    // The last known ratio of each kind. As pods go, ratios mostly fall: a kind that still beats all others' old ratios is best.
    let mut known: Vec<(f64, KindId)> = (0..problem.kinds.len() as KindId).map(|k| (f64::INFINITY, k)).collect();
    while left.iter().any(|n| *n > 0) {
        let mut best: Option<(f64, usize)> = None;
        known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for index in 0..known.len() {
            if best.is_some_and(|(ratio, _)| known[index].0 <= ratio) {
                break;
            }
            let kind = known[index].1;
            let worth = fill(problem, kind, left, value, &mut scratch);
            let ratio = worth / problem.kinds[kind as usize].price.max(1) as f64;
            known[index].0 = ratio;
            if ratio > 0.0 && best.is_none_or(|(r, _)| ratio > r) {
                best = Some((ratio, index));
            }
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

//! Building a packing: whole parts of the optimal mix, then bin after bin by value for money.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::columns::Priced;
use super::fill::{Scratch, fill};
use super::problem::{KindId, Load, Problem, SizeId};
use super::simple;

/// A kind and how much value for its price a bin of it holds, or held when that was last looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) ratio: f64,
    pub(crate) kind: KindId,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio.total_cmp(&other.ratio).then(other.kind.cmp(&self.kind))
    }
}

/// How much value for its price a bin of each kind holds with all items to choose from, the most that it will hold.
pub(crate) fn at_most(problem: &Problem, value: &[f64], scratch: &mut Scratch) -> Vec<Candidate> {
    let all: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let of = |kind: KindId| {
        let worth = fill(problem, kind, &all, value, scratch);
        Candidate { ratio: worth / problem.price(kind), kind }
    };
    (0..problem.kinds.len() as KindId).map(of).collect()
}

/// Packs everything: whole parts of the mix first. `most` as of [`at_most`].
pub(crate) fn construct(
    problem: &Problem,
    priced: &Priced,
    most: &[Candidate],
    scratch: &mut Scratch,
) -> Vec<Load> {
    let mut left: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut loads = Vec::new();
    for (load, times) in &priced.mix {
        let copies = (times.floor() as u32).min(copies(&left, load));
        push(&mut loads, &mut left, load, copies);
    }
    let (mut other_left, mut other) = (left.clone(), loads.clone());
    complete(problem, most, &priced.value, &priced.good, &mut left, &mut loads, scratch);
    simple::put_rest(problem, &left, &mut loads);
    if priced.good.is_empty() {
        return loads;
    }
    // With and without the loads that are known to be good: either may leave the better rest.
    complete(problem, most, &priced.value, &[], &mut other_left, &mut other, scratch);
    simple::put_rest(problem, &other_left, &mut other);
    if problem.cost(&other) < problem.cost(&loads) { other } else { loads }
}

/// Packs what is left: always the bin with the most value for its price, given what is left. `kinds` come with ratios that
/// they hardly exceed; `good` are loads known to be worth their price. Items without value stay left.
pub(crate) fn complete(
    problem: &Problem,
    kinds: &[Candidate],
    value: &[f64],
    good: &[Load],
    left: &mut [u32],
    loads: &mut Vec<Load>,
    scratch: &mut Scratch,
) {
    let ready = good.iter().filter(|load| copies(left, load) > 0);
    let mut good: Vec<(f64, &Load)> =
        ready.map(|load| (problem.value_for_money(load, value), load)).collect();
    good.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.kind.cmp(&b.1.kind)));
    // As items go, ratios mostly fall: a kind that still beats all others' old ratios is best.
    let mut queue: BinaryHeap<Candidate> = kinds.to_vec().into();
    let (mut asked, mut content): (Vec<Candidate>, Vec<(SizeId, u32)>) = (Vec::new(), Vec::new());
    while left.iter().any(|n| *n > 0) {
        good.retain(|(_, load)| copies(left, load) > 0);
        let ready = good.first().map_or(0.0, |(ratio, _)| *ratio);
        let mut best: Option<Candidate> = None;
        while let Some(top) = queue.peek() {
            if top.ratio <= best.map_or(ready, |b| b.ratio.max(ready)) {
                break;
            }
            let kind = top.kind;
            queue.pop();
            let worth = fill(problem, kind, left, value, scratch);
            let now = Candidate { ratio: worth / problem.price(kind), kind };
            // What holds nothing of what is left will not hold anything later.
            if now.ratio > 0.0 {
                asked.push(now);
                if best.is_none_or(|b| now > b) {
                    best = Some(now);
                    std::mem::swap(&mut content, &mut scratch.content);
                }
            }
        }
        queue.extend(asked.drain(..));
        if let (Some((_, load)), true) = (good.first().copied(), best.is_none_or(|b| b.ratio <= ready)) {
            push(loads, left, load, copies(left, load));
            continue;
        }
        let Some(best) = best else { return };
        let load = Load { kind: best.kind, content: content.clone() };
        push(loads, left, &load, copies(left, &load).max(1));
    }
}

/// How often the load can be made of what is left.
pub(super) fn copies(left: &[u32], load: &Load) -> u32 {
    load.content.iter().map(|(size, n)| left[*size as usize] / n).min().unwrap_or(0)
}

pub(super) fn push(loads: &mut Vec<Load>, left: &mut [u32], load: &Load, copies: u32) {
    for _ in 0..copies {
        loads.push(load.clone());
    }
    for (size, n) in &load.content {
        left[*size as usize] -= n * copies;
    }
}

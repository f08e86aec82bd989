//! Packing by repeated rounding: the whole parts of the optimal mix are taken, the mix for what is left is found anew, and so
//! on. Slower than filling up the rest by value, and closer to the bound where bins are few and large.

use super::columns::{self, Priced, Proof};
use super::construct::{Candidate, complete, copies, push};
use super::fill::Scratch;
use super::problem::{Load, Problem, SizeId};
use super::simple;

/// `most`: by kind, the most value for money that it holds.
pub(crate) fn dive(
    problem: &Problem,
    priced: &Priced,
    most: &[Candidate],
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Vec<Load> {
    let mut left: Vec<u32> = problem.sizes.iter().map(|s| s.count).collect();
    let mut loads = Vec::new();
    let mut mix = priced.mix.clone();
    for _ in 0..problem.tuning.most_mixes {
        if !take(&mix, problem.tuning.nearly_whole, &mut left, &mut loads)
            || left.iter().all(|n| *n == 0)
            || !keep_going()
        {
            break;
        }
        mix = mix_of(problem, &left, keep_going);
    }
    complete(problem, most, &priced.value, &priced.good, &mut left, &mut loads, &mut Scratch::default());
    simple::put_rest(problem, &left, &mut loads);
    loads
}

/// Takes the loads that the mix has whole, or nearly; if there is none, the one that it has most of. False if nothing could be
/// taken.
fn take(mix: &[(Load, f64)], nearly_whole: f64, left: &mut [u32], loads: &mut Vec<Load>) -> bool {
    let mut taken = 0;
    for (load, times) in mix {
        let whole = ((times + 1.0 - nearly_whole).floor() as u32).min(copies(left, load));
        push(loads, left, load, whole);
        taken += whole;
    }
    if taken == 0 {
        let possible = mix.iter().filter(|(load, _)| copies(left, load) > 0);
        if let Some((load, _)) = possible.max_by(|a, b| a.1.total_cmp(&b.1)) {
            push(loads, left, load, 1);
            taken = 1;
        }
    }
    taken > 0
}

/// The optimal mix for what is left.
fn mix_of(problem: &Problem, left: &[u32], keep_going: &(dyn Fn() -> bool + Sync)) -> Vec<(Load, f64)> {
    let (rest, size_of): (Problem, Vec<SizeId>) = problem.rest(left);
    let mut mix = columns::price(&rest, Proof::None, keep_going).mix;
    for (size, _) in mix.iter_mut().flat_map(|(load, _)| &mut load.content) {
        *size = size_of[*size as usize];
    }
    mix
}

//! Packs a valid decision again by price: prices of pod sizes from column generation, a packing by value for money, and rounds
//! of improvement.

use super::repack::columns::{self, Proof};
use super::repack::construct::{at_most, construct};
use super::repack::dive::dive;
use super::repack::fill::Scratch;
use super::repack::improve::Improver;
use super::repack::problem::Choice;
use super::repack::realize::Parts;
use crate::engine::state::State;
use crate::options::Effort;

/// Rounds of improvement: of a what-if, of a packing under rules, and of one batch where only price matters.
const QUICK_ROUNDS: usize = 20;
const LEAST_ROUNDS: usize = 150;
const MOST_ROUNDS: usize = 1500;
/// Rounds get slower with the number of nodes and sizes: fewer of them, then.
const ROUNDS_TIMES_PARTS: usize = 300_000;
const PLAIN_ROUNDS_TIMES_PARTS: usize = 3_000_000;
const PLAIN_ROUNDS: usize = 2000;
/// Batches on plain workloads, each looking beyond the nodes that the last one looked at.
const MOST_BATCHES: usize = 6;
/// A packing that is above its bound by one part in so many is good enough.
const CLOSE: i64 = 66;
/// With more sizes, finding the mix again and again takes too long.
const MOST_SIZES_TO_DIVE: usize = 100;

/// What of a decision can be packed again; `None` where that would be of no use.
pub(crate) fn parts(
    state: &State<'_>,
    effort: Effort,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Option<Parts> {
    // One node in place of others is what a what-if looks for; two cheaper ones would be of no use to it.
    if effort == Effort::Quick && state.bins.len() < 2 {
        return None;
    }
    let parts = Parts::of(state);
    (!parts.pieces.is_empty() && keep_going()).then_some(parts)
}

/// The decision packed again by price, if that is cheaper, and a bound if packing is the whole problem.
pub(crate) fn by_price<'w>(
    state: &State<'w>,
    parts: &Parts,
    effort: Effort,
    whole: bool,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> (Option<State<'w>>, Option<i64>) {
    let (problem, size_of) = parts.problem(state, if whole { Choice::All } else { Choice::Few });
    if !problem.is_feasible() {
        return (None, None);
    }
    let priced = match effort {
        Effort::Quick => columns::by_resources(&problem),
        Effort::Full if whole => columns::price(&problem, Proof::Exact, keep_going),
        Effort::Full => columns::price(&problem, Proof::None, keep_going),
    };
    let mut scratch = Scratch::default();
    let most = at_most(&problem, &priced.value, &mut scratch);
    let loads = construct(&problem, &priced, &most, &mut scratch);
    let rounds = (ROUNDS_TIMES_PARTS / (loads.len() + problem.sizes.len())).clamp(LEAST_ROUNDS, MOST_ROUNDS);
    let plain_rounds =
        (PLAIN_ROUNDS_TIMES_PARTS / (loads.len() + problem.sizes.len())).clamp(LEAST_ROUNDS, PLAIN_ROUNDS);
    let mut improver = Improver::new(&problem, &priced.value, &priced.good, &most, loads);
    match effort {
        Effort::Quick => improver.run(QUICK_ROUNDS, 8, keep_going),
        Effort::Full if !whole => improver.run(rounds, 32, keep_going),
        Effort::Full => {
            for batch in 0..MOST_BATCHES {
                let before = improver.cost();
                improver.run(plain_rounds, 8 << batch, keep_going);
                // Where a close bound says that there is more to gain, it is worth more attempts, while they gain anything.
                let close = improver.cost() <= priced.bound.saturating_add(priced.bound / CLOSE);
                if close || (batch > 1 && before - improver.cost() < before / 2000) {
                    break;
                }
                if batch == 0 && problem.sizes.len() <= MOST_SIZES_TO_DIVE {
                    let other = dive(&problem, &priced, &most, keep_going);
                    if problem.cost(&other) < improver.cost() {
                        improver.take_up(&most, other);
                    }
                }
            }
        }
    }
    let loads = improver.into_loads();
    let packed =
        parts.realize(state, &problem, &size_of, &loads).filter(|packed| packed.cost() < state.cost());
    (packed, whole.then_some(priced.bound))
}

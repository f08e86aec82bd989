//! Packs a valid decision again by price: what was placed becomes a packing problem, and its solution a decision.

use packing::{LowerBound, pack};

use super::asks::Choice;
use super::realize::Parts;
use crate::engine::state::State;
use crate::options::Effort;

/// What of a decision can be packed again; `None` where that would be of no use.
pub(crate) fn parts(
    state: &State<'_>,
    effort: Effort,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Option<Parts> {
    // One node in place of others is what a what-if looks for; two cheaper ones would be of no use to it. Where that one is
    // cheapest, `cheapest_single` asks.
    if effort == Effort::Quick && state.bins.len() < 2 {
        return None;
    }
    Parts::of(state, keep_going).filter(|parts| !parts.pieces.is_empty())
}

/// The decision packed again by price, if that is cheaper, and a bound if packing is the whole problem.
pub(crate) fn by_price<'w>(
    state: &State<'w>,
    parts: &Parts,
    effort: Effort,
    whole: bool,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> (Option<State<'w>>, Option<LowerBound>) {
    let (choice, effort) = match (effort, whole) {
        (Effort::Quick, _) => (Choice::Few, packing::Effort::Quick),
        (Effort::Full, false) => (Choice::Few, packing::Effort::Full),
        (Effort::Full, true) => (Choice::All, packing::Effort::Proven),
    };
    let packed = |any_pool: bool| {
        let posed = parts.problem(state, choice, any_pool, keep_going)?;
        let packing = pack(&posed.problem, effort, keep_going)?;
        let packed = parts.realize(state, &posed, &packing.loads, keep_going);
        Some((packed.filter(|packed| packed.cost() < state.cost()), packing.bound))
    };
    let (wide, bound) = packed(true).unwrap_or_default();
    // Limits may keep pods out of the cheapest pool after all, and a packing of fewer kinds may happen to be the better one.
    let again = parts.has_other_pools() && (wide.is_none() || effort != packing::Effort::Quick);
    if !again || !keep_going() {
        return (wide, bound);
    }
    let (narrow, of_narrow) = packed(false).unwrap_or_default();
    let cheaper = |a: State<'w>, b: State<'w>| if b.cost() < a.cost() { b } else { a };
    let best = match (wide, narrow) {
        (Some(wide), Some(narrow)) => Some(cheaper(wide, narrow)),
        (wide, narrow) => wide.or(narrow),
    };
    (best, bound.or(of_narrow))
}

//! Packs a valid decision again by price: prices of pod sizes from column generation, a packing by value for money, and rounds
//! of improvement.

use super::repack::asks::Choice;
use super::repack::columns::{self, Proof};
use super::repack::components::Component;
use super::repack::construct::{at_most, construct};
use super::repack::dive::dive;
use super::repack::exact;
use super::repack::fill::Scratch;
use super::repack::improve::Improver;
use super::repack::problem::{Load, Problem};
use super::repack::realize::Parts;
use super::repack::simple;
use crate::bound::{LowerBound, Relaxation};
use crate::engine::state::State;
use crate::options::Effort;

/// Rounds of improvement: of a what-if, of a packing under rules, and of one batch where only price matters.
const QUICK_ROUNDS: usize = 20;
const LEAST_ROUNDS: usize = 150;
const MOST_ROUNDS: usize = 1500;
/// Few nodes have few ways to be better.
const ROUNDS_A_NODE: usize = 120;
/// Rounds get slower with the number of nodes and sizes: fewer of them, then.
const ROUNDS_TIMES_PARTS: usize = 300_000;
const PLAIN_ROUNDS_TIMES_PARTS: usize = 3_000_000;
const PLAIN_ROUNDS: usize = 2000;
/// Batches on plain workloads, each looking beyond the nodes that the last one looked at.
const MOST_BATCHES: usize = 6;
/// A packing that is above its bound by one part in so many is good enough.
const CLOSE: i64 = 66;
/// Nodes and sizes of a packing under rules that is small enough to find the mix again and again.
const MOST_PARTS_TO_DIVE: usize = 60;
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
    let choice = if whole { Choice::All } else { Choice::Few };
    let problem = parts.problem(state, choice, keep_going).filter(|(problem, _)| problem.is_feasible());
    let Some((problem, size_of)) = problem else { return (None, None) };
    let components = problem.components();
    let mut packings = Vec::with_capacity(components.len());
    for component in &components {
        // A valid packing of all first; then each is improved while there is time.
        let Some(simple) = simple::pack(&component.problem, keep_going) else { return (None, None) };
        packings.push((simple, None));
    }
    for (component, packing) in components.iter().zip(&mut packings).take_while(|_| keep_going()) {
        let simple = std::mem::take(&mut packing.0);
        *packing = match effort {
            Effort::Quick => (quickly(&component.problem, simple, keep_going), None),
            Effort::Full => thoroughly(&component.problem, simple, whole, keep_going),
        };
    }
    let bound =
        packings.iter().map(|(_, bound)| *bound).collect::<Option<Vec<_>>>().and_then(LowerBound::of_all);
    let renamed = |((loads, _), component): ((Vec<Load>, _), &Component)| -> Vec<Load> {
        loads.into_iter().map(|load| component.in_whole(load)).collect()
    };
    let loads: Vec<Load> = packings.into_iter().zip(&components).flat_map(renamed).collect();
    let packed = parts.realize(state, &problem, &size_of, &loads, keep_going);
    (packed.filter(|packed| packed.cost() < state.cost()), bound)
}

/// By resource prices and few rounds of improvement: for questions by the thousand.
fn quickly(problem: &Problem, simple: Vec<Load>, keep_going: &(dyn Fn() -> bool + Sync)) -> Vec<Load> {
    let (priced, mut scratch) = (columns::by_resources(problem), Scratch::default());
    let most = at_most(problem, &priced.value, &mut scratch);
    let loads = construct(problem, &priced, &most, &mut scratch);
    let loads = if problem.cost(&simple) < problem.cost(&loads) { simple } else { loads };
    let mut improver = Improver::new(problem, &priced.value, &priced.good, &most, loads);
    improver.run(QUICK_ROUNDS, 8, keep_going);
    improver.into_loads()
}

/// The best of several packings, improved; if packing is the whole problem, also how little any can cost.
fn thoroughly(
    problem: &Problem,
    simple: Vec<Load>,
    whole: bool,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> (Vec<Load>, Option<LowerBound>) {
    let relaxation = Relaxation::covering(problem).filter(|_| whole);
    if let Some(best) = exact::pack(problem) {
        let bound = relaxation.and_then(|whole| whole.proven_by(problem.cost(&best)));
        return (best, bound);
    }
    let priced = columns::price(problem, if whole { Proof::Exact } else { Proof::None }, keep_going);
    let mut scratch = Scratch::default();
    let most = at_most(problem, &priced.value, &mut scratch);
    let loads = construct(problem, &priced, &most, &mut scratch);
    let loads = if problem.cost(&simple) < problem.cost(&loads) { simple } else { loads };
    let (parts, most_rounds) = (loads.len() + problem.sizes.len(), ROUNDS_A_NODE * loads.len());
    let mut improver = Improver::new(problem, &priced.value, &priced.good, &most, loads);
    if !whole {
        let rounds = (ROUNDS_TIMES_PARTS / parts).clamp(LEAST_ROUNDS, MOST_ROUNDS).min(most_rounds);
        improver.run(rounds, 32, keep_going);
        if parts <= MOST_PARTS_TO_DIVE {
            let other = dive(problem, &priced, &most, keep_going);
            if problem.cost(&other) < improver.cost() {
                improver.take_up(&most, other);
                improver.run(rounds, 32, keep_going);
            }
        }
        return (improver.into_loads(), None);
    }
    let rounds = (PLAIN_ROUNDS_TIMES_PARTS / parts).clamp(LEAST_ROUNDS, PLAIN_ROUNDS).min(most_rounds);
    for batch in 0..MOST_BATCHES {
        let before = improver.cost();
        improver.run(rounds, 8 << batch, keep_going);
        // Where a close bound says that there is more to gain, it is worth more attempts, while they gain anything.
        let close = improver.cost() <= priced.bound.saturating_add(priced.bound / CLOSE);
        if close || (batch > 1 && before - improver.cost() < before / 2000) {
            break;
        }
        if batch == 0 && problem.sizes.len() <= MOST_SIZES_TO_DIVE {
            let other = dive(problem, &priced, &most, keep_going);
            if problem.cost(&other) < improver.cost() {
                improver.take_up(&most, other);
            }
        }
    }
    (improver.into_loads(), relaxation.and_then(|whole| whole.proven_by(priced.bound)))
}

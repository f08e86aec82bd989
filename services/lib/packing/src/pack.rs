//! Which packings are tried, in which order, and how long each is improved.

use crate::bound::{LowerBound, Relaxation};
use crate::columns::{self, Proof};
use crate::components::Component;
use crate::construct::{at_most, construct};
use crate::dive::dive;
use crate::exact;
use crate::fill::Scratch;
use crate::improve::Improver;
use crate::problem::{Load, Problem};
use crate::simple;

/// How much work a packing is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Resource prices and a few attempts at improvement: for questions by the thousand.
    Quick,
    /// Column generation, rounding and improvement.
    Full,
    /// As full, with more attempts, and a bound on what any packing costs.
    Proven,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    pub loads: Vec<Load>,
    /// Of a proven packing. `None`: nothing useful is known.
    pub bound: Option<LowerBound>,
}

/// Packs all items. `None` if some size has no kind, or if there was no time even for first fit.
///
/// `keep_going` is asked between steps; once it says no, the best packing so far is returned.
pub fn pack(problem: &Problem, effort: Effort, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<Packing> {
    if !problem.is_feasible() {
        return None;
    }
    let components = problem.components();
    // A valid packing of all parts first; then each is improved while there is time.
    let mut packings: Vec<Packing> = Vec::with_capacity(components.len());
    for component in &components {
        let loads = simple::pack(&component.problem, keep_going)?;
        packings.push(Packing { loads, bound: None });
    }
    for (component, packing) in components.iter().zip(&mut packings).take_while(|_| keep_going()) {
        let simple = std::mem::take(&mut packing.loads);
        *packing = match effort {
            Effort::Quick => quickly(&component.problem, simple, keep_going),
            Effort::Full => thoroughly(&component.problem, simple, keep_going),
            Effort::Proven => proven(&component.problem, simple, keep_going),
        };
    }
    let bounds: Option<Vec<LowerBound>> = packings.iter().map(|packing| packing.bound).collect();
    let in_whole = |(packing, component): (Packing, &Component)| -> Vec<Load> {
        packing.loads.into_iter().map(|load| component.in_whole(load)).collect()
    };
    Some(Packing {
        loads: packings.into_iter().zip(&components).flat_map(in_whole).collect(),
        bound: bounds.and_then(LowerBound::of_all),
    })
}

fn cheaper(problem: &Problem, simple: Vec<Load>, other: Vec<Load>) -> Vec<Load> {
    if problem.cost(&simple) < problem.cost(&other) { simple } else { other }
}

fn quickly(problem: &Problem, simple: Vec<Load>, keep_going: &(dyn Fn() -> bool + Sync)) -> Packing {
    let (tuning, mut scratch) = (&problem.tuning, Scratch::default());
    let priced = columns::by_resources(problem);
    let most = at_most(problem, &priced.value, &mut scratch);
    let loads = cheaper(problem, simple, construct(problem, &priced, &most, &mut scratch));
    let mut improver = Improver::new(problem, &priced.value, &priced.good, &most, loads);
    improver.run(tuning.quick_rounds, tuning.worst_bins, keep_going);
    Packing { loads: improver.into_loads(), bound: None }
}

fn thoroughly(problem: &Problem, simple: Vec<Load>, keep_going: &(dyn Fn() -> bool + Sync)) -> Packing {
    if let Some(loads) = exact::pack(problem) {
        return Packing { loads, bound: None };
    }
    let (tuning, mut scratch) = (&problem.tuning, Scratch::default());
    let priced = columns::price(problem, Proof::None, keep_going);
    let most = at_most(problem, &priced.value, &mut scratch);
    let loads = cheaper(problem, simple, construct(problem, &priced, &most, &mut scratch));
    let parts = loads.len() + problem.sizes.len();
    let rounds = (tuning.rounds_times_parts / parts)
        .clamp(tuning.least_rounds, tuning.most_rounds)
        .min(tuning.rounds_per_bin * loads.len());
    let mut improver = Improver::new(problem, &priced.value, &priced.good, &most, loads);
    improver.run(rounds, tuning.worst_bins_of_full, keep_going);
    if parts <= tuning.most_parts_to_dive {
        let other = dive(problem, &priced, &most, keep_going);
        if problem.cost(&other) < improver.cost() {
            improver.take_up(&most, other);
            improver.run(rounds, tuning.worst_bins_of_full, keep_going);
        }
    }
    Packing { loads: improver.into_loads(), bound: None }
}

fn proven(problem: &Problem, simple: Vec<Load>, keep_going: &(dyn Fn() -> bool + Sync)) -> Packing {
    let relaxation = Relaxation::covering(problem);
    if let Some(loads) = exact::pack(problem) {
        let bound = relaxation.and_then(|whole| whole.proven_by(problem.cost(&loads)));
        return Packing { loads, bound };
    }
    let (tuning, mut scratch) = (&problem.tuning, Scratch::default());
    let priced = columns::price(problem, Proof::Exact, keep_going);
    let most = at_most(problem, &priced.value, &mut scratch);
    let loads = cheaper(problem, simple, construct(problem, &priced, &most, &mut scratch));
    let parts = loads.len() + problem.sizes.len();
    let rounds = (tuning.proven_rounds_times_parts / parts)
        .clamp(tuning.least_rounds, tuning.proven_rounds)
        .min(tuning.rounds_per_bin * loads.len());
    let mut improver = Improver::new(problem, &priced.value, &priced.good, &most, loads);
    for batch in 0..tuning.most_batches {
        let before = improver.cost();
        improver.run(rounds, tuning.worst_bins << batch, keep_going);
        // Where a close bound says that there is more to gain, it is worth more attempts, while they gain anything.
        let close = improver.cost() <= priced.bound.saturating_add(priced.bound / tuning.close_to_bound);
        let little = before - improver.cost() < before / tuning.little_gain;
        if close || (batch >= tuning.patient_batches && little) {
            break;
        }
        if batch == 0 && problem.sizes.len() <= tuning.most_sizes_to_dive {
            let other = dive(problem, &priced, &most, keep_going);
            if problem.cost(&other) < improver.cost() {
                improver.take_up(&most, other);
            }
        }
    }
    let bound = relaxation.and_then(|whole| whole.proven_by(priced.bound));
    Packing { loads: improver.into_loads(), bound }
}

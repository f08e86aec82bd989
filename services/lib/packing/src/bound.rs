//! How little any packing can cost, with types of its own: a problem that was thinned out for packing cannot be taken for one
//! that bounds.

use std::borrow::Cow;

use crate::bits::Bits;
use crate::columns::{self, Proof};
use crate::exact;
use crate::knapsack::cautious;
use crate::problem::{Problem, Size};
use crate::tuning::numeric::ROUNDING;

/// No packing of the problem costs less, in the unit of prices. Only a [`Relaxation`] proves one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowerBound(i64);

impl LowerBound {
    /// A bound of zero says something about a packing that costs nothing, and nothing about others.
    fn new(bound: i64) -> Option<Self> {
        (bound > 0).then_some(Self(bound))
    }

    /// Of parts that are paid for one by one.
    pub(crate) fn of_all(parts: Vec<Self>) -> Option<Self> {
        Self::new(parts.iter().map(|part| part.0).sum())
    }

    pub fn get(self) -> i64 {
        self.0
    }
}

/// A problem that every solution of the caller's own, harder problem solves, too: it has all kinds that any solution could use,
/// and asks for no item that a solution could have for nothing.
pub struct Relaxation<'p>(Cow<'p, Problem>);

impl<'p> Relaxation<'p> {
    /// What a packing solves, where that is all there is to decide; `None` if something is free, or has no place.
    pub(crate) fn covering(problem: &'p Problem) -> Option<Self> {
        let paid = problem.kinds.iter().all(|kind| kind.price > 0);
        (paid && problem.is_feasible()).then_some(Self(Cow::Borrowed(problem)))
    }

    /// Leaves out items that kinds which cost nothing could hold, and items that no kind can hold.
    pub fn of(problem: &Problem) -> Relaxation<'static> {
        let mut free = Bits::new(problem.kinds.len());
        problem.kinds.iter().enumerate().filter(|(_, k)| k.price <= 0).for_each(|(id, _)| free.set(id));
        let left =
            |size: &Size| if size.kinds.is_empty() || size.kinds.meets(&free) { 0 } else { size.count };
        let left: Vec<u32> = problem.sizes.iter().map(left).collect();
        Relaxation(Cow::Owned(problem.rest(&left).0))
    }

    /// Whether [`Self::prove`] takes so long that another thread is worth its while.
    pub fn is_long(&self) -> bool {
        self.0.sizes.len() * self.0.kinds.len() > self.0.tuning.long_bound
    }

    /// The bound that solving the problem came with.
    pub(crate) fn proven_by(&self, least: i64) -> Option<LowerBound> {
        LowerBound::new(least)
    }

    /// Parts that have no kind in common are bounded one by one.
    pub fn prove(&self, keep_going: &(dyn Fn() -> bool + Sync)) -> Option<LowerBound> {
        let bound = |problem: &Problem| match exact::pack(problem) {
            Some(best) => problem.cost(&best),
            None => {
                let many = problem.sizes.len() > problem.tuning.many_sizes;
                let easier = many.then(|| problem.eased().0);
                let few = problem.sizes.len() <= problem.tuning.few_sizes;
                let proof = if few { Proof::Exact } else { Proof::Quick };
                columns::price(easier.as_ref().unwrap_or(problem), proof, keep_going).bound
            }
        };
        self.proven_by(self.0.components().iter().map(|part| bound(&part.problem)).sum())
    }

    /// The bound where some items need not be paid for in full: resources get prices at which no kind holds more than it costs;
    /// what the items are worth at those, beyond what can be saved, has to be paid. `saved` is told what amounts are worth, and
    /// says how much can be saved at most.
    pub fn beside(&self, saved: impl FnOnce(&dyn Fn(&[i64]) -> f64) -> f64) -> Option<LowerBound> {
        let (prices, _, _) = columns::resource_prices(&self.0);
        let worth =
            |amounts: &[i64]| amounts.iter().zip(&prices).map(|(a, p)| (*a).max(0) as f64 * p).sum::<f64>();
        let items: f64 = self.0.sizes.iter().map(|s| worth(&s.request) * f64::from(s.count)).sum();
        LowerBound::new(cautious(items - saved(&worth) * (1.0 + ROUNDING)))
    }
}

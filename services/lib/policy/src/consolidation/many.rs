//! Any number of nodes by any number, where their pools opted in: the set whose removal saves most.
//!
//! Unlike for one replacement, a longer prefix is not simply better or worse: pods of many nodes pack better together, and more
//! of them are disturbed. So a few lengths are tried, each half of the one before, and the saving decides.

use super::{Allowance, Candidate, Decision, by_savings, take};
use crate::churn::Worth;

const MOST_TOGETHER: usize = 100;

/// Ask [`ManyForMany::next`] what to simulate, answer with [`ManyForMany::tell`], until there is no next.
#[derive(Debug)]
pub struct ManyForMany<'a> {
    order: Vec<&'a Candidate>,
    /// To try next; at zero nothing is left.
    length: usize,
    best: Option<(usize, Decision, Worth)>,
}

impl<'a> ManyForMany<'a> {
    /// `opted_in`: whether a pool lets several of its nodes be replaced by several.
    pub fn new(
        candidates: impl IntoIterator<Item = &'a Candidate>,
        mut allowance: Allowance,
        opted_in: impl Fn(&str) -> bool,
    ) -> Self {
        let mut order: Vec<&Candidate> = candidates
            .into_iter()
            .filter(|c| !c.is_empty() && c.instance_type.is_some() && opted_in(&c.pool))
            .collect();
        order.sort_by(|a, b| by_savings(a, b));
        order.retain(|c| take(&mut allowance, &c.pool));
        let length = order.len().min(MOST_TOGETHER);
        Self { order, length, best: None }
    }

    /// The removal to simulate next.
    pub fn next(&self) -> Option<&[&'a Candidate]> {
        (self.length >= 1).then(|| &self.order[..self.length])
    }

    /// What became of it, and what it is worth to all pools concerned; without that it is left.
    pub fn tell(&mut self, decision: Decision, worth: Option<Worth>) {
        if let (false, Some(worth)) = (matches!(decision, Decision::Leave(_)), worth) {
            // Of equal savings the shorter wins: it disturbs fewer.
            if self.best.as_ref().is_none_or(|(_, _, best)| worth.saving >= best.saving) {
                self.best = Some((self.length, decision, worth));
            }
        }
        self.length /= 2;
    }

    pub fn best(self) -> Option<(Vec<&'a Candidate>, Decision, Worth)> {
        let (length, decision, worth) = self.best?;
        Some((self.order[..length].to_vec(), decision, worth))
    }
}

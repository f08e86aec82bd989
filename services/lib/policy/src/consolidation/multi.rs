//! Many nodes at once: the longest prefix, in order of savings, that can go together.

use super::{Allowance, Candidate, Decision, by_savings, take};

/// Most nodes of one command. (The reference means 100 too, and takes 101 by an index that is one off.)
const MOST_TOGETHER: usize = 100;

/// A binary search over prefixes. Ask [`MultiNode::next`] what to simulate, answer with [`MultiNode::tell`], until there is no
/// next; [`MultiNode::best`] is then the longest prefix found.
#[derive(Debug)]
pub struct MultiNode<'a> {
    order: Vec<&'a Candidate>,
    /// The answer, if there is a longer one, has at least this many and at most so many nodes.
    least: usize,
    most: usize,
    best: Option<(usize, Decision)>,
}

impl<'a> MultiNode<'a> {
    /// Empty candidates are left to emptiness, as are ones whose type is unknown.
    pub fn new(candidates: impl IntoIterator<Item = &'a Candidate>, mut allowance: Allowance) -> Self {
        let mut order: Vec<&Candidate> =
            candidates.into_iter().filter(|c| !c.is_empty() && c.instance_type.is_some()).collect();
        order.sort_by(|a, b| by_savings(a, b));
        order.retain(|c| take(&mut allowance, &c.pool));
        let most = order.len().min(MOST_TOGETHER);
        Self { order, least: 2, most, best: None }
    }

    /// The removal to simulate next.
    pub fn next(&self) -> Option<&[&'a Candidate]> {
        (self.least <= self.most).then(|| &self.order[..self.middle()])
    }

    fn middle(&self) -> usize {
        (self.least + self.most) / 2
    }

    /// What became of it.
    pub fn tell(&mut self, decision: Decision) {
        let tried = self.middle();
        if matches!(decision, Decision::Leave(_)) {
            self.most = tried - 1;
        } else {
            self.best = Some((tried, decision));
            self.least = tried + 1;
        }
    }

    pub fn best(self) -> Option<(Vec<&'a Candidate>, Decision)> {
        let (length, decision) = self.best?;
        Some((self.order[..length].to_vec(), decision))
    }
}

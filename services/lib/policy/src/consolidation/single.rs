//! One node at a time.

use std::collections::BTreeMap;

use super::{Allowance, Candidate, by_savings};

/// Candidates in the order in which to try them: by savings within a pool, pools in turn, so that a large pool does not starve
/// the others. The first that can go is the answer.
#[derive(Debug)]
pub struct SingleNode<'a> {
    order: std::vec::IntoIter<&'a Candidate>,
}

impl<'a> SingleNode<'a> {
    pub fn new(candidates: impl IntoIterator<Item = &'a Candidate>, allowance: &Allowance) -> Self {
        let mut pools: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates.into_iter().filter(|c| !c.is_empty() && c.instance_type.is_some()) {
            if allowance.get(&candidate.pool) != Some(&0) {
                pools.entry(&candidate.pool).or_default().push(candidate);
            }
        }
        for list in pools.values_mut() {
            list.sort_by(|a, b| by_savings(a, b));
        }
        let longest = pools.values().map(Vec::len).max().unwrap_or(0);
        let order: Vec<&Candidate> = (0..longest)
            .flat_map(|nth| pools.values().filter_map(move |list| list.get(nth).copied()))
            .collect();
        Self { order: order.into_iter() }
    }
}

impl<'a> Iterator for SingleNode<'a> {
    type Item = &'a Candidate;

    fn next(&mut self) -> Option<Self::Item> {
        self.order.next()
    }
}

//! Single nodes in their order, some at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use policy::consolidation::{Allowance, Candidate};

pub(super) struct Singles<'a> {
    order: std::vec::IntoIter<&'a Candidate>,
    asking: Vec<&'a Candidate>,
    at_once: usize,
    /// Nodes that commands of this pass removed, or moved pods to.
    left_out: BTreeSet<Arc<str>>,
    /// What the commands of this pass leave of the budgets.
    allowance: Allowance,
}

impl<'a> Singles<'a> {
    pub(super) fn new(order: Vec<&'a Candidate>, allowance: Allowance, at_once: usize) -> Self {
        let mut singles = Self {
            order: order.into_iter(),
            asking: Vec::new(),
            at_once,
            left_out: BTreeSet::new(),
            allowance,
        };
        singles.next();
        singles
    }

    pub(super) fn asking(&self) -> &[&'a Candidate] {
        &self.asking
    }

    /// Goes on, and returns those that were asked about.
    pub(super) fn next(&mut self) -> Vec<&'a Candidate> {
        let Self { order, left_out, allowance, .. } = self;
        let stays = |candidate: &&Candidate| may_go(candidate, left_out, allowance);
        let next = order.filter(stays).take(self.at_once).collect();
        std::mem::replace(&mut self.asking, next)
    }

    /// `pools`: of the nodes that were removed, once for each.
    pub(super) fn leave_out<'p>(
        &mut self,
        changed: &BTreeSet<Arc<str>>,
        pools: impl Iterator<Item = &'p Arc<str>>,
    ) {
        for pool in pools {
            if let Some(left) = self.allowance.get_mut(pool) {
                *left = left.saturating_sub(1);
            }
        }
        self.left_out.extend(changed.iter().cloned());
        let Self { asking, left_out, allowance, .. } = self;
        asking.retain(|candidate| may_go(candidate, left_out, allowance));
        if self.asking.is_empty() {
            self.next();
        }
    }
}

fn may_go(candidate: &Candidate, left_out: &BTreeSet<Arc<str>>, allowance: &Allowance) -> bool {
    allowance.get(&candidate.pool) != Some(&0) && !left_out.contains(&candidate.node)
}

//! Whether nodes of a pool manage to register: the last four outcomes of each pool, and the condition that follows from them.
//! It informs people; scheduling does not look at it.

use std::collections::VecDeque;

use api::conditions::{self, AWAITING_RECONCILIATION, Condition, ConditionStatus, Finding};

use super::Registered;

pub(super) const HEALTHY: &str = "NodeRegistrationHealthy";
const REMEMBERED: usize = 4;
/// So many failures among the remembered make a pool unhealthy.
const TOO_MANY: usize = 2;

/// The last outcomes, oldest first; `true` is a success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ring(VecDeque<bool>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unknown,
    Healthy,
    Unhealthy,
}

impl Ring {
    pub(super) fn verdict(&self) -> Verdict {
        match self.0.iter().filter(|success| !**success).count() {
            _ if self.0.is_empty() => Verdict::Unknown,
            failures if failures >= TOO_MANY => Verdict::Unhealthy,
            _ => Verdict::Healthy,
        }
    }

    pub(super) fn push(&mut self, success: bool) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(success);
    }

    /// What the verdict would be after one more outcome.
    fn verdict_with(&self, success: bool) -> Verdict {
        let mut next = self.clone();
        next.push(success);
        next.verdict()
    }

    /// As after a restart: what a condition says is all that is left of what happened.
    pub(super) fn seed(&mut self, status: &ConditionStatus) {
        let outcomes: &[bool] = match status {
            ConditionStatus::True => &[true],
            ConditionStatus::False => &[false, false],
            _ => return,
        };
        self.0 = outcomes.iter().copied().collect();
    }
}

/// Generations that the health of a pool is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generations {
    pub(super) pool: Option<i64>,
    pub(super) class: Option<i64>,
    /// Of the class, when the pool was last looked at.
    pub(super) class_observed: Option<i64>,
}

/// Seeds or resets the ring; the finding to set, if any. Without a class nothing is known and nothing said.
pub(super) fn reconcile(ring: &mut Ring, list: &[Condition], generations: Generations) -> Option<Finding> {
    let condition = conditions::find(list, HEALTHY);
    let outdated = condition.is_none_or(|c| c.observed_generation != generations.pool)
        || generations.class != generations.class_observed;
    if outdated {
        *ring = Ring::default();
        return Some(Finding::open(
            AWAITING_RECONCILIATION,
            "no node has registered since pool or class changed",
        ));
    }
    if let Some(condition) = condition.filter(|_| ring.verdict() == Verdict::Unknown) {
        ring.seed(&condition.status);
    }
    None
}

/// Takes in an outcome; the finding to set, if any.
pub(super) fn record(ring: &mut Ring, list: &[Condition], registered: &Registered) -> Option<Finding> {
    let finding = match registered {
        Registered::Yes => (ring.verdict_with(true) == Verdict::Healthy).then(Finding::holds),
        Registered::No { reason, message } => {
            let already = conditions::status(list, HEALTHY) == ConditionStatus::False;
            let unhealthy = ring.verdict_with(false) == Verdict::Unhealthy;
            (unhealthy && !already).then(|| Finding::fails(reason.clone(), message.clone()))
        }
    };
    ring.push(*registered == Registered::Yes);
    finding
}

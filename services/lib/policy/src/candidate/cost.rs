//! What it costs to disrupt the pods of a node, in [`COST_UNIT`]s.

use jiff::Timestamp;
use model::duration::NillableDuration;
use model::eviction::COST_UNIT;

use super::Subject;

/// What a node's pods come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// [`COST_UNIT`] for the node and the positive eviction costs of the pods that must move.
    pub reschedule: i64,
    /// Pods that must move.
    pub pods: u32,
}

impl Costs {
    pub fn of(subject: &Subject) -> Self {
        let mut costs = Self { reschedule: COST_UNIT, pods: 0 };
        for pod in subject.pods.iter().filter(|pod| pod.is_reschedulable()) {
            costs.reschedule = costs.reschedule.saturating_add(pod.eviction_cost.max(0));
            costs.pods += 1;
        }
        costs
    }

    /// Nothing on it costs anything to move. That is about cost, not about pods: a node whose pods all have a cost of zero or
    /// less is empty, which is a documented contract of the reference.
    pub fn is_empty(self) -> bool {
        self.reschedule <= COST_UNIT
    }
}

/// Millionths of a claim's life that are still to come; all of them when it never expires.
pub fn lifetime_remaining(created: Timestamp, expire_after: &NillableDuration, now: Timestamp) -> u32 {
    const WHOLE: i128 = 1_000_000;
    let NillableDuration::After(span) = expire_after else { return WHOLE as u32 };
    let span = i128::from(span.nanos());
    let left = span - (now.as_nanosecond() - created.as_nanosecond());
    if span <= 0 {
        return 0;
    }
    u32::try_from((left * WHOLE / span).clamp(0, WHOLE)).unwrap_or(0)
}

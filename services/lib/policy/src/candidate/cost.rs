//! What it costs to disturb pods, in whole units of 2^-27, so that sums are exact: one step of the pod-deletion-cost annotation
//! is one unit, one step of priority is four, and a plain pod is [`COST_UNIT`].

use jiff::Timestamp;
use model::duration::NillableDuration;

use super::{Resident, Subject};
use crate::consolidation::COST_UNIT;

const COST_LIMIT: i64 = 10 * COST_UNIT;

/// `1 + deletion cost / 2^27 + priority / 2^25`, within ±10. A deletion cost that is no number does not count.
pub fn eviction_cost(deletion_cost: Option<&str>, priority: i32) -> i64 {
    // Any number will do, as in the reference. A float that is not one (NaN) becomes 0, one that is too large the limit.
    let units = |text: &str| text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().map(|f| f as i64));
    let deletion_cost = deletion_cost.and_then(units).unwrap_or(0);
    COST_UNIT
        .saturating_add(deletion_cost)
        .saturating_add(4 * i64::from(priority))
        .clamp(-COST_LIMIT, COST_LIMIT)
}

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

/// The older measure, by which pools of a fixed size choose whom to let go: the costs of all pods, daemons too, times the part
/// of life that is left.
pub fn legacy_cost<'a>(pods: impl IntoIterator<Item = &'a Resident>, lifetime_remaining: u32) -> i64 {
    let sum: i64 = pods.into_iter().map(|pod| pod.eviction_cost).fold(0, i64::saturating_add);
    let cost = i128::from(sum) * i128::from(lifetime_remaining) / 1_000_000;
    i64::try_from(cost).unwrap_or(i64::MAX)
}

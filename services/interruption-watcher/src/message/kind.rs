//! The kinds of warning, from the queue and from polling.

use jiff::{SignedDuration, Timestamp};

/// How long before the end EC2 warns about an instance that it takes back.
const NOTICE: SignedDuration = SignedDuration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    SpotInterrupted,
    RebalanceRecommendation,
    ScheduledChange,
    InstanceStopped,
    InstanceTerminated,
    CapacityReservationInterrupted,
    /// Polled: a check of the instance fails.
    InstanceStatus,
    /// Polled: a check of its host fails.
    SystemStatus,
    /// Polled: a scheduled event.
    EventStatus,
    NoOp,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 10] = [
        Self::SpotInterrupted,
        Self::RebalanceRecommendation,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::CapacityReservationInterrupted,
        Self::InstanceStatus,
        Self::SystemStatus,
        Self::EventStatus,
        Self::NoOp,
    ];

    /// The reference's word, in metrics and as the reason of a removal.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::NoOp => "no_op",
        }
    }

    /// Passes PodDisruptionBudgets once [`Kind::end`] is reached, and so needs EC2's confirmation.
    pub(crate) fn ends_instance(self) -> bool {
        self.end(Timestamp::UNIX_EPOCH).is_some()
    }

    /// When the instance is gone, whatever we do: pods that are still there then had no use of their budgets. `None`: AWS
    /// gives the time that a polite drain needs.
    pub(crate) fn end(self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::SpotInterrupted | Self::CapacityReservationInterrupted => {
                Some(at.checked_add(NOTICE).unwrap_or(at))
            }
            Self::InstanceStopped | Self::InstanceTerminated => Some(at),
            _ => None,
        }
    }
}

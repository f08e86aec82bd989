//! On-demand capacity reservations and capacity blocks.

use jiff::{SignedDuration, Timestamp};

use crate::Tags;

/// EC2 starts to reclaim a capacity block 30 minutes before it ends; ten more are kept for the drain.
pub const EXPIRING_BEFORE_END: SignedDuration = SignedDuration::from_mins(40);

/// A reservation that is active and visible to the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Such as `cr-0123`.
    pub id: String,
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    pub owner_id: String,
    pub match_criteria: MatchCriteria,
    pub kind: ReservationKind,
    /// Instances left.
    pub available: u32,
    /// Instances in all.
    pub total: u32,
    /// `None` for open-ended ones.
    pub end: Option<Timestamp>,
    /// EC2 may take it back early.
    pub interruptible: bool,
    pub tags: Tags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatchCriteria {
    Open,
    Targeted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationKind {
    Default,
    CapacityBlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationState {
    Active,
    /// A capacity block near its end: nothing new is launched into it.
    Expiring,
}

impl Reservation {
    pub fn state(&self, now: Timestamp) -> ReservationState {
        let near_end = self.end.is_some_and(|end| end.duration_since(now) <= EXPIRING_BEFORE_END);
        match self.kind {
            ReservationKind::CapacityBlock if near_end => ReservationState::Expiring,
            _ => ReservationState::Active,
        }
    }

    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.end.is_some_and(|end| end <= now)
    }
}

impl MatchCriteria {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Targeted => "targeted",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Open, Self::Targeted].into_iter().find(|c| c.as_str() == text)
    }
}

impl ReservationKind {
    /// Also the value of the reservation-type label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::CapacityBlock => "capacity-block",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Default, Self::CapacityBlock].into_iter().find(|k| k.as_str() == text)
    }
}

impl ReservationState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expiring => "expiring",
        }
    }
}

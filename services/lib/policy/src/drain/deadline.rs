//! The hard deadline of a drain: where it comes from, when each pod must be deleted to meet it, and with which grace.

use jiff::Timestamp;
use model::duration::GoDuration;

use super::pod::Pod;
use super::time::{plus, plus_seconds, seconds_between};

/// The annotation `karpenter.sh/nodeclaim-termination-timestamp`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Deadline {
    #[default]
    None,
    At(Timestamp),
    /// Set, but no RFC 3339 time. Draining goes on as without one, and the owner is told. (The reference stops here for
    /// good.)
    Unreadable(String),
}

impl Deadline {
    pub fn parse(annotation: Option<&str>) -> Self {
        match annotation {
            None => Self::None,
            Some(text) => text.parse().map_or_else(|_| Self::Unreadable(text.to_owned()), Self::At),
        }
    }

    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(*at),
            Self::None | Self::Unreadable(_) => None,
        }
    }

    /// What to write on a claim that is being deleted. An annotation that exists is never changed.
    pub fn to_stamp(
        &self,
        deleted_at: Timestamp,
        termination_grace_period: Option<&GoDuration>,
    ) -> Option<Timestamp> {
        let period = termination_grace_period.filter(|_| *self == Self::None)?;
        let nanos = i64::max(period.nanos(), 0);
        Some(plus(deleted_at, jiff::SignedDuration::from_nanos(nanos)))
    }

    /// The deadline in force when another one is asked for: the earlier.
    pub fn earlier(&self, asked: Option<Timestamp>) -> Option<Timestamp> {
        match (self.at(), asked) {
            (Some(own), Some(asked)) => Some(own.min(asked)),
            (own, asked) => own.or(asked),
        }
    }
}

/// When the pod is deleted although a budget or an annotation protects it: so early that its own grace period ends in
/// time.
pub fn forced_at(pod: &Pod, deadline: Timestamp) -> Timestamp {
    plus_seconds(deadline, -pod.grace_seconds.max(0))
}

/// The grace to delete the pod with, now, if the time has come. At least one second: never a raw removal, which could
/// leave two pods of one identity running.
pub fn forced_grace(pod: &Pod, deadline: Timestamp, now: Timestamp) -> Option<i64> {
    if now <= forced_at(pod, deadline) {
        return None;
    }
    let grace = seconds_between(now, deadline).max(1);
    match pod.deletion {
        None => Some(grace),
        // The API server only ever shortens; asking for as much again would be noise.
        Some(deletion) => (deletion.ends > deadline && grace < deletion.grace_seconds).then_some(grace),
    }
}

//! The Consolidatable condition: `consolidateAfter` has passed since pods last came to the node or went.
//!
//! The time of the last such event is taken from what pods themselves carry, so that a restart changes nothing: when a pod was
//! bound, when it was told to end, when it ended. What a pod that is gone had said is kept in the claim's
//! `status.lastPodEventTime`. (The reference stamps its own clock on every pod it sees for the first time, so that every restart
//! begins the wait anew.)

use jiff::{SignedDuration, Timestamp};
use model::duration::NillableDuration;

use crate::candidate::Consolidatable;
use crate::drain::time::plus;

/// Events of one node are written down at most this often. Shorter than the wait before the second look, which relies on it.
pub const BETWEEN_EVENTS: SignedDuration = SignedDuration::from_secs(10);

/// What a bound pod says about time. Daemons are left out by whoever asks: they come and go with nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodTimes {
    /// PodScheduled became True.
    pub bound: Option<Timestamp>,
    /// deletionTimestamp less the grace period it includes: when somebody asked it to end.
    pub told_to_end: Option<Timestamp>,
    /// The last of its containers finished, for pods that succeeded or failed.
    pub ended: Option<Timestamp>,
}

impl PodTimes {
    pub fn last(&self) -> Option<Timestamp> {
        self.bound.max(self.told_to_end).max(self.ended)
    }
}

/// The last event on a node that its pods tell of. Clocks differ: nothing is later than `now`.
pub fn last_event(pods: impl IntoIterator<Item = PodTimes>, now: Timestamp) -> Option<Timestamp> {
    pods.into_iter().filter_map(|pod| pod.last()).max().map(|last| last.min(now))
}

/// What the claim and its pool say.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The pool has a fixed number of nodes.
    pub fixed_size: bool,
    pub consolidate_after: &'a NillableDuration,
    /// Since when Initialized is True.
    pub initialized: Option<Timestamp>,
    /// The later of `status.lastPodEventTime` and [`last_event`].
    pub last_event: Option<Timestamp>,
}

/// [`Consolidatable::NotBefore`] is the instant at which to ask again.
pub fn verdict(facts: Facts<'_>, now: Timestamp) -> Consolidatable {
    let (Some(after), Some(initialized), false) =
        (facts.consolidate_after.get(), facts.initialized, facts.fixed_size)
    else {
        return Consolidatable::No;
    };
    let quiet_since = facts.last_event.unwrap_or(initialized);
    let boundary = plus(quiet_since, SignedDuration::from_nanos(after.nanos()));
    if after.nanos() > 0 && now < boundary {
        Consolidatable::NotBefore(boundary)
    } else {
        Consolidatable::Yes
    }
}

/// Whether an event is to be written into the claim's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Write(Timestamp),
    /// Not before then: another was written a moment ago.
    NotBefore(Timestamp),
    Nothing,
}

/// `written`: `status.lastPodEventTime`, which has whole seconds.
pub fn record(written: Option<Timestamp>, last: Option<Timestamp>, now: Timestamp) -> Record {
    let Some(last) = last else { return Record::Nothing };
    let Some(written) = written else { return Record::Write(last) };
    if last.as_second() <= written.as_second() {
        return Record::Nothing;
    }
    let next = plus(written, BETWEEN_EVENTS);
    if last < next && now < next { Record::NotBefore(next) } else { Record::Write(last) }
}

//! Whole seconds on timestamps, saturating: a deadline of a thousand years must not panic.

use jiff::{SignedDuration, Timestamp};

pub fn plus_seconds(at: Timestamp, seconds: i64) -> Timestamp {
    plus(at, SignedDuration::from_secs(seconds))
}

pub fn plus(at: Timestamp, span: SignedDuration) -> Timestamp {
    let limit = if span.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    at.checked_add(span).unwrap_or(limit)
}

/// From `from` to `to` in whole seconds, rounded down; negative when `to` is earlier.
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    let nanos = to.as_nanosecond() - from.as_nanosecond();
    i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX)
}

//! Spans of time in one short word, as kubectl shows ages.

use jiff::{SignedDuration, Timestamp};

/// `90s`, `5m`, `3h`, `4d`; what lies in the future counts as now.
pub(crate) fn since(at: Timestamp, now: Timestamp) -> String {
    short(now.duration_since(at))
}

/// The same for what is yet to come; what has passed counts as now.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> String {
    short(at.duration_since(now))
}

fn short(span: SignedDuration) -> String {
    let seconds = span.max(SignedDuration::ZERO).as_secs();
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

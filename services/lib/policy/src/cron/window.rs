//! Windows of a fixed length that open at every hit.

use super::Schedule;

/// Hits in a row that are followed to find the end of windows that overlap. More than a year of daily ones.
const CHAIN: usize = 400;

/// Whether a window of `duration` seconds is open: there is a hit in `(now - duration, now]`. Open at the hit itself, shut
/// at hit + duration. A schedule that never hits counts as open, as in the reference.
pub fn active(schedule: &Schedule, duration: i64, now: i64) -> bool {
    schedule.next_after(now.saturating_sub(duration)).is_none_or(|hit| hit <= now)
}

/// When the window that is open now shuts. `None`: none is open, or it does not shut because the next one opens before.
pub fn ends(schedule: &Schedule, duration: i64, now: i64) -> Option<i64> {
    let mut hit = schedule.next_after(now.saturating_sub(duration)).filter(|hit| *hit <= now)?;
    for _ in 0..CHAIN {
        let shuts = hit.saturating_add(duration);
        match schedule.next_after(hit) {
            Some(next) if next <= shuts => hit = next,
            _ => return Some(shuts),
        }
    }
    None
}

//! Backoff of a pool after its replacements failed, and of a node after a command for it was taken back, so that one that is
//! broken neither wastes launches nor keeps others waiting. (The reference picks the same doomed node again at every pass.)

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::drain::time::plus;

pub const FIRST_REST: SignedDuration = SignedDuration::from_secs(30);
pub const LONGEST_REST: SignedDuration = SignedDuration::from_mins(10);
/// After the end of a backoff its failures are remembered for this long.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(30);

/// Pools that failed lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoff(BTreeMap<Arc<str>, Rest>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    failures: u32,
    until: Timestamp,
}

impl Backoff {
    /// Doubles with every failure in a row. `jitter`: any number; it takes off up to a quarter.
    pub fn failed(&mut self, pool: &Arc<str>, jitter: u32, now: Timestamp) -> Timestamp {
        let failures = self.0.get(pool).map_or(0, |rest| rest.failures).saturating_add(1);
        let doubled = FIRST_REST.as_millis() << (failures - 1).min(10);
        let full = doubled.min(LONGEST_REST.as_millis());
        let millis = full - full / 4000 * i128::from(jitter % 1000);
        let until = plus(now, SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)));
        self.0.insert(Arc::clone(pool), Rest { failures, until });
        until
    }

    pub fn succeeded(&mut self, pool: &str) {
        self.0.remove(pool);
    }

    /// `None` when the pool may be tried.
    pub fn resting_until(&self, pool: &str, now: Timestamp) -> Option<Timestamp> {
        self.0.get(pool).map(|rest| rest.until).filter(|until| now < *until)
    }

    /// Drops what has not failed for long; its next failure is a first one.
    pub fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, rest| now < plus(rest.until, FORGOTTEN));
    }

    /// Failures in a row.
    pub fn failures(&self, pool: &str) -> u32 {
        self.0.get(pool).map_or(0, |rest| rest.failures)
    }
}

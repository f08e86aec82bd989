//! Expiration: a claim is deleted when it is older than its own `expireAfter`. Budgets and pods do not matter.

use jiff::{SignedDuration, Timestamp};
use model::duration::NillableDuration;

use crate::drain::time::plus;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    At(Timestamp),
    Now,
}

/// By the claim's age, not its node's, and by the claim's own spec, not what its pool says by now.
pub fn expiry(created: Timestamp, expire_after: &NillableDuration, now: Timestamp) -> Expiry {
    let Some(after) = expire_after.get() else { return Expiry::Never };
    let end = plus(created, SignedDuration::from_nanos(after.nanos()));
    if end <= now { Expiry::Now } else { Expiry::At(end) }
}

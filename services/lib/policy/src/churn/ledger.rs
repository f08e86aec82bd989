//! What a command promised and what came of it: the saving, less the nodes that were bought for pods that it had displaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::price::MicroDollars;

use crate::drain::time::plus;

/// Moved pods that find no place have had a node ordered for them by then.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// What happens later has other causes.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// The account of one command, from the deletion of its NodeClaims on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    promised: MicroDollars,
    since: Timestamp,
    /// Since when its nodes are gone.
    removed: Option<Timestamp>,
    /// NodeClaims that were bought because of it, and their prices.
    extra: BTreeMap<Arc<str>, MicroDollars>,
}

/// A closed account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realised {
    pub promised: MicroDollars,
    pub saving: MicroDollars,
    pub extra_nodes: u32,
}

impl Realised {
    /// At least half of what was promised.
    pub fn is_kept(self) -> bool {
        self.saving.saturating_mul(2) >= self.promised
    }
}

impl Account {
    pub fn new(promised: MicroDollars, since: Timestamp) -> Self {
        Self { promised, since, removed: None, extra: BTreeMap::new() }
    }

    /// Since when its NodeClaims are being deleted.
    pub fn since(&self) -> Timestamp {
        self.since
    }

    /// A node that was bought for its pods.
    pub fn charge(&mut self, claim: &Arc<str>, price: MicroDollars) {
        self.extra.insert(Arc::clone(claim), price);
    }

    /// Closes when the moved pods can be expected to run again. `removed`: all its nodes are gone; `launching`: a node that may have been
    /// bought because of it is not ready yet.
    pub fn close(&mut self, removed: bool, launching: bool, now: Timestamp) -> Option<Realised> {
        let removed = removed.then(|| *self.removed.get_or_insert(now));
        let settled = removed.is_some_and(|at| now >= plus(at, SETTLED_AFTER)) && !launching;
        (settled || now >= plus(self.since, LONGEST)).then(|| Realised {
            promised: self.promised,
            saving: self.promised - self.extra.values().sum::<MicroDollars>(),
            extra_nodes: u32::try_from(self.extra.len()).unwrap_or(u32::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn nodes_bought_for_displaced_pods_are_taken_off_the_saving() {
        let mut account = Account::new(MicroDollars::new(150_000), at(0));
        assert_eq!(account.close(false, false, at(30)), None, "its nodes are being drained");
        assert_eq!(account.close(true, false, at(40)), None, "its pods may be pending");
        account.charge(&Arc::from("extra"), MicroDollars::new(150_000));
        account.charge(&Arc::from("extra"), MicroDollars::new(150_000));
        assert_eq!(account.close(true, true, at(110)), None, "the node boots");
        let realised = account.close(true, false, at(120)).unwrap();
        assert_eq!((realised.saving, realised.extra_nodes), (MicroDollars::ZERO, 1));
        assert!(!realised.is_kept());
    }

    #[test]
    fn a_command_without_extra_nodes_kept_its_promise() {
        let mut account = Account::new(MicroDollars::new(150_000), at(0));
        assert_eq!(account.close(true, false, at(10)), None);
        let realised = account.close(true, false, at(70)).unwrap();
        assert!(realised.is_kept() && realised.saving == realised.promised);
    }

    #[test]
    fn a_drain_that_takes_long_closes_the_account_all_the_same() {
        let mut account = Account::new(MicroDollars::new(150_000), at(0));
        assert_eq!(account.close(false, true, at(599)), None);
        assert!(account.close(false, true, at(600)).is_some());
    }
}

//! One instance a claim, whatever happens to this process: which client token the next fleet request of a claim carries, and
//! whether the claim may have an instance already.
//!
//! EC2 answers a token it has seen with the first answer, if the request is the same, and with `IdempotentParameterMismatch`
//! otherwise. So a process that knows nothing starts with the claim's first token:
//!
//! - the same request again: EC2 repeats its answer, instance or lack of capacity;
//! - another request: the mismatch proves that somebody asked before. The instance is looked for by its tags, with patience,
//!   because EC2 shows new instances late; only if there is none does the next token launch.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// EC2 shows an instance to describes within seconds of its launch.
pub(super) const PATIENCE: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// EC2's code for a token that another request carried.
pub(super) const MISMATCH: &str = "IdempotentParameterMismatch";
/// How far clocks of this process and the API server are believed to differ.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);
/// A claim is launched or gone long before.
const KEPT_FOR: Duration = Duration::from_hours(1);
const MOST_KEPT: usize = 10_000;

#[derive(Default)]
pub(super) struct Attempts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leads_since: Option<Timestamp>,
    claims: HashMap<String, Claim>,
}

#[derive(Clone, Copy)]
struct Claim {
    number: u32,
    /// A request went out whose outcome was not seen, or was seen and perhaps not recorded.
    may_have_instance: bool,
    at: Instant,
}

impl Attempts {
    /// Claims that are older than this replica's term may have been launched by another.
    pub(super) fn term_began(&self, now: Timestamp) {
        self.state().leads_since = Some(now);
    }

    /// Whether to look for an instance before asking for one.
    pub(super) fn may_have_instance(&self, uid: &str, created: Option<Timestamp>) -> bool {
        let state = self.state();
        if let Some(claim) = state.claims.get(uid) {
            return claim.may_have_instance;
        }
        match (state.leads_since, created) {
            (Some(since), Some(created)) => created < since + CLOCKS_DIFFER,
            _ => true,
        }
    }

    pub(super) fn token(&self, uid: &str) -> String {
        match self.state().claims.get(uid).map_or(0, |claim| claim.number) {
            0 => uid.to_owned(),
            number => format!("{uid}-{number}"),
        }
    }

    /// A request goes out; until its outcome is known there may be an instance.
    pub(super) fn began(&self, uid: &str) {
        self.put(uid, 0, true);
    }

    /// EC2 launched nothing for the present token and never will: the next request needs another.
    pub(super) fn used_up(&self, uid: &str) {
        self.put(uid, 1, false);
    }

    /// EC2 refused the call itself: nothing was launched and the token is as good as new.
    pub(super) fn refused(&self, uid: &str) {
        self.put(uid, 0, false);
    }

    fn put(&self, uid: &str, add: u32, may_have_instance: bool) {
        let mut state = self.state();
        let at = Instant::now();
        if state.claims.len() >= MOST_KEPT {
            state.claims.retain(|_, claim| at.duration_since(claim.at) < KEPT_FOR);
        }
        let number = state.claims.get(uid).map_or(0, |claim| claim.number) + add;
        state.claims.insert(uid.to_owned(), Claim { number, may_have_instance, at });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_claim_keeps_its_token_until_ec2_has_answered_it_without_an_instance() {
        let attempts = Attempts::default();
        assert_eq!(attempts.token("u"), "u");
        attempts.began("u");
        assert_eq!(attempts.token("u"), "u");
        attempts.refused("u");
        assert_eq!(attempts.token("u"), "u");
        attempts.used_up("u");
        assert_eq!(attempts.token("u"), "u-1");
        attempts.began("u");
        attempts.used_up("u");
        assert_eq!(attempts.token("u"), "u-2");
        assert_eq!(attempts.token("other"), "other");
    }

    #[test]
    fn claims_of_an_earlier_term_are_looked_for_and_own_ones_are_not() {
        let attempts = Attempts::default();
        assert!(attempts.may_have_instance("u", Some(at(5_000))), "nothing is known before the term begins");
        attempts.term_began(at(1_000));
        assert!(attempts.may_have_instance("u", Some(at(900))));
        assert!(attempts.may_have_instance("u", Some(at(1_030))), "clocks differ");
        assert!(!attempts.may_have_instance("u", Some(at(1_061))));
        assert!(attempts.may_have_instance("u", None));
    }

    #[test]
    fn a_request_without_a_seen_outcome_may_have_launched() {
        let attempts = Attempts::default();
        attempts.term_began(at(0));
        attempts.began("u");
        assert!(attempts.may_have_instance("u", Some(at(5_000))));
        attempts.refused("u");
        assert!(!attempts.may_have_instance("u", Some(at(5_000))));
    }
}

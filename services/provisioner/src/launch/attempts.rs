//! One instance a claim, whatever happens to this process: which client token the next fleet request of a claim or batch carries,
//! whether there may be instances already, and what was handed out and is perhaps not recorded yet.
//!
//! EC2 answers a token it has seen with the first answer, if the request is the same, and with `IdempotentParameterMismatch`
//! otherwise. So a process that knows nothing starts with the first token:
//!
//! - the same request again: EC2 repeats its answer, instances or lack of capacity;
//! - another request: the mismatch proves that somebody asked before. Instances are looked for by their tag, with patience,
//!   because EC2 shows new ones late; only if there are too few does the next token launch.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::launched::Launched;

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
    /// By uid of a claim, or id of a batch.
    asked: HashMap<String, Asked>,
    /// By uid of the claim.
    handed: HashMap<String, (Launched, Instant)>,
}

struct Asked {
    number: u32,
    /// A request went out whose outcome was not seen.
    may_have_instances: Option<bool>,
    turn: Arc<tokio::sync::Mutex<()>>,
    at: Instant,
}

impl Attempts {
    /// Claims that are older than this replica's term may have been launched by another.
    pub(super) fn term_began(&self, now: Timestamp) {
        let mut state = self.state();
        state.leads_since = Some(now);
        // Another may have gone on with these meanwhile.
        state.handed.clear();
        state.asked.values_mut().for_each(|asked| asked.may_have_instances = Some(true));
    }

    /// Held while asking: what one request brings must be handed out before the next is made.
    pub(super) fn turn(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.with(id, |asked| Arc::clone(&asked.turn))
    }

    /// Whether to look for instances before asking for some.
    pub(super) fn may_have_instances(&self, id: &str, created: Option<Timestamp>) -> bool {
        let state = self.state();
        if let Some(known) = state.asked.get(id).and_then(|asked| asked.may_have_instances) {
            return known;
        }
        match (state.leads_since, created) {
            (Some(since), Some(created)) => created < since + CLOCKS_DIFFER,
            _ => true,
        }
    }

    pub(super) fn token(&self, id: &str) -> String {
        match self.state().asked.get(id).map_or(0, |asked| asked.number) {
            0 => id.to_owned(),
            number => format!("{id}-{number}"),
        }
    }

    /// A request goes out; until its outcome is known there may be instances.
    pub(super) fn began(&self, id: &str) {
        self.with(id, |asked| asked.may_have_instances = Some(true));
    }

    /// EC2 has answered the present token and will launch nothing more for it: the next request needs another.
    pub(super) fn used_up(&self, id: &str) {
        self.with(id, |asked| {
            asked.number += 1;
            asked.may_have_instances = Some(false);
        });
    }

    /// EC2 refused the call itself: nothing was launched and the token is as good as new.
    pub(super) fn refused(&self, id: &str) {
        self.with(id, |asked| asked.may_have_instances = Some(false));
    }

    /// The claim is given this instance. Asked again before it is recorded, the answer is the same.
    pub(super) fn hand_out(&self, uid: &str, launched: Launched) {
        self.state().handed.insert(uid.to_owned(), (launched, Instant::now()));
    }

    pub(super) fn handed(&self, uid: &str) -> Option<Launched> {
        self.state().handed.get(uid).map(|(launched, _)| launched.clone())
    }

    /// Ids of instances that were handed out and are perhaps not recorded yet.
    pub(super) fn all_handed(&self) -> BTreeSet<String> {
        self.state().handed.values().map(|(launched, _)| launched.instance_id.clone()).collect()
    }

    /// The claim's status names its instance.
    pub(super) fn recorded(&self, uid: &str) {
        self.state().handed.remove(uid);
    }

    fn with<T>(&self, id: &str, change: impl FnOnce(&mut Asked) -> T) -> T {
        let mut state = self.state();
        let at = Instant::now();
        if state.asked.len() + state.handed.len() >= MOST_KEPT {
            state.asked.retain(|_, asked| at.duration_since(asked.at) < KEPT_FOR);
            state.handed.retain(|_, (_, handed)| at.duration_since(*handed) < KEPT_FOR);
        }
        let fresh = || Asked { number: 0, may_have_instances: None, turn: Arc::default(), at };
        let asked = state.asked.entry(id.to_owned()).or_insert_with(fresh);
        asked.at = at;
        change(asked)
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
    fn a_token_is_kept_until_ec2_has_answered_it() {
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
        assert!(attempts.may_have_instances("u", Some(at(5_000))), "nothing is known before the term begins");
        attempts.term_began(at(1_000));
        let _turn = attempts.turn("u");
        assert!(attempts.may_have_instances("u", Some(at(900))));
        assert!(attempts.may_have_instances("u", Some(at(1_030))), "clocks differ");
        assert!(!attempts.may_have_instances("u", Some(at(1_061))));
        assert!(attempts.may_have_instances("u", None));
    }

    #[test]
    fn a_request_without_a_seen_outcome_may_have_launched() {
        let attempts = Attempts::default();
        attempts.term_began(at(0));
        attempts.began("u");
        assert!(attempts.may_have_instances("u", Some(at(5_000))));
        attempts.refused("u");
        assert!(!attempts.may_have_instances("u", Some(at(5_000))));
    }
}

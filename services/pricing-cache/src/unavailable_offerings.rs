//! The ledger of what EC2 cannot give for now. Pure: the instant is an argument.
//!
//! A mark holds for three minutes. Reported again while it holds, it is only renewed: many launches fail at once for the
//! same reason. Reported again soon after it ended, the shortage goes on, and the next hold is twice as long, up to half an
//! hour; after a quiet time of two holds it starts over. Ended marks are remembered for that long.
//!
//! Replicas exchange marks through a ConfigMap. Merging keeps the later end of two marks of one key, so the order in which
//! replicas hear of each other does not matter.

use std::collections::{BTreeMap, BTreeSet};

use cloud::unavailable::{Scope, Unavailable};
use jiff::{SignedDuration, Timestamp};

/// The first hold.
pub(crate) const HOLD: SignedDuration = SignedDuration::from_mins(3);
const LONGEST_HOLD: SignedDuration = SignedDuration::from_mins(30);
/// The longest a caller may ask for; a later end in a stored mark is a wrong clock.
pub(crate) const LONGEST_ASKED: SignedDuration = SignedDuration::from_hours(24);
/// Marks kept at most: all of them fit into one ConfigMap.
const MOST: usize = 4000;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    marks: BTreeMap<String, Unavailable>,
    /// Keys that were seen in the ConfigMap: when one of these is gone from it, somebody took it out.
    stored: BTreeSet<String>,
}

/// The hold of a mark that was reported in `repeats` spells in a row.
pub(crate) fn hold(repeats: u32) -> SignedDuration {
    let doublings = repeats.saturating_sub(1).min(8);
    HOLD.saturating_mul(1 << doublings).min(LONGEST_HOLD)
}

impl Ledger {
    /// Marks `scope`, and returns the mark as it stands. `asked` replaces the ledger's own period.
    pub(crate) fn report(
        &mut self,
        scope: Scope,
        reason: &str,
        asked: Option<SignedDuration>,
        now: Timestamp,
    ) -> Unavailable {
        let key = scope.key();
        let known = self.marks.get(&key).filter(|mark| !is_forgotten(mark, now));
        let (since, repeats) = match known {
            Some(mark) if mark.until > now => (mark.since, mark.repeats),
            Some(mark) => (mark.since, mark.repeats.saturating_add(1)),
            None => (now, 1),
        };
        let period = asked.map_or_else(|| hold(repeats), |asked| asked.min(LONGEST_ASKED));
        let end = later(now, period);
        let until = known.map_or(end, |mark| mark.until.max(end));
        let mark = Unavailable { scope, since, until, reason: reason.to_owned(), repeats };
        self.marks.insert(key, mark.clone());
        self.bound();
        mark
    }

    /// Takes in what the ConfigMap holds. Marks that it held before and holds no more were taken out by a person or another
    /// replica and are dropped.
    pub(crate) fn merge(&mut self, stored: BTreeMap<String, Unavailable>, now: Timestamp) {
        for key in std::mem::take(&mut self.stored) {
            if !stored.contains_key(&key) {
                self.marks.remove(&key);
            }
        }
        for (key, mut mark) in stored {
            self.stored.insert(key.clone());
            if mark.until > later(now, LONGEST_ASKED) {
                mark.until = later(now, hold(mark.repeats));
            }
            let own = self.marks.get(&key);
            if own.is_none_or(|own| (own.until, own.repeats) < (mark.until, mark.repeats)) {
                self.marks.insert(key, mark);
            }
        }
        self.bound();
    }

    pub(crate) fn in_force(&self, now: Timestamp) -> BTreeMap<String, Unavailable> {
        let held = self.marks.iter().filter(|(_, mark)| mark.until > now);
        held.map(|(key, mark)| (key.clone(), mark.clone())).collect()
    }

    /// When the next mark ends.
    pub(crate) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.marks.values().map(|mark| mark.until).filter(|until| *until > now).min()
    }

    /// Forgets what has been over for long enough; returns the keys, to be taken out of the ConfigMap too.
    pub(crate) fn forget(&mut self, now: Timestamp) -> Vec<String> {
        let gone: Vec<String> = self
            .marks
            .iter()
            .filter(|(_, mark)| is_forgotten(mark, now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            self.marks.remove(key);
            self.stored.remove(key);
        }
        gone
    }

    /// Drops what ends first when there are too many: a flood of reports must not outgrow the ConfigMap.
    fn bound(&mut self) {
        while self.marks.len() > MOST {
            let first = self.marks.iter().min_by_key(|(_, mark)| mark.until).map(|(key, _)| key.clone());
            let Some(first) = first else { return };
            self.marks.remove(&first);
        }
    }
}

fn is_forgotten(mark: &Unavailable, now: Timestamp) -> bool {
    later(mark.until, hold(mark.repeats).saturating_mul(2)) <= now
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use model::catalog::CapacityType;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    fn scope(name: &str) -> Scope {
        Scope::offering(CapacityType::Spot, name, "us-west-2a")
    }

    fn report(ledger: &mut Ledger, seconds: i64) -> (i64, u32) {
        let mark = ledger.report(scope("m5.large"), "InsufficientInstanceCapacity", None, at(seconds));
        (mark.until.duration_since(at(seconds)).as_secs(), mark.repeats)
    }

    #[test]
    fn a_shortage_that_goes_on_is_held_longer_each_time_up_to_half_an_hour() {
        let mut ledger = Ledger::default();
        let mut now = 0;
        for (spell, expected) in [180, 360, 720, 1440, 1800, 1800].into_iter().enumerate() {
            assert_eq!(report(&mut ledger, now), (expected, spell as u32 + 1));
            now += expected + 10;
        }
    }

    #[test]
    fn reports_while_it_holds_renew_it_and_do_not_count_as_repeats() {
        let mut ledger = Ledger::default();
        assert_eq!(report(&mut ledger, 0), (180, 1));
        for second in [1, 60, 179] {
            assert_eq!(report(&mut ledger, second), (180, 1));
        }
        assert_eq!(ledger.in_force(at(179 + 179)).len(), 1);
        assert!(ledger.in_force(at(179 + 180)).is_empty());
    }

    #[test]
    fn after_a_quiet_time_of_two_holds_it_starts_over() {
        let mut ledger = Ledger::default();
        report(&mut ledger, 0);
        assert_eq!(report(&mut ledger, 180 + 359), (360, 2));
        assert_eq!(report(&mut ledger, 539 + 360 + 720), (180, 1));
    }

    #[test]
    fn a_hold_that_was_asked_for_counts_and_never_shortens_a_mark() {
        let mut ledger = Ledger::default();
        let mark = ledger.report(scope("a"), "x", Some(SignedDuration::from_mins(60)), at(0));
        assert_eq!(mark.until, at(3600));
        let mark = ledger.report(scope("a"), "x", None, at(10));
        assert_eq!(mark.until, at(3600));
        let mark = ledger.report(scope("b"), "x", Some(SignedDuration::from_hours(1000)), at(0));
        assert_eq!(mark.until, at(24 * 3600));
    }

    #[test]
    fn ended_marks_are_remembered_for_two_holds_and_then_forgotten() {
        let mut ledger = Ledger::default();
        report(&mut ledger, 0);
        assert_eq!(ledger.next_end(at(10)), Some(at(180)));
        assert!(ledger.forget(at(539)).is_empty());
        assert_eq!(ledger.forget(at(540)), ["spot:m5.large:us-west-2a"]);
        assert_eq!(ledger.next_end(at(10)), None);
    }

    #[test]
    fn merging_keeps_the_later_end_in_either_order() {
        let mark = |until, repeats| {
            let mut ledger = Ledger::default();
            let mark = ledger.report(scope("m5.large"), "x", None, at(0));
            Unavailable { until: at(until), repeats, ..mark }
        };
        let as_stored = |mark: Unavailable| BTreeMap::from([(mark.scope.key(), mark)]);
        for (first, second) in [(mark(100, 1), mark(200, 2)), (mark(200, 2), mark(100, 1))] {
            let mut ledger = Ledger::default();
            ledger.merge(as_stored(first), at(0));
            ledger.merge(as_stored(second), at(0));
            let held = ledger.in_force(at(0));
            assert_eq!(held.values().next().map(|m| (m.until, m.repeats)), Some((at(200), 2)));
        }
    }

    #[test]
    fn a_mark_that_somebody_takes_out_of_the_store_is_dropped_and_an_unsaved_one_stays() {
        let mut ledger = Ledger::default();
        let saved = ledger.report(scope("saved"), "x", None, at(0));
        ledger.merge(BTreeMap::from([(saved.scope.key(), saved)]), at(0));
        ledger.report(scope("fresh"), "x", None, at(1));
        ledger.merge(BTreeMap::new(), at(2));
        let held: Vec<String> = ledger.in_force(at(2)).into_keys().collect();
        assert_eq!(held, ["spot:fresh:us-west-2a"]);
    }

    #[test]
    fn a_stored_end_that_no_clock_can_mean_is_cut_to_one_hold() {
        let mut ledger = Ledger::default();
        let mark = ledger.report(scope("a"), "x", None, at(0));
        let wild = Unavailable { until: Timestamp::MAX, ..mark };
        let mut other = Ledger::default();
        other.merge(BTreeMap::from([(wild.scope.key(), wild)]), at(0));
        assert_eq!(other.next_end(at(0)), Some(at(180)));
    }

    #[test]
    fn a_flood_of_reports_keeps_those_that_end_last() {
        let mut ledger = Ledger::default();
        for n in 0..(MOST as i64 + 10) {
            ledger.report(scope(&format!("t{n}")), "x", None, at(n / 100));
        }
        let held = ledger.in_force(at(100));
        assert_eq!(held.len(), MOST);
        assert!(!held.contains_key(&scope("t0").key()));
    }
}

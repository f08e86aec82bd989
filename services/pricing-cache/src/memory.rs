//! How much memory nodes of a type really have, as real nodes reported it. Pure: the instant is an argument.
//!
//! The least seen counts, and is believed for sixty days after it was last seen. A type is learned together with the images
//! it ran, because kernels reserve differently.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::catalogue::LearnedMemory;

const BELIEVED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// An equal observation renews a stored figure only this often: nodes report all the time.
const RENEWED: SignedDuration = SignedDuration::from_hours(24);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) bytes: u64,
    /// When it was last seen.
    pub(crate) at: Timestamp,
}

type Key = (String, String);

#[derive(Debug, Default)]
pub(crate) struct MemoryBook {
    seen: BTreeMap<Key, Seen>,
}

impl MemoryBook {
    /// A node reported this. Returns what is to be stored, if anything changed.
    pub(crate) fn observe(&mut self, key: Key, bytes: u64, now: Timestamp) -> Option<Seen> {
        let known = self.seen.get(&key).filter(|seen| !is_stale(seen, now));
        let news = match known {
            Some(seen) if bytes > seen.bytes => false,
            Some(seen) if bytes == seen.bytes => now.duration_since(seen.at) >= RENEWED,
            _ => bytes > 0,
        };
        let seen = Seen { bytes, at: now };
        news.then(|| {
            self.seen.insert(key, seen);
            seen
        })
    }

    /// Takes in what the ConfigMap holds: the lesser figure counts, or the later of two equal ones.
    pub(crate) fn merge(&mut self, stored: BTreeMap<Key, Seen>, now: Timestamp) {
        for (key, seen) in stored {
            let own = self.seen.get(&key).filter(|own| !is_stale(own, now));
            let better =
                own.is_none_or(|own| seen.bytes < own.bytes || (seen.bytes == own.bytes && seen.at > own.at));
            if better && !is_stale(&seen, now) {
                self.seen.insert(key, seen);
            }
        }
    }

    /// What is believed now.
    pub(crate) fn believed(&self, now: Timestamp) -> LearnedMemory {
        let fresh = self.seen.iter().filter(|(_, seen)| !is_stale(seen, now));
        fresh.map(|(key, seen)| (key.clone(), seen.bytes)).collect()
    }

    /// Drops what is believed no more; returns the keys, to be taken out of the ConfigMap too.
    pub(crate) fn forget(&mut self, now: Timestamp) -> Vec<Key> {
        let stale: Vec<Key> =
            self.seen.iter().filter(|(_, seen)| is_stale(seen, now)).map(|(key, _)| key.clone()).collect();
        for key in &stale {
            self.seen.remove(key);
        }
        stale
    }
}

fn is_stale(seen: &Seen, now: Timestamp) -> bool {
    now.duration_since(seen.at) >= BELIEVED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(days: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + days * 86_400).unwrap()
    }

    fn key() -> Key {
        ("m5.large".into(), "1a2b".into())
    }

    #[test]
    fn the_least_seen_counts_and_equal_ones_renew_it() {
        let mut book = MemoryBook::default();
        assert!(book.observe(key(), 800, day(0)).is_some());
        assert_eq!(book.observe(key(), 900, day(0)), None, "more is no news");
        assert_eq!(book.observe(key(), 800, day(0)), None, "renewed just now");
        assert!(book.observe(key(), 700, day(1)).is_some());
        assert!(book.observe(key(), 700, day(2)).is_some(), "seen again a day later");
        assert_eq!(book.observe(key(), 0, day(2)), None);
        assert_eq!(book.believed(day(61)), BTreeMap::from([(key(), 700)]));
        assert!(book.believed(day(62)).is_empty());
        assert_eq!(book.forget(day(62)), [key()]);
    }

    #[test]
    fn after_sixty_days_a_larger_figure_is_believed_again() {
        let mut book = MemoryBook::default();
        book.observe(key(), 700, day(0));
        assert!(book.observe(key(), 800, day(60)).is_some());
        assert_eq!(book.believed(day(60)), BTreeMap::from([(key(), 800)]));
    }

    #[test]
    fn what_was_stored_is_merged_by_the_lesser_figure_in_either_order() {
        let (low, high) = (Seen { bytes: 700, at: day(0) }, Seen { bytes: 800, at: day(1) });
        for (first, second) in [(low, high), (high, low)] {
            let mut book = MemoryBook::default();
            book.merge(BTreeMap::from([(key(), first)]), day(2));
            book.merge(BTreeMap::from([(key(), second)]), day(2));
            assert_eq!(book.believed(day(2)), BTreeMap::from([(key(), 700)]));
        }
    }
}

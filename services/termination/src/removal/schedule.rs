//! When which object is to be looked at again; the earliest of several wishes about one object counts.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::cluster::Key;

#[derive(Default)]
pub(super) struct Schedule {
    by_time: BTreeSet<(Timestamp, Key)>,
    by_key: HashMap<Key, Timestamp>,
}

impl Schedule {
    pub(super) fn at(&mut self, key: Key, at: Timestamp) {
        if self.by_key.get(&key).is_some_and(|known| *known <= at) {
            return;
        }
        self.remove(&key);
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key));
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out everything whose time has come.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Key> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.by_time.first()
            && *at <= now
            && let Some((_, key)) = self.by_time.pop_first()
        {
            self.by_key.remove(&key);
            due.push(key);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wish_counts_and_is_given_out_once() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (a, b) = (Key::Node("a".into()), Key::Claim("b".into()));
        let mut schedule = Schedule::default();
        schedule.at(a.clone(), at(20));
        schedule.at(a.clone(), at(10));
        schedule.at(a.clone(), at(30));
        schedule.at(b.clone(), at(15));
        assert_eq!(schedule.next(), Some(at(10)));
        assert!(schedule.due(at(9)).is_empty());
        assert_eq!(schedule.due(at(15)), [a, b.clone()]);
        assert_eq!(schedule.next(), None);
        schedule.at(b.clone(), at(40));
        schedule.remove(&b);
        assert!(schedule.due(at(100)).is_empty());
    }
}

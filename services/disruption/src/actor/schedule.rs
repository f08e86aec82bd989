//! When to look at a claim again although nothing happens: the earliest time for each.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

#[derive(Default)]
pub(super) struct Schedule {
    by_time: BTreeSet<(Timestamp, Arc<str>)>,
    by_key: HashMap<Arc<str>, Timestamp>,
}

impl Schedule {
    /// The earlier of this and what is set already.
    pub(super) fn at(&mut self, key: Arc<str>, at: Timestamp) {
        match self.by_key.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => drop(self.by_time.remove(&(*known, Arc::clone(&key)))),
            None => {}
        }
        self.by_key.insert(Arc::clone(&key), at);
        self.by_time.insert((at, key));
    }

    /// Takes out what is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Arc<str>> {
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

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn each_claim_comes_once_at_its_earliest_time() {
        let mut schedule = Schedule::default();
        schedule.at("a".into(), at(20));
        schedule.at("b".into(), at(15));
        schedule.at("a".into(), at(10));
        schedule.at("a".into(), at(30));
        assert_eq!(schedule.next(), Some(at(10)));
        assert_eq!(schedule.due(at(9)), Vec::<Arc<str>>::new());
        assert_eq!(schedule.due(at(15)), vec![Arc::from("a"), Arc::from("b")]);
        assert_eq!((schedule.next(), schedule.due(at(99)).len()), (None, 0));
    }
}

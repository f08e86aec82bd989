//! Which claim is looked at when: one at a time each, never two at once, again when something changed meanwhile, and so many
//! at once of each kind of work.

use std::collections::{BTreeSet, VecDeque};

use jiff::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};

use super::index::Name;

/// Kinds of work with a bound of their own, so that slow launches do not hold up quick writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Launch,
    Write,
}

pub(super) struct Queue {
    ready: VecDeque<Name>,
    /// In `ready` or waiting for a slot.
    queued: FxHashSet<Name>,
    running: FxHashSet<Name>,
    /// Nudged while running.
    again: FxHashSet<Name>,
    timers: BTreeSet<(Timestamp, Name)>,
    timer_of: FxHashMap<Name, Timestamp>,
    free: [usize; 2],
    waiting: [VecDeque<Name>; 2],
    slots: [usize; 2],
}

impl Queue {
    pub(super) fn new(launches: usize, writes: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            queued: FxHashSet::default(),
            running: FxHashSet::default(),
            again: FxHashSet::default(),
            timers: BTreeSet::new(),
            timer_of: FxHashMap::default(),
            free: [launches, writes],
            waiting: [VecDeque::new(), VecDeque::new()],
            slots: [launches, writes],
        }
    }

    /// Forgets everything, as after the loss of leadership.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.slots[0], self.slots[1]);
    }

    pub(super) fn nudge(&mut self, name: Name) {
        if self.running.contains(&name) {
            self.again.insert(name);
        } else if self.queued.insert(name.clone()) {
            self.ready.push_back(name);
        }
    }

    /// The next to be looked at.
    pub(super) fn next(&mut self) -> Option<Name> {
        let name = self.ready.pop_front()?;
        self.queued.remove(&name);
        self.cancel_timer(&name);
        Some(name)
    }

    /// Takes a slot for the claim. Without one the claim waits, and is handed out again by [`Queue::next`] when one is free.
    pub(super) fn start(&mut self, name: &Name, lane: Lane) -> bool {
        if self.free[lane as usize] == 0 {
            self.queued.insert(name.clone());
            self.waiting[lane as usize].push_back(name.clone());
            return false;
        }
        self.free[lane as usize] -= 1;
        self.running.insert(name.clone());
        true
    }

    /// Says whether the claim was nudged meanwhile; it is not queued by this.
    pub(super) fn finished(&mut self, name: &Name, lane: Lane) -> bool {
        self.running.remove(name);
        self.free[lane as usize] += 1;
        if let Some(next) = self.waiting[lane as usize].pop_front() {
            self.ready.push_front(next);
        }
        self.again.remove(name)
    }

    /// Looks at the claim at `at`, unless something changes before.
    pub(super) fn wake_at(&mut self, name: Name, at: Timestamp) {
        self.cancel_timer(&name);
        self.timer_of.insert(name.clone(), at);
        self.timers.insert((at, name));
    }

    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(super) fn fire(&mut self, now: Timestamp) {
        while let Some((at, name)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, name.clone()));
            self.timer_of.remove(&name);
            self.nudge(name);
        }
    }

    fn cancel_timer(&mut self, name: &Name) {
        if let Some(at) = self.timer_of.remove(name) {
            self.timers.remove(&(at, name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from(text)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_claim_is_never_worked_on_twice_at_once() {
        let mut queue = Queue::new(1, 1);
        queue.nudge(name("a"));
        queue.nudge(name("a"));
        let first = queue.next().unwrap();
        assert_eq!(queue.next(), None, "queued once");
        assert!(queue.start(&first, Lane::Write));
        queue.nudge(name("a"));
        assert_eq!(queue.next(), None, "running");
        assert!(queue.finished(&first, Lane::Write), "but the nudge is not lost");
    }

    #[test]
    fn slow_launches_do_not_hold_up_writes_and_waiting_claims_come_in_order() {
        let mut queue = Queue::new(1, 1);
        for claim in ["a", "b", "c", "d"] {
            queue.nudge(name(claim));
        }
        let started: Vec<bool> = [Lane::Launch, Lane::Launch, Lane::Launch, Lane::Write]
            .into_iter()
            .map(|lane| {
                let next = queue.next().unwrap();
                queue.start(&next, lane)
            })
            .collect();
        assert_eq!(started, [true, false, false, true], "b and c wait, d need not");
        queue.nudge(name("b"));
        assert_eq!(queue.next(), None, "a nudge does not put b before its turn");
        queue.finished(&name("a"), Lane::Launch);
        assert_eq!(queue.next(), Some(name("b")));
        assert!(queue.start(&name("b"), Lane::Launch));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_timer_fires_once_and_a_look_before_cancels_it() {
        let mut queue = Queue::new(1, 1);
        queue.wake_at(name("a"), at(10));
        queue.wake_at(name("a"), at(20));
        queue.wake_at(name("b"), at(15));
        assert_eq!(queue.next_timer(), Some(at(15)));
        queue.fire(at(19));
        assert_eq!(queue.next(), Some(name("b")));
        queue.nudge(name("a"));
        assert_eq!(queue.next(), Some(name("a")));
        assert_eq!(queue.next_timer(), None);
        queue.fire(at(30));
        assert_eq!(queue.next(), None);
    }
}

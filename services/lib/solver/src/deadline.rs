//! The deadline of one decision.

use std::sync::atomic::{AtomicBool, Ordering};

/// Asks whether to go on. Once the answer was no it stays no, and is remembered: the plan says that it was cut short.
pub(crate) struct Deadline<'a> {
    keep_going: &'a (dyn Fn() -> bool + Sync),
    passed: AtomicBool,
}

impl<'a> Deadline<'a> {
    pub(crate) fn new(keep_going: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { keep_going, passed: AtomicBool::new(false) }
    }

    pub(crate) fn keep_going(&self) -> bool {
        if self.passed() {
            return false;
        }
        let more = (self.keep_going)();
        if !more {
            self.passed.store(true, Ordering::Relaxed);
        }
        more
    }

    pub(crate) fn passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }
}

//! A bound on how often something happens, for what strangers can cause.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

pub(crate) struct PerSecond {
    most: u32,
    /// When the present second began, and how often it happened in it.
    second: Mutex<(Instant, u32)>,
}

impl PerSecond {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, second: Mutex::new((Instant::now(), 0)) }
    }

    /// Whether it may happen once more now.
    pub(crate) fn take(&self) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(second.0) >= Duration::from_secs(1) {
            *second = (now, 0);
        }
        let may = second.1 < self.most;
        second.1 += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_second_has_its_own_count() {
        let rate = PerSecond::new(2);
        assert_eq!([rate.take(), rate.take(), rate.take()], [true, true, false]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(rate.take());
    }
}

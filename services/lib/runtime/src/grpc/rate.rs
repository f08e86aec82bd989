//! A bound on how often something happens, for what strangers can cause.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

pub(crate) struct PerSecond {
    most: u32,
    /// Of one address.
    share: u32,
    second: Mutex<Second>,
}

/// The present one: how often it happened in it.
struct Second {
    began: Instant,
    all: u32,
    /// No more entries than `all`.
    by_address: HashMap<IpAddr, u32>,
}

impl PerSecond {
    pub(crate) fn new(most: u32) -> Self {
        let second = Second { began: Instant::now(), all: 0, by_address: HashMap::new() };
        Self { most, share: most, second: Mutex::new(second) }
    }

    /// No address causes more than `share` of it.
    pub(crate) fn with_share(mut self, share: u32) -> Self {
        self.share = share;
        self
    }

    /// Whether it may happen once more now.
    pub(crate) fn take(&self) -> bool {
        self.take_for(None)
    }

    /// The same, caused by that address; `None`: it is not known which.
    pub(crate) fn take_for(&self, address: Option<IpAddr>) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(second.began) >= Duration::from_secs(1) {
            *second = Second { began: now, all: 0, by_address: HashMap::new() };
        }
        if second.all >= self.most {
            return false;
        }
        if let Some(address) = address {
            let own = second.by_address.entry(address).or_default();
            if *own >= self.share {
                return false;
            }
            *own += 1;
        }
        second.all += 1;
        true
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

    #[tokio::test(start_paused = true)]
    async fn no_address_takes_what_is_left_for_others() {
        let rate = PerSecond::new(5).with_share(2);
        let count = |last, tries| {
            let address = Some(IpAddr::from([10, 0, 0, last]));
            (0..tries).filter(|_| rate.take_for(address)).count()
        };
        assert_eq!([count(1, 100), count(2, 1), count(3, 100), count(2, 100)], [2, 1, 2, 0]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(count(1, 100), 2);
    }
}

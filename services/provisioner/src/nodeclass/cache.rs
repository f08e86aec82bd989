//! Answers that are good for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Entries beyond this are swept of what is out of date before another is added.
const SWEEP_ABOVE: usize = 256;

pub(super) struct Cache<K, V> {
    good_for: Duration,
    entries: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    pub(super) fn new(good_for: Duration) -> Self {
        Self { good_for, entries: Mutex::new(HashMap::new()) }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.lock();
        entries.get(key).filter(|(since, _)| since.elapsed() < self.good_for).map(|(_, value)| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V) {
        let mut entries = self.lock();
        if entries.len() > SWEEP_ABOVE {
            entries.retain(|_, (since, _)| since.elapsed() < self.good_for);
        }
        entries.insert(key, (Instant::now(), value));
    }

    pub(super) fn remove(&self, key: &K) {
        self.lock().remove(key);
    }

    pub(super) fn retain(&self, keep: impl Fn(&K) -> bool) {
        self.lock().retain(|key, _| keep(key));
    }

    /// The value in force, or the one that `ask` finds. Failures are not remembered.
    pub(super) async fn get_or<E>(&self, key: K, ask: impl AsyncFnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(known) = self.get(&key) {
            return Ok(known);
        }
        let found = ask().await?;
        self.put(key, found.clone());
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_asked_again_when_its_time_is_over_and_failures_at_once() {
        let cache = Cache::new(Duration::from_secs(60));
        let failed: Result<u32, &str> = cache.get_or("k", async || Err("no")).await;
        assert_eq!(failed, Err("no"));
        let ask = |n: u32| cache.get_or("k", async move || Ok::<u32, &str>(n));
        assert_eq!(ask(1).await, Ok(1));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(ask(2).await, Ok(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(3).await, Ok(3));
    }
}

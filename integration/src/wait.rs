//! Waiting on conditions. The limit is there to end a test that will never pass, not to measure speed.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Generous on purpose: a slow machine must not fail a correct product.
const LIMIT: Duration = Duration::from_secs(180);
const STEP: Duration = Duration::from_millis(50);

/// Calls `look` until it returns a value, and returns that. `what` completes the sentence "waited in vain for …".
/// An error of `look` counts as "not yet"; the last one is part of the failure.
pub async fn eventually<T, F, Fut>(what: &str, look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<T>>>,
{
    patiently(1, what, look).await
}

/// The same with so many times the patience, for what is large; it also looks less often.
pub async fn patiently<T, F, Fut>(patience: u32, what: &str, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + LIMIT * patience;
    let mut last = None;
    while Instant::now() < deadline {
        match look().await {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        sleep(STEP * patience).await;
    }
    match last {
        Some(error) => Err(error.context(format!("waited in vain for {what}"))),
        None => bail!("waited in vain for {what}"),
    }
}

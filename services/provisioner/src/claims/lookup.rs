//! Looks up NodeClaims that were created, perhaps, and that no watch has shown: with a slow API server a create that timed out
//! may have been carried out, and a claim that was created may be shown late. Either counts until the API server says that it
//! is not there, or another node would be made for the same pods.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{CALL_TIMEOUT, Creator};

const EVERY: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 8;

impl Creator {
    pub(crate) async fn look_up_overdue(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = tick.tick() => {}
            }
            let names = self.cluster.overdue_claims().await;
            futures::stream::iter(names).for_each_concurrent(AT_ONCE, |name| self.look_up(name)).await;
        }
    }

    async fn look_up(&self, name: Arc<str>) {
        match tokio::time::timeout(CALL_TIMEOUT, self.claims.get_opt(&name)).await {
            Ok(Ok(found)) => self.cluster.looked_up(name, found.map(Arc::new)).await,
            // It comes due again.
            Ok(Err(error)) => warn!(nodeclaim = &*name, %error, "claim not looked up, it still counts"),
            Err(_) => warn!(nodeclaim = &*name, "claim not looked up in time, it still counts"),
        }
    }
}

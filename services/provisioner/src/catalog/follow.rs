//! Follows pricing-cache's catalogue stream for as long as the process lives, and hands every version on. A lost stream
//! resumes from the version that is here; an update that does not follow from it starts anew.

use std::sync::Arc;
use std::time::Duration;

use backoff::Pause;
use proto::pricingcache::v1::WatchCatalogRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use runtime::grpc::Caller;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::facts::Facts;
use super::offer::Message;

const QUICKEST: Duration = Duration::from_millis(200);
const SLOWEST: Duration = Duration::from_secs(5);
/// A whole catalogue is some megabytes.
const LARGEST_UPDATE: usize = 64 << 20;

pub(super) async fn follow(
    caller: Caller,
    to: mpsc::Sender<Message>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut facts = Facts::default();
    let mut pause = Pause::new(QUICKEST, SLOWEST);
    let mut away = false;
    loop {
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            outcome = stream(&caller, &mut facts, &to, &mut away, &mut pause) => outcome,
        };
        if to.is_closed() {
            stop.cancelled().await;
            return Ok(());
        }
        match outcome {
            Ok(()) => debug!("the catalogue stream ended, resuming"),
            // One warning an absence: pricing-cache may be restarted at any time.
            Err(error) if !std::mem::replace(&mut away, true) => {
                warn!(%error, "no catalogue from pricing-cache, trying again until there is one");
            }
            Err(error) => debug!(%error, "still no catalogue from pricing-cache"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause.next()) => {}
        }
    }
}

async fn stream(
    caller: &Caller,
    facts: &mut Facts,
    to: &mpsc::Sender<Message>,
    away: &mut bool,
    pause: &mut Pause,
) -> Result<(), tonic::Status> {
    let mut client = PricingCacheClient::new(caller.clone()).max_decoding_message_size(LARGEST_UPDATE);
    let from = WatchCatalogRequest { epoch: facts.epoch.clone(), version: facts.version };
    let mut updates = client.watch_catalog(from).await?.into_inner();
    while let Some(update) = updates.message().await? {
        if let Err(error) = facts.apply(update) {
            info!(%error, "the catalogue is out of step, starting anew");
            *facts = Facts::default();
            return Ok(());
        }
        pause.reset();
        if std::mem::replace(away, false) {
            info!(version = facts.version, "the catalogue is back");
        }
        debug!(version = facts.version, types = facts.entries.len(), "catalogue");
        if to.send(Message::Facts(Arc::new(facts.clone()))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Growing pauses between tries.
mod backoff {
    use std::time::Duration;

    pub(super) struct Pause {
        least: Duration,
        most: Duration,
        next: Duration,
    }

    impl Pause {
        pub(super) fn new(least: Duration, most: Duration) -> Self {
            Self { least, most, next: least }
        }

        pub(super) fn next(&mut self) -> Duration {
            let now = self.next;
            self.next = (now * 2).min(self.most);
            now
        }

        pub(super) fn reset(&mut self) {
            self.next = self.least;
        }
    }
}

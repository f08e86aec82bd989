//! One task per service: opens its stream, passes on what comes, and opens it again after a pause that grows while it fails.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::BoxFuture;
use jiff::Timestamp;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::disruption::v1::{ListCandidatesRequest, ListCommandsRequest, WatchCommandsRequest};
use proto::interruptionwatcher::v1::ListEventsRequest;
use proto::interruptionwatcher::v1::interruption_watcher_client::InterruptionWatcherClient;
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::provisioner::v1::WatchClusterRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::termination::v1::WatchDrainRequest;
use proto::termination::v1::termination_client::TerminationClient;
use runtime::Service;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::hub::Hub;
use super::picture::Event;
use super::shown::ServiceState;
use super::{Sources, convert};
use crate::connect::explain;

/// A step with hundreds of nodes and all their pods.
const LARGEST_ANSWER: usize = 64 << 20;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What is not streamed is asked again when nodes have changed, at most this often.
const AT_MOST_EVERY: Duration = Duration::from_secs(5);
/// And at least this often, for time alone changes it too: a consolidateAfter window ends, an unavailable offering comes back.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// Warnings of AWS that are asked for at once.
const MOST_INTERRUPTIONS: u32 = 300;

/// Ends with what is returned.
pub(crate) fn all(sources: &Sources, hub: &Arc<Hub>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::Provisioner, cluster));
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::Disruption, commands));
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::Termination, drains));
    tasks.spawn(again_and_again(
        sources.clone(),
        Arc::clone(hub),
        Service::InterruptionWatcher,
        interruptions,
    ));
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::PricingCache, prices));
    tasks
}

/// Says through [`Source::live`] that it works; returns when it does not any more.
type Follow = fn(Source) -> BoxFuture<'static, Result<()>>;

struct Source {
    sources: Sources,
    hub: Arc<Hub>,
    service: Service,
}

impl Source {
    fn say(&self, state: &'static str, detail: String) {
        let since = Timestamp::now().as_second();
        self.hub.take(Event::Service(self.service.as_str(), ServiceState { state, detail, since }));
    }

    fn live(&self) {
        self.say("live", String::new());
    }
}

async fn again_and_again(sources: Sources, hub: Arc<Hub>, service: Service, follow: Follow) {
    let mut pause = SHORTEST_PAUSE;
    let source = || Source { sources: sources.clone(), hub: Arc::clone(&hub), service };
    source().say("connecting", String::new());
    loop {
        let begun = Instant::now();
        let why = match follow(source()).await {
            Ok(()) => "the stream ended".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if begun.elapsed() > LONGEST_PAUSE {
            pause = SHORTEST_PAUSE;
        }
        source().say("lost", format!("{why}; asking again in {} s", pause.as_secs()));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn cluster(source: Source) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let transport = source.sources.transport(source.service).await?;
        let mut client = ProvisionerClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let request = WatchClusterRequest { with_pods: true };
        let mut stream = client.watch_cluster(request).await.map_err(|s| explain(&s))?.into_inner();
        while let Some(step) = stream.message().await.map_err(|status| explain(&status))? {
            let complete = !step.more;
            source.hub.take(convert::cluster(step, Timestamp::now().as_second()));
            if complete {
                source.live();
            }
        }
        Ok(())
    })
}

fn commands(source: Source) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let transport = source.sources.transport(source.service).await?;
        let mut client = DisruptionClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let mut nodes = source.hub.node_changes();
        let mut stream =
            client.watch_commands(WatchCommandsRequest::default()).await.map_err(|s| explain(&s))?.into_inner();
        let request = ListCommandsRequest { with_ended: true };
        let listed = client.list_commands(request).await.map_err(|status| explain(&status))?;
        for command in listed.into_inner().commands {
            source.hub.take(Event::Command(command));
        }
        let mut asking = Asking::new();
        loop {
            tokio::select! {
                reply = stream.message() => {
                    let Some(reply) = reply.map_err(|status| explain(&status))? else { return Ok(()) };
                    if let Some(command) = reply.command {
                        source.hub.take(Event::Command(command));
                    }
                    asking.soon();
                }
                Ok(()) = nodes.changed() => asking.soon(),
                () = asking.due() => {
                    let request = ListCandidatesRequest::default();
                    let reply = client.list_candidates(request).await.map_err(|status| explain(&status))?;
                    source.hub.take(convert::candidates(reply.into_inner()));
                    source.live();
                }
            }
        }
    })
}

fn drains(source: Source) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let transport = source.sources.transport(source.service).await?;
        let mut client = TerminationClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let mut stream =
            client.watch_drain(WatchDrainRequest::default()).await.map_err(|s| explain(&s))?.into_inner();
        source.hub.take(Event::DrainsBegin);
        source.live();
        while let Some(reply) = stream.message().await.map_err(|status| explain(&status))? {
            if let Some(drain) = reply.drain {
                source.hub.take(Event::Drain(drain));
            }
        }
        Ok(())
    })
}

fn prices(source: Source) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let transport = source.sources.transport(source.service).await?;
        let mut client = PricingCacheClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let mut nodes = source.hub.node_changes();
        let mut asking = Asking::new();
        loop {
            tokio::select! {
                Ok(()) = nodes.changed() => asking.soon(),
                () = asking.due() => {
                    let reply = client.list_unavailable(ListUnavailableRequest {}).await;
                    source.hub.take(convert::unavailable(reply.map_err(|status| explain(&status))?.into_inner()));
                    source.live();
                }
            }
        }
    })
}

fn interruptions(source: Source) -> BoxFuture<'static, Result<()>> {
    Box::pin(async move {
        let transport = source.sources.transport(source.service).await?;
        let mut client = InterruptionWatcherClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let mut nodes = source.hub.node_changes();
        let mut asking = Asking::new();
        loop {
            tokio::select! {
                Ok(()) = nodes.changed() => asking.soon(),
                () = asking.due() => {
                    let request = ListEventsRequest { limit: MOST_INTERRUPTIONS, instance_id: String::new() };
                    let reply = client.list_events(request).await.map_err(|status| explain(&status))?;
                    source.hub.take(Event::Interruptions(reply.into_inner().events));
                    source.live();
                }
            }
        }
    })
}

/// When to ask what is not streamed: at once, soon after changes, and now and then without any.
struct Asking {
    at: Instant,
    last: Option<Instant>,
}

impl Asking {
    fn new() -> Self {
        Self { at: Instant::now(), last: None }
    }

    /// Something changed.
    fn soon(&mut self) {
        let earliest = self.last.map_or_else(Instant::now, |last| last + AT_MOST_EVERY);
        self.at = self.at.min(earliest.max(Instant::now()));
    }

    async fn due(&mut self) {
        tokio::time::sleep_until(self.at).await;
        let now = Instant::now();
        (self.at, self.last) = (now + jittered(AT_LEAST_EVERY), Some(now));
    }
}

/// Up to a quarter longer, so that many open pages do not ask at the same moment.
fn jittered(base: Duration) -> Duration {
    let mut byte = [0];
    // Without random bytes all wait equally long.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    base + base.mul_f64(f64::from(byte[0]) / 256.0 / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_streamed_is_asked_again_after_changes_and_on_a_slow_timer() {
        let began = Instant::now();
        let mut asking = Asking::new();
        asking.due().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "at once");
        asking.soon();
        asking.soon();
        asking.due().await;
        assert_eq!(began.elapsed(), AT_MOST_EVERY, "a burst of changes is one question");
        asking.due().await;
        let waited = began.elapsed() - AT_MOST_EVERY;
        assert!((AT_LEAST_EVERY..=AT_LEAST_EVERY * 5 / 4).contains(&waited), "{waited:?} without a change");
    }
}

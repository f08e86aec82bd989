//! One task a service: opens its stream, passes on what comes, and opens it again after a pause that grows while it fails.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::BoxFuture;
use jiff::Timestamp;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::disruption::v1::{ListCandidatesRequest, ListCommandsRequest, WatchCommandsRequest};
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::provisioner::v1::WatchClusterRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::termination::v1::WatchDrainRequest;
use proto::termination::v1::termination_client::TerminationClient;
use runtime::Service;
use tokio::task::JoinSet;

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
const SETTLE: Duration = Duration::from_secs(5);

/// Ends with what is returned.
pub(crate) fn all(sources: &Sources, hub: &Arc<Hub>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::Provisioner, cluster));
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::Disruption, commands));
    tasks.spawn(again_and_again(sources.clone(), Arc::clone(hub), Service::Termination, drains));
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
        let begun = tokio::time::Instant::now();
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
            client.watch_commands(WatchCommandsRequest {}).await.map_err(|s| explain(&s))?.into_inner();
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

/// When to ask what is not streamed: at once, then after changes.
struct Asking {
    at: Option<tokio::time::Instant>,
    last: Option<tokio::time::Instant>,
}

impl Asking {
    fn new() -> Self {
        Self { at: Some(tokio::time::Instant::now()), last: None }
    }

    fn soon(&mut self) {
        let earliest = self.last.map_or_else(tokio::time::Instant::now, |last| last + SETTLE);
        self.at.get_or_insert_with(|| earliest.max(tokio::time::Instant::now()));
    }

    async fn due(&mut self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = None;
        self.last = Some(tokio::time::Instant::now());
    }
}

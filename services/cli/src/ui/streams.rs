//! The streams of one service, from the first message to the end: each message becomes an event of the picture.

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::disruption::v1::{ListCommandsRequest, WatchCandidatesRequest, WatchCommandsRequest};
use proto::interruptionwatcher::v1::WatchEventsRequest;
use proto::interruptionwatcher::v1::interruption_watcher_client::InterruptionWatcherClient;
use proto::pricingcache::v1::WatchCatalogRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::provisioner::v1::WatchClusterRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::termination::v1::termination_client::TerminationClient;
use proto::termination::v1::{ListDrainsRequest, WatchDrainRequest};

use super::convert;
use super::follow::{Lost, Never, Source, Whose};
use super::picture::Event;
use super::shortages::Shortages;
use crate::connect::Transport;

/// A step with hundreds of nodes and all their pods.
const LARGEST_ANSWER: usize = 64 << 20;
/// Warnings of AWS that are asked for at once.
const MOST_INTERRUPTIONS: u32 = 300;

/// Every replica tells the cluster, and says in each step whether it leads.
pub(super) fn cluster(
    source: &Source,
    transport: Transport,
    whose: Whose,
) -> BoxFuture<'_, Result<Never, Lost>> {
    async move {
        let mut client = ProvisionerClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let mut stream = client.watch_cluster(WatchClusterRequest { with_pods: true }).await?.into_inner();
        let mut begun = false;
        while let Some(step) = stream.message().await.map_err(Lost::later)? {
            match (step.leader, begun) {
                (false, false) if whose.is_leader() => return Err(Lost::NotLeading),
                (false, true) if whose.is_leader() => {
                    return Err(Lost::Failed(anyhow::anyhow!("the replica leads no more")));
                }
                // It begins to lead: from now on it is read for that.
                (true, _) if !whose.is_leader() => return Err(Lost::LookAgain),
                _ => begun = true,
            }
            let complete = !step.more;
            source.hub.take(convert::cluster(step, Timestamp::now().as_second()));
            if complete {
                source.live(whose.but());
            }
        }
        Err(Lost::ended())
    }
    .boxed()
}

pub(super) fn disruption(
    source: &Source,
    transport: Transport,
    whose: Whose,
) -> BoxFuture<'_, Result<Never, Lost>> {
    async move {
        let leader_only = whose.is_leader();
        let mut client = DisruptionClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let mut commands = client.watch_commands(WatchCommandsRequest { leader_only }).await?.into_inner();
        let request = WatchCandidatesRequest { leader_only, ..WatchCandidatesRequest::default() };
        let mut candidates = client.watch_candidates(request).await?.into_inner();
        // After the stream has begun, so that nothing is missed between the two.
        let told =
            client.list_commands(ListCommandsRequest { with_ended: true }).await?.into_inner().commands;
        source.hub.take(Event::Commands { told, all: leader_only });
        loop {
            tokio::select! {
                reply = commands.message() => {
                    let reply = reply.map_err(Lost::later)?.ok_or_else(Lost::ended)?;
                    if let Some(command) = reply.command {
                        source.hub.take(Event::Command(command));
                    }
                }
                reply = candidates.message() => {
                    let reply = reply.map_err(Lost::later)?.ok_or_else(Lost::ended)?;
                    source.hub.take(convert::candidates(reply));
                    source.live(whose.but());
                }
            }
        }
    }
    .boxed()
}

pub(super) fn drains(
    source: &Source,
    transport: Transport,
    whose: Whose,
) -> BoxFuture<'_, Result<Never, Lost>> {
    async move {
        let leader_only = whose.is_leader();
        let mut client = TerminationClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let request = WatchDrainRequest { leader_only, ..WatchDrainRequest::default() };
        let mut stream = client.watch_drain(request).await?.into_inner();
        let told = client.list_drains(ListDrainsRequest::default()).await?.into_inner().drains;
        source.hub.take(Event::Drains { told, all: leader_only });
        source.live(whose.but());
        while let Some(reply) = stream.message().await.map_err(Lost::later)? {
            if let Some(drain) = reply.drain {
                source.hub.take(Event::Drain(drain));
            }
        }
        Err(Lost::ended())
    }
    .boxed()
}

/// The first stream that ends ends all: there may be other replicas then.
pub(super) async fn interruptions(
    source: &Source,
    transports: Vec<Transport>,
    but: &str,
) -> Result<Never, Lost> {
    let mut begun = Vec::new();
    for transport in transports {
        let mut client = InterruptionWatcherClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
        let request = WatchEventsRequest { limit: MOST_INTERRUPTIONS, instance_id: String::new() };
        let mut stream = client.watch_events(request).await?.into_inner();
        let kept = stream.message().await.map_err(Lost::later)?.ok_or_else(Lost::ended)?;
        source.hub.take(Event::Interruptions(kept.events));
        let ended = futures::stream::once(async { Err(Lost::ended()) });
        begun.push(stream.map(|reply| reply.map_err(Lost::later)).chain(ended).boxed());
    }
    source.live(but);
    let mut all = futures::stream::select_all(begun);
    while let Some(reply) = all.next().await {
        source.hub.take(Event::Interruptions(reply?.events));
    }
    Err(Lost::ended())
}

pub(super) async fn catalogue(source: &Source, transport: Transport) -> Result<Never, Lost> {
    let mut client = PricingCacheClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    let mut stream = client.watch_catalog(WatchCatalogRequest::default()).await?.into_inner();
    let mut shortages = Shortages::default();
    while let Some(reply) = stream.message().await.map_err(Lost::later)? {
        let Some(update) = reply.update else { continue };
        if let Some(event) = shortages.take(update) {
            source.hub.take(event);
        }
        source.live("");
    }
    Err(Lost::ended())
}

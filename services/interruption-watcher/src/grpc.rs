//! The gRPC server: who may call what, and the handlers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use proto::interruptionwatcher::v1 as pb;
use proto::interruptionwatcher::v1::interruption_watcher_server::{
    InterruptionWatcher, InterruptionWatcherServer, SERVICE_NAME,
};
use proto::types::v1::ObjectRef;
use runtime::grpc::{Access, GrpcServer, Humans, Watchers, errors};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::claims::Claim;
use crate::decision::Home;
use crate::handler::Handler;
use crate::journal::{Done, Entry, Journal};
use crate::message::{Kind, LONGEST};
use crate::metrics::Metrics;
use crate::queue::State;
use crate::rules::Found;

const DEFAULT_LIMIT: usize = 100;
/// Streams of events at once: half of what people may have under way, so that there is room for short questions.
pub(crate) const MOST_WATCHERS: usize = 32;
/// Messages come in batches: what is handled within this time is told as one.
const QUIET: Duration = Duration::from_millis(200);

pub(crate) struct Service {
    pub(crate) handler: Handler,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    pub(crate) region: String,
    pub(crate) event_accounts: Vec<String>,
    pub(crate) queue: watch::Receiver<State>,
    pub(crate) rules: watch::Receiver<Vec<Found>>,
    pub(crate) watchers: Watchers,
}

pub(crate) fn server(service: Service) -> GrpcServer {
    let access = Access::new()
        .allow(SERVICE_NAME, "ListEvents", &[], Humans::Read)
        .allow(SERVICE_NAME, "WatchEvents", &[], Humans::Read)
        .allow(SERVICE_NAME, "GetStats", &[], Humans::Read)
        .allow(SERVICE_NAME, "Replay", &[], Humans::Read);
    GrpcServer::new(access)
        .add_service(InterruptionWatcherServer::new(service))
        // A replayed message may ask EC2, as a real one does.
        .costly(&["Replay"], 1)
        .costly(&["ListEvents"], 1)
}

#[tonic::async_trait]
impl InterruptionWatcher for Service {
    async fn list_events(
        &self,
        request: Request<pb::ListEventsRequest>,
    ) -> Result<Response<pb::ListEventsResponse>, Status> {
        let pb::ListEventsRequest { limit, instance_id } = request.into_inner();
        let events = self.journal.list(most(limit), instance_id).await.iter().map(event).collect();
        Ok(Response::new(pb::ListEventsResponse { events }))
    }

    type WatchEventsStream = BoxStream<'static, Result<pb::WatchEventsResponse, Status>>;

    async fn watch_events(
        &self,
        request: Request<pb::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let pb::WatchEventsRequest { limit, instance_id } = request.into_inner();
        let watcher = Watcher {
            newest: self.journal.newest(),
            journal: self.journal.clone(),
            instance: instance_id,
            first: most(limit),
            told: None,
        };
        let stream = futures::stream::unfold(watcher, |mut watcher| async move {
            let told = watcher.next().await?;
            Some((Ok(told), watcher))
        });
        Ok(Response::new(self.watchers.admit(stream.boxed())?))
    }

    async fn get_stats(
        &self,
        _request: Request<pb::GetStatsRequest>,
    ) -> Result<Response<pb::GetStatsResponse>, Status> {
        let queue = self.queue.borrow().clone();
        let rules = self.rules.borrow().iter().map(rule).collect();
        Ok(Response::new(pb::GetStatsResponse {
            received: self.received(),
            deleted: self.metrics.deleted.get(),
            failed: self.metrics.failed.get(),
            poisoned: self.metrics.poisoned.get(),
            queue_url: queue.url,
            queue_problem: queue.problem,
            rules,
        }))
    }

    async fn replay(
        &self,
        request: Request<pb::ReplayRequest>,
    ) -> Result<Response<pb::ReplayResponse>, Status> {
        let body = request.into_inner().body;
        if body.len() > LONGEST {
            return Err(errors::invalid("body", format!("at most {LONGEST} bytes, as in a queue")));
        }
        let account = Home::account_of(&self.queue.borrow().arn).to_owned();
        let home = Home { account, region: self.region.clone(), also: self.event_accounts.clone() };
        let explained = self.handler.explain(&body, &home).await;
        Ok(Response::new(pb::ReplayResponse {
            kind: kind(explained.kind).into(),
            instance_ids: explained.instances,
            node_claims: references(&explained.claims),
            action: action(explained.done).into(),
            explanation: explained.words,
        }))
    }
}

impl Service {
    fn received(&self) -> HashMap<String, u64> {
        self.metrics.received_by_type().into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
    }
}

fn most(limit: u32) -> usize {
    if limit == 0 { DEFAULT_LIMIT } else { limit as usize }
}

/// One watcher: told what is kept, then what is recorded later. Nothing is queued for it: a slow one is told more at once.
struct Watcher {
    journal: Journal,
    newest: watch::Receiver<u64>,
    instance: String,
    /// Most entries of the first answer.
    first: usize,
    /// Up to which entry it was told.
    told: Option<u64>,
}

impl Watcher {
    /// `None` when the process ends.
    async fn next(&mut self) -> Option<pb::WatchEventsResponse> {
        loop {
            let limit = match self.told {
                None => self.first,
                Some(told) => {
                    self.newest.wait_for(|newest| *newest > told).await.ok()?;
                    tokio::time::sleep(QUIET).await;
                    usize::MAX
                }
            };
            let after = self.told.unwrap_or_default();
            let listed = self.journal.after(after, limit, self.instance.clone()).await?;
            let kept = self.told.replace(listed.newest).is_none();
            if kept || !listed.entries.is_empty() {
                let events = listed.entries.iter().map(event).collect();
                return Some(pb::WatchEventsResponse { events, kept });
            }
        }
    }
}

fn rule(found: &Found) -> pb::RuleState {
    pb::RuleState {
        name: found.name.to_owned(),
        ok: found.problem.is_empty(),
        problem: found.problem.clone(),
    }
}

fn event(entry: &Entry) -> pb::InterruptionEvent {
    pb::InterruptionEvent {
        id: entry.id.clone(),
        kind: kind(entry.kind).into(),
        instance_ids: entry.instances.clone(),
        node_claims: references(&entry.claims),
        action: action(entry.done).into(),
        detail: entry.detail.clone(),
        event_time: entry.event_time.map(timestamp),
        received_at: Some(timestamp(entry.received_at)),
        handled_in: prost_types::Duration::try_from(entry.handled_in).ok(),
    }
}

fn references(claims: &[Arc<Claim>]) -> Vec<ObjectRef> {
    claims
        .iter()
        .map(|claim| ObjectRef { name: claim.name.to_string(), uid: claim.uid.to_string() })
        .collect()
}

fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond().max(0) }
}

fn action(done: Done) -> pb::Action {
    match done {
        Done::Nothing => pb::Action::None,
        Done::Drain => pb::Action::Drain,
        Done::TerminateNow => pb::Action::TerminateNow,
    }
}

fn kind(kind: Option<Kind>) -> pb::MessageKind {
    match kind {
        None => pb::MessageKind::Malformed,
        Some(Kind::SpotInterrupted) => pb::MessageKind::SpotInterrupted,
        Some(Kind::RebalanceRecommendation) => pb::MessageKind::RebalanceRecommendation,
        Some(Kind::ScheduledChange) => pb::MessageKind::ScheduledChange,
        Some(Kind::InstanceStopped) => pb::MessageKind::InstanceStopped,
        Some(Kind::InstanceTerminated) => pb::MessageKind::InstanceTerminated,
        Some(Kind::CapacityReservationInterrupted) => pb::MessageKind::CapacityReservationInterrupted,
        Some(Kind::InstanceStatus) => pb::MessageKind::InstanceStatus,
        Some(Kind::SystemStatus) => pb::MessageKind::SystemStatus,
        Some(Kind::EventStatus) => pb::MessageKind::EventStatus,
        Some(Kind::NoOp) => pb::MessageKind::NoOp,
    }
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;

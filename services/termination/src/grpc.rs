//! The gRPC server: who may call what, and the handlers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use model::labels;
use proto::termination::v1 as pb;
use proto::termination::v1::termination_server::{SERVICE_NAME, Termination, TerminationServer};
use proto::types::v1::{ObjectRef, PodRef};
use runtime::grpc::{Access, GrpcServer, Humans, errors, while_leading};
use runtime::{Leadership, Service};
use tonic::{Request, Response, Status};

use crate::cluster::Claim;
use crate::removal::{Drain, Phase, Removals, Wait};
use crate::writes::{Error, REASON_ANNOTATION, Writes, rfc3339};

/// Changes within this time reach a watcher as one.
const QUIET: Duration = Duration::from_millis(200);
/// Grace periods run although nothing changes: a watcher sees them run.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
const LONGEST_REASON: usize = 256;

pub(crate) struct Handler {
    pub(crate) removals: Removals,
    pub(crate) writes: Writes,
    pub(crate) leadership: Leadership,
}

pub(crate) fn server(handler: Handler) -> GrpcServer {
    let access = Access::new()
        .allow(
            SERVICE_NAME,
            "Terminate",
            &[Service::Disruption, Service::InterruptionWatcher],
            Humans::Granted,
        )
        .allow(SERVICE_NAME, "ListDrains", &[Service::Disruption], Humans::Read)
        .allow(SERVICE_NAME, "WatchDrain", &[Service::Disruption], Humans::Read);
    GrpcServer::new(access).add_service(TerminationServer::new(handler)).costly(&["ListDrains"], 1)
}

/// What `Terminate` asks for, checked.
struct Order {
    name: String,
    uid: String,
    reason: String,
    deadline: Option<Timestamp>,
}

impl TryFrom<pb::TerminateRequest> for Order {
    type Error = Status;

    fn try_from(request: pb::TerminateRequest) -> Result<Self, Status> {
        let claim = request.node_claim.unwrap_or_default();
        if claim.name.is_empty() {
            return Err(errors::invalid("node_claim.name", "name the NodeClaim to remove"));
        }
        if request.reason.len() > LONGEST_REASON {
            return Err(errors::invalid("reason", format!("at most {LONGEST_REASON} bytes")));
        }
        let deadline = request.deadline.map(|at| {
            let nanos = at.nanos.clamp(0, 999_999_999);
            Timestamp::new(at.seconds, nanos)
                .map_err(|_| errors::invalid("deadline", "a time within year 9999"))
        });
        Ok(Self { name: claim.name, uid: claim.uid, reason: request.reason, deadline: deadline.transpose()? })
    }
}

impl Handler {
    async fn claim(&self, order: &Order) -> Result<std::sync::Arc<Claim>, Status> {
        let claim = self.removals.claim(&order.name).await;
        let claim = claim.ok_or_else(|| errors::not_found("NodeClaim", &order.name))?;
        if !order.uid.is_empty() && *claim.uid != *order.uid {
            let metadata = [("name", order.name.clone()), ("uid", claim.uid.to_string())];
            return Err(errors::status(
                tonic::Code::FailedPrecondition,
                "UID_MISMATCH",
                format!(
                    "NodeClaim {} now has uid {}: it is a namesake of the one meant",
                    order.name, claim.uid
                ),
                metadata,
            ));
        }
        if !claim.managed {
            return Err(errors::status(
                tonic::Code::FailedPrecondition,
                "NOT_MANAGED",
                format!("NodeClaim {} is not of an EC2NodeClass and is not ours to remove", order.name),
                [("name", order.name.clone())],
            ));
        }
        Ok(claim)
    }

    async fn terminated(&self, order: &Order) -> Result<pb::TerminateResponse, Status> {
        let mut waits = [20_u64, 100, 400].into_iter();
        loop {
            let claim = self.claim(order).await?;
            match self.carry_out(order, &claim).await {
                Ok(response) => return Ok(response),
                Err(Error::Gone) => return Err(errors::not_found("NodeClaim", &order.name)),
                Err(Error::Conflict) if let Some(wait) = waits.next() => {
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
                Err(error) => {
                    let message =
                        format!("NodeClaim {} could not be deleted: {error}; try again", order.name);
                    return Err(errors::unavailable("API_SERVER", message));
                }
            }
        }
    }

    async fn carry_out(&self, order: &Order, claim: &Claim) -> Result<pb::TerminateResponse, Error> {
        // Two clocks, one deadline: whole seconds, as they are stored.
        let in_force = claim.deadline.earlier(order.deadline);
        let mut annotations = Vec::new();
        if let Some(deadline) = in_force.filter(|deadline| claim.deadline.at() != Some(*deadline)) {
            annotations.push((labels::TERMINATION_TIMESTAMP, rfc3339(deadline)));
        }
        if !order.reason.is_empty() && claim.termination_reason.is_none() && claim.deleting.is_none() {
            annotations.push((REASON_ANNOTATION, order.reason.clone()));
        }
        // The trace of who asks, where the node has none of its own: the removal continues it.
        if claim.traceparent.is_none()
            && claim.deleting.is_none()
            && let Some(traceparent) = runtime::trace::current_traceparent()
        {
            annotations.push((labels::TRACEPARENT, traceparent));
        }
        if !annotations.is_empty() {
            self.writes.annotate_claim(claim, annotations).await?;
        }
        if claim.deleting.is_none() {
            self.writes.delete_claim(&claim.name, &claim.uid).await?;
            tracing::info!(nodeclaim = %claim.name, reason = order.reason, "deleting nodeclaim");
        }
        Ok(pb::TerminateResponse {
            already_deleting: claim.deleting.is_some(),
            deadline: in_force.map(timestamp),
        })
    }
}

#[tonic::async_trait]
impl Termination for Handler {
    async fn terminate(
        &self,
        request: Request<pb::TerminateRequest>,
    ) -> Result<Response<pb::TerminateResponse>, Status> {
        let order = Order::try_from(request.into_inner())?;
        // The Lease is not given back before the last write has ended, and no write goes on after it was lost.
        let Some(term) = self.leadership.held() else { return Err(errors::not_leader(None)) };
        tokio::select! {
            biased;
            () = term.lost().cancelled_owned() => Err(errors::not_leader(None)),
            answer = self.terminated(&order) => answer.map(Response::new),
        }
    }

    async fn list_drains(
        &self,
        request: Request<pb::ListDrainsRequest>,
    ) -> Result<Response<pb::ListDrainsResponse>, Status> {
        let pool = request.into_inner().node_pool;
        let drains = self.removals.drains().await.ok_or_else(ending)?;
        let chosen = drains.iter().filter(|drain| pool.is_empty() || *drain.nodepool == *pool);
        Ok(Response::new(pb::ListDrainsResponse { drains: chosen.map(message).collect() }))
    }

    type WatchDrainStream = BoxStream<'static, Result<pb::WatchDrainResponse, Status>>;

    async fn watch_drain(
        &self,
        request: Request<pb::WatchDrainRequest>,
    ) -> Result<Response<Self::WatchDrainStream>, Status> {
        let pb::WatchDrainRequest { name, leader_only } = request.into_inner();
        let follower = Follower {
            changes: self.removals.changes(),
            removals: self.removals.clone(),
            name,
            shown: BTreeMap::new(),
            queue: Vec::new(),
            begun: false,
        };
        let stream = futures::stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            Some((Ok(pb::WatchDrainResponse { drain: Some(next) }), follower))
        });
        let stream = stream.boxed();
        Ok(Response::new(if leader_only { while_leading(&self.leadership, stream)? } else { stream }))
    }
}

/// One watcher: what it was shown, and what it is to be shown next.
struct Follower {
    removals: Removals,
    changes: tokio::sync::watch::Receiver<u64>,
    name: String,
    shown: BTreeMap<String, Drain>,
    queue: Vec<pb::Drain>,
    begun: bool,
}

impl Follower {
    /// `None` ends the stream: the one that was asked for is gone, or the process ends.
    async fn next(&mut self) -> Option<pb::Drain> {
        loop {
            if let Some(next) = self.queue.pop() {
                return Some(next);
            }
            let followed_to_the_end = !self.name.is_empty() && self.begun && self.shown.is_empty();
            if followed_to_the_end {
                return None;
            }
            if self.begun {
                tokio::select! {
                    changed = self.changes.changed() => changed.ok()?,
                    () = tokio::time::sleep(AT_LEAST_EVERY), if !self.shown.is_empty() => {}
                }
                tokio::time::sleep(QUIET).await;
                self.changes.mark_unchanged();
            }
            self.look().await?;
            self.begun = true;
        }
    }

    async fn look(&mut self) -> Option<()> {
        let mut now: BTreeMap<String, Drain> = BTreeMap::new();
        for drain in self.removals.drains().await? {
            if self.name.is_empty() || is_named(&drain, &self.name) {
                let key = key(&drain);
                let drain = continued(drain, self.shown.get(&key));
                now.insert(key, drain);
            }
        }
        for (key, drain) in &now {
            if self.shown.get(key) != Some(drain) {
                self.queue.push(message(drain));
            }
        }
        for (key, drain) in &self.shown {
            if !now.contains_key(key) {
                let gone = Drain {
                    phase: Phase::Gone,
                    waiting: Vec::new(),
                    pods_gone: drain.pods_total,
                    ..drain.clone()
                };
                self.queue.push(message(&gone));
            }
        }
        self.queue.reverse();
        self.shown = now;
        Some(())
    }
}

/// What was told stays true until the end: a claim may outlive its Node by a moment, and a replica that comes to lead in the
/// middle has not seen the pods that went before.
fn continued(drain: Drain, shown: Option<&Drain>) -> Drain {
    let Some(shown) = shown else { return drain };
    let awaited = drain.pods_total - drain.pods_gone;
    let pods_total = drain.pods_total.max(shown.pods_total);
    let node = drain.node.clone().or_else(|| shown.node.clone());
    Drain { node, pods_total, pods_gone: pods_total - awaited, ..drain }
}

/// The claim where there is one: a claim whose node has gone is still the same removal.
fn key(drain: &Drain) -> String {
    match (&drain.claim, &drain.node) {
        (Some((_, uid)), _) => uid.to_string(),
        (None, Some(node)) => node.to_string(),
        (None, None) => String::new(),
    }
}

fn is_named(drain: &Drain, name: &str) -> bool {
    drain.node.as_deref() == Some(name) || drain.claim.as_ref().is_some_and(|(claim, _)| **claim == *name)
}

fn ending() -> Status {
    errors::unavailable("STOPPING", "this replica is stopping; ask another")
}

fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond().max(0) }
}

fn message(drain: &Drain) -> pb::Drain {
    let phase = match drain.phase {
        Phase::Draining => pb::DrainPhase::Draining,
        Phase::Detaching => pb::DrainPhase::Detaching,
        Phase::Terminating => pb::DrainPhase::Terminating,
        Phase::Gone => pb::DrainPhase::Gone,
    };
    pb::Drain {
        node: drain.node.as_deref().unwrap_or_default().to_owned(),
        node_claim: drain
            .claim
            .as_ref()
            .map(|(name, uid)| ObjectRef { name: name.to_string(), uid: uid.to_string() }),
        node_pool: drain.nodepool.to_string(),
        instance_id: drain.instance.clone().unwrap_or_default(),
        phase: phase.into(),
        since: Some(timestamp(drain.since)),
        deadline: drain.deadline.map(timestamp),
        waiting: drain.waiting.iter().map(waiting).collect(),
        pods_total: u32::try_from(drain.pods_total).unwrap_or(u32::MAX),
        pods_gone: u32::try_from(drain.pods_gone).unwrap_or(u32::MAX),
        reason: drain.reason.clone(),
    }
}

fn waiting(wait: &Wait) -> pb::Waiting {
    pb::Waiting {
        pod: wait.pod.as_ref().map(|pod| PodRef {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
        }),
        kind: wait.kind.to_owned(),
        detail: wait.detail.clone(),
        since: Some(timestamp(wait.since)),
        forced_at: wait.forced_at.map(timestamp),
    }
}

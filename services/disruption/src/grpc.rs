//! The gRPC server: who may call what, and the handlers. Every replica answers from what it knows: what a command did to the
//! objects every replica sees, what is only proposed and what ended the leader alone.

mod watch_candidates;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use model::labels;
use policy::consolidation::COST_UNIT;
use proto::disruption::v1 as pb;
use proto::disruption::v1::disruption_server::{Disruption, DisruptionServer, SERVICE_NAME};
use proto::types::v1 as types;
use runtime::Leadership;
use runtime::grpc::{Access, GrpcServer, Humans, Watchers, errors, while_leading};
use tokio::sync::watch;
use tonic::{Code, Request, Response, Status};

use crate::actor::{Disruptions, Explained, NodeReport, NotCancelled, Report, Silent};
use crate::command::{Command, Stage};
use watch_candidates::{Listing, Watcher};

/// Streams of candidates at once: half of what people may have under way, so that there is room for short questions.
const MOST_WATCHERS: usize = 32;

pub(crate) fn server(disruptions: Disruptions, leadership: Leadership) -> GrpcServer {
    let access = Access::new()
        .allow(SERVICE_NAME, "ListCandidates", &[], Humans::Read)
        .allow(SERVICE_NAME, "WatchCandidates", &[], Humans::Read)
        .allow(SERVICE_NAME, "ExplainNode", &[], Humans::Read)
        .allow(SERVICE_NAME, "ListCommands", &[], Humans::Read)
        .allow(SERVICE_NAME, "WatchCommands", &[], Humans::Read)
        .allow(SERVICE_NAME, "CancelCommand", &[], Humans::Granted);
    let handler = Handler::new(disruptions, leadership, Watchers::new(MOST_WATCHERS));
    GrpcServer::new(access)
        .add_service(DisruptionServer::new(handler))
        .costly(&["ListCandidates", "ExplainNode"], 1)
}

struct Handler {
    listing: Arc<Listing>,
    disruptions: Disruptions,
    leadership: Leadership,
    watchers: Watchers,
}

fn status(silent: Silent) -> Status {
    match silent {
        Silent::Stopping => errors::unavailable("STOPPING", "this replica is stopping"),
        Silent::NotSynced => errors::unavailable(
            "NOT_SYNCED",
            "the cluster's state is not complete yet; see /readyz for what is missing",
        ),
    }
}

impl Handler {
    fn new(disruptions: Disruptions, leadership: Leadership, watchers: Watchers) -> Self {
        let listing = Arc::new(Listing::new(disruptions.clone()));
        Self { listing, disruptions, leadership, watchers }
    }

    async fn report(&self) -> Result<Report, Status> {
        self.disruptions.report().await.map_err(status)
    }
}

#[tonic::async_trait]
impl Disruption for Handler {
    async fn list_candidates(
        &self,
        request: Request<pb::ListCandidatesRequest>,
    ) -> Result<Response<pb::ListCandidatesResponse>, Status> {
        let pool = request.into_inner().node_pool;
        let report = self.report().await?;
        let wanted = |name: &str| pool.is_empty() || pool == name;
        let mut nodes: Vec<&NodeReport> = report
            .nodes
            .iter()
            .filter(|node| wanted(node.node.pool.as_deref().unwrap_or_default()))
            .collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(waste(node)));
        let candidates = nodes.into_iter().map(candidate).collect();
        let budgets = budgets(&report).filter(|budget| wanted(&budget.node_pool)).collect();
        Ok(Response::new(pb::ListCandidatesResponse { candidates, budgets }))
    }

    type WatchCandidatesStream = BoxStream<'static, Result<pb::WatchCandidatesResponse, Status>>;

    async fn watch_candidates(
        &self,
        request: Request<pb::WatchCandidatesRequest>,
    ) -> Result<Response<Self::WatchCandidatesStream>, Status> {
        let pb::WatchCandidatesRequest { node_pool, leader_only } = request.into_inner();
        let stream = Watcher::new(&self.listing, node_pool).stream().boxed();
        let stream = if leader_only { while_leading(&self.leadership, stream)? } else { stream };
        Ok(Response::new(self.watchers.admit(stream)?))
    }

    async fn explain_node(
        &self,
        request: Request<pb::ExplainNodeRequest>,
    ) -> Result<Response<pb::ExplainNodeResponse>, Status> {
        let name = request.into_inner().name;
        if name.is_empty() {
            return Err(errors::invalid("name", "give the name of a Node or a NodeClaim"));
        }
        let found = self.disruptions.node(&name).await.map_err(status)?;
        let Explained { node, command } =
            found.ok_or_else(|| errors::not_found("node or NodeClaim of ours", &name))?;
        Ok(Response::new(pb::ExplainNodeResponse {
            candidate: Some(candidate(&node)),
            summary: summary(&node, command.as_ref()),
            last_probe: node.probed.as_ref().map(|probed| probed.verdict.words.clone()).unwrap_or_default(),
            probed_at: node.probed.as_ref().map(|probed| timestamp(probed.at)),
            command: command.as_ref().map(wire),
        }))
    }

    async fn list_commands(
        &self,
        request: Request<pb::ListCommandsRequest>,
    ) -> Result<Response<pb::ListCommandsResponse>, Status> {
        let commands = self.disruptions.commands().await.map_err(status)?;
        let ended = commands.ended.iter().filter(|_| request.get_ref().with_ended);
        let commands = commands.under_way.iter().chain(ended).map(wire).collect();
        Ok(Response::new(pb::ListCommandsResponse { commands }))
    }

    async fn cancel_command(
        &self,
        request: Request<pb::CancelCommandRequest>,
    ) -> Result<Response<pb::CancelCommandResponse>, Status> {
        let id = request.into_inner().id;
        let cancelled = self.disruptions.cancel(&id).await.map_err(status)?;
        let command = cancelled.map_err(|why| match why {
            NotCancelled::NotLeading => errors::not_leader(None),
            NotCancelled::Unknown => errors::not_found("command", &id),
            NotCancelled::TooLate => errors::status(
                Code::Aborted,
                "TOO_LATE",
                format!("command {id} cannot be taken back: its NodeClaims are being deleted, or it is over"),
                [("command", id.clone())],
            ),
        })?;
        Ok(Response::new(pb::CancelCommandResponse { command: Some(wire(&command)) }))
    }

    type WatchCommandsStream = BoxStream<'static, Result<pb::WatchCommandsResponse, Status>>;

    async fn watch_commands(
        &self,
        request: Request<pb::WatchCommandsRequest>,
    ) -> Result<Response<Self::WatchCommandsStream>, Status> {
        let (disruptions, changes) = (self.disruptions.clone(), self.disruptions.changes());
        let follower =
            Follower { disruptions, changes, shown: BTreeMap::new(), due: VecDeque::new(), begun: false };
        let stream = futures::stream::unfold(follower, |mut follower| async move {
            let command = follower.next().await?;
            Some((Ok(pb::WatchCommandsResponse { command: Some(command) }), follower))
        });
        let stream = stream.boxed();
        let leader_only = request.into_inner().leader_only;
        Ok(Response::new(if leader_only { while_leading(&self.leadership, stream)? } else { stream }))
    }
}

/// One watcher of commands: tells each as it is now, then again whenever it has changed.
struct Follower {
    disruptions: Disruptions,
    changes: watch::Receiver<u64>,
    /// As last told, by id.
    shown: BTreeMap<String, pb::Command>,
    due: VecDeque<pb::Command>,
    begun: bool,
}

impl Follower {
    /// `None` when the process ends.
    async fn next(&mut self) -> Option<pb::Command> {
        loop {
            if let Some(command) = self.due.pop_front() {
                return Some(command);
            }
            if self.begun {
                self.changes.changed().await.ok()?;
            }
            self.changes.mark_unchanged();
            let commands = match self.disruptions.commands().await {
                Ok(commands) => commands,
                Err(Silent::Stopping) => return None,
                Err(Silent::NotSynced) => {
                    self.changes.changed().await.ok()?;
                    continue;
                }
            };
            let ended = commands.ended.iter().map(wire);
            if !std::mem::replace(&mut self.begun, true) {
                // What ended before the watch began is not news.
                self.shown.extend(ended.clone().map(|command| (command.id.clone(), command)));
            }
            for command in commands.under_way.iter().map(wire).chain(ended) {
                if self.shown.get(&command.id) != Some(&command) {
                    self.shown.insert(command.id.clone(), command.clone());
                    self.due.push_back(command);
                }
            }
        }
    }
}

fn percent(part: i64, whole: i64) -> u32 {
    if whole <= 0 { 0 } else { u32::try_from(part.saturating_mul(100) / whole).unwrap_or(u32::MAX) }
}

/// Micro-dollars per hour that buy what no pod asked for, by the scarcer of CPU and memory.
fn waste(node: &NodeReport) -> i64 {
    let price = node.seen.as_ref().and_then(|seen| seen.price).map_or(0, |price| price.get());
    let used = percent(node.requested.0, node.node.allocatable.0)
        .max(percent(node.requested.1, node.node.allocatable.1));
    price.saturating_mul(100 - i64::from(used.min(100))) / 100
}

fn candidate(report: &NodeReport) -> pb::Candidate {
    let node = &report.node;
    let text = |value: &Option<std::sync::Arc<str>>| value.as_deref().unwrap_or_default().to_owned();
    let capacity_type = match node.capacity_type.as_deref() {
        Some(labels::SPOT) => types::CapacityType::Spot,
        Some(labels::ON_DEMAND) => types::CapacityType::OnDemand,
        Some(labels::RESERVED) => types::CapacityType::Reserved,
        _ => types::CapacityType::Unspecified,
    };
    pb::Candidate {
        node: node.name.to_string(),
        node_claim: report
            .claim
            .as_ref()
            .map(|claim| types::ObjectRef { name: claim.name.to_string(), uid: claim.uid.to_string() }),
        node_pool: text(&node.pool),
        offering: Some(types::Offering {
            instance_type: text(&node.instance_type),
            zone: text(&node.zone),
            capacity_type: capacity_type.into(),
            micro_usd_per_hour: report
                .seen
                .as_ref()
                .and_then(|seen| seen.price)
                .map_or(0, |price| price.get()),
            available: true,
            ..types::Offering::default()
        }),
        disruptable: report.blocked.is_empty(),
        blockers: report
            .blocked
            .iter()
            .map(|blocked| pb::Blocker {
                rule: blocked.rule().to_owned(),
                detail: blocked.to_string(),
                remedy: blocked.remedy(),
            })
            .collect(),
        disruption_cost_milli: i64::try_from(
            i128::from(report.costs.reschedule) * 1000 / i128::from(COST_UNIT),
        )
        .unwrap_or(i64::MAX),
        cpu_percent: percent(report.requested.0, node.allocatable.0),
        memory_percent: percent(report.requested.1, node.allocatable.1),
        saving_micro_usd_per_hour: report
            .probed
            .as_ref()
            .and_then(|probed| probed.verdict.saving)
            .map(|saving| saving.get())
            .or_else(|| {
                let price = report.seen.as_ref().and_then(|seen| seen.price)?;
                (report.blocked.is_empty() && report.costs.is_empty()).then_some(price.get())
            }),
        conditions: conditions(report),
    }
}

fn budgets(report: &Report) -> impl Iterator<Item = pb::BudgetState> {
    report.budgets.iter().flat_map(|(name, states)| {
        states.values().map(|state| pb::BudgetState {
            node_pool: name.to_string(),
            reason: state.reason.as_str().to_owned(),
            allowed: state.allowed,
            in_use: state.away,
            problem: state.problem.as_ref().map(ToString::to_string).unwrap_or_default(),
        })
    })
}

fn conditions(report: &NodeReport) -> Vec<types::Condition> {
    let of_claim = report.claim.iter().flat_map(|claim| &claim.conditions).map(|each| types::Condition {
        r#type: each.type_.clone(),
        status: each.status.as_str().to_owned(),
        reason: each.reason.clone(),
    });
    let of_node = report.node.conditions.iter().map(|each| types::Condition {
        r#type: each.type_.to_string(),
        status: each.status.to_string(),
        reason: String::new(),
    });
    of_claim.chain(of_node).collect()
}

fn summary(report: &NodeReport, command: Option<&Command>) -> String {
    let name = &report.node.name;
    match (command, report.blocked.first()) {
        (Some(command), _) => format!("Node {name} is part of command {}: {}", command.id, state(command)),
        (None, Some(blocked)) => format!("Node {name} stays: {blocked}."),
        (None, None) if report.costs.is_empty() => {
            format!("Node {name} may go now: nothing on it has to move.")
        }
        (None, None) => format!("Node {name} may be disrupted now; nothing protects it."),
    }
}

fn state(command: &Command) -> String {
    if command.detail.is_empty() { format!("{:?}", phase(command.stage)) } else { command.detail.clone() }
}

fn phase(stage: Stage) -> pb::CommandPhase {
    match stage {
        Stage::Proposed => pb::CommandPhase::Validating,
        Stage::Taking | Stage::Settling | Stage::Ordering | Stage::Waiting => pb::CommandPhase::Replacing,
        Stage::Removing => pb::CommandPhase::Removing,
        Stage::Done => pb::CommandPhase::Done,
        Stage::RollingBack | Stage::RolledBack => pb::CommandPhase::RolledBack,
    }
}

fn wire(command: &Command) -> pb::Command {
    pb::Command {
        id: command.id.to_string(),
        reason: command.reason().as_str().to_owned(),
        method: command.method().as_str().to_owned(),
        phase: phase(command.stage).into(),
        remove_nodes: command.members().iter().map(|member| member.node.to_string()).collect(),
        replacements: command
            .ordered
            .iter()
            .map(|(name, uid)| types::ObjectRef { name: name.to_string(), uid: uid.to_string() })
            .collect(),
        saving_micro_usd_per_hour: command.proposal.saving.get(),
        pods_moved: command.proposal.pods_moved,
        proposed_at: Some(timestamp(command.proposed)),
        changed_at: Some(timestamp(command.changed)),
        detail: command.detail.clone(),
        payback_seconds: command.proposal.payback.as_secs(),
        realised_micro_usd_per_hour: command.realised.map(|realised| realised.saving.get()),
        extra_nodes: command.realised.map_or(0, |realised| realised.extra_nodes),
    }
}

fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

//! The steps of a command towards the removal of its nodes.

use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use policy::Reason;
use policy::candidate::{self, Resident};
use policy::command::Why;
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use tonic::Status;
use tracing::{Instrument as _, info, warn};

use super::execution::{FRESH, wait_of};
use super::{Actor, Done, Live, plus};
use crate::candidates;
use crate::cluster::applied;
use crate::command::{Command, Direction, Looked, Member, Purpose, pause};
use crate::command_writes;
use crate::metrics::Disrupted;
use crate::simulation;
use crate::writes::Target;

/// Nodes whose pods are read at the same time.
const READS_AT_ONCE: usize = 32;

impl Actor {
    /// Notes and taints. From here on the command is in the objects.
    pub(super) fn take(&mut self, id: &Arc<str>, claims: &[Arc<str>], now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        if !std::mem::replace(&mut command.begun, true) {
            let due = plus(command.proposed, wait_of(command, self.options.validation_wait));
            self.metrics.taint_delay.observe(now.duration_since(due).as_secs_f64().max(0.0));
            info!(command = command.text(), "disrupting nodes");
            self.metrics.decided(command);
            for member in command.members() {
                let (node, claim) = (self.cluster.node(&member.node), self.cluster.claim(&member.claim));
                self.events.initiated((node.map(|n| &**n), claim.map(|c| &**c)), &command.text());
            }
        }
        let note: Arc<str> = command.note().write().into();
        self.write_members(id, claims, Purpose::Trace, move |writes, member| {
            let note = Arc::clone(&note);
            async move { command_writes::on(&writes, &member, &note).await }
        });
    }

    /// The reason, from which on the provisioner counts the nodes as removed.
    pub(super) fn mark_members(&mut self, id: &Arc<str>, claims: &[Arc<str>], now: Timestamp) {
        let Some(reason) = self.commands.get(id).map(Command::reason) else { return };
        self.write_members(id, claims, Purpose::Trace, move |writes, member| async move {
            Ok(vec![command_writes::mark(&writes, &member, reason, now).await?])
        });
    }

    /// One write for each of these members, all at once.
    pub(super) fn write_members<F>(
        &mut self,
        id: &Arc<str>,
        claims: &[Arc<str>],
        purpose: Purpose,
        write: impl Fn(crate::writes::Writes, Member) -> F,
    ) where
        F: Future<Output = Result<Vec<crate::cluster::Fact>, crate::writes::Error>> + Send + 'static,
    {
        let Some(command) = self.commands.get_mut(id) else { return };
        let members: Vec<Member> = claims.iter().filter_map(|claim| command.member(claim)).cloned().collect();
        command.open = members.len();
        for member in members {
            let (id, claim) = (Arc::clone(id), Arc::clone(&member.claim));
            let written = write(self.writes.clone(), member);
            let task = async move { Done::Wrote { id, claim, purpose, result: written.await } };
            self.tasks.spawn(task.instrument(command.span.clone()));
        }
    }

    pub(super) fn order(&mut self, id: &Arc<str>) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = 1;
        let object = |member: &Member| types::ObjectRef {
            name: member.claim.to_string(),
            uid: member.claim_uid.to_string(),
        };
        let request = pb::CreateReplacementsRequest {
            command_id: command.id.to_string(),
            replaces: command.members().iter().map(object).collect(),
            nodes: command.proposal.planned.clone(),
            reason: command.reason().as_str().to_owned(),
        };
        let (probes, id, span) = (self.probes.clone(), Arc::clone(id), command.span.clone());
        let order = async move {
            let result = probes.replace(request).await;
            Done::Ordered { id, result }
        };
        self.tasks.spawn(order.instrument(span));
    }

    pub(super) fn ordered(
        &mut self,
        id: &Arc<str>,
        result: Result<Vec<types::ObjectRef>, Status>,
        now: Timestamp,
    ) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = 0;
        match result {
            Ok(made) => {
                command.refused_orders = 0;
                command.ordered = made.into_iter().map(|made| (made.name.into(), made.uid.into())).collect();
            }
            Err(status) if simulation::is_about_a_node(&status) => {
                let error = status.message().to_owned();
                command.memory.giving_up = Some(Why::ReplacementRefused { error });
            }
            Err(status) => {
                command.refused_orders += 1;
                let pause = pause(command.refused_orders);
                warn!(command = %id, error = status.message(), retry_in = %pause, "replacements not ordered");
                command.hold = Some(plus(now, pause));
            }
        }
    }

    /// Reads pods from the API server, not from a watch, in a state that has what was written on the members: not older than the
    /// newest version of node and claim that is known here.
    pub(super) fn read_pods(&mut self, id: &Arc<str>, claims: &[Arc<str>]) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = 1;
        let version = |member: &Member| {
            let node = self.cluster.node(&member.node).map(|node| node.resource_version.as_str());
            let claim = self.cluster.claim(&member.claim).map(|claim| claim.resource_version.as_str());
            node.into_iter().chain(claim).filter_map(|version| version.parse::<u64>().ok()).max()
        };
        let members: Vec<(Member, Option<u64>)> = claims
            .iter()
            .filter_map(|claim| command.member(claim))
            .map(|member| (member.clone(), version(member)))
            .collect();
        let (writes, id, span) = (self.writes.clone(), Arc::clone(id), command.span.clone());
        let read = async move {
            let reads = futures::stream::iter(members).map(|(member, version)| {
                let writes = writes.clone();
                async move {
                    let pods = writes.pods_on(&member.node, version).await;
                    Live { claim: Arc::clone(&member.claim), pods }
                }
            });
            Done::Read { id, pods: reads.buffer_unordered(READS_AT_ONCE).collect().await }
        };
        self.tasks.spawn(read.instrument(span));
    }

    pub(super) fn read(&mut self, id: &Arc<str>, pods: Vec<Live>, now: Timestamp) {
        let pdbs = self.cluster.pdbs();
        let mut found = Vec::new();
        let mut failed = Vec::new();
        for Live { claim, pods } in pods {
            let (at, pods) = match pods {
                Ok(read) => read,
                Err(error) => {
                    failed.push((claim, error));
                    continue;
                }
            };
            let pods: Vec<Arc<Resident>> = pods.iter().filter_map(|pod| self.cluster.read_pod(pod)).collect();
            let Some(command) = self.commands.get(id) else { return };
            let Some(member) = command.member(&claim) else { continue };
            let Some(node) = self.cluster.node(&member.node) else { continue };
            let mut subject =
                candidates::subject(&self.cluster, node, self.seen.get(&node.name), None, None, now);
            subject.pods = pods;
            let obstacle = candidate::still_free(&subject, command.method(), &pdbs, now).err();
            let known =
                |pod: &&Arc<Resident>| member.pods.as_ref().is_none_or(|known| known.contains(&pod.pod.uid));
            let moving = subject.pods.iter().filter(|pod| pod.is_reschedulable() && pod.eviction_cost > 0);
            let newcomers = moving.filter(|pod| !known(pod)).map(|pod| pod.pod.key()).collect();
            found.push((claim, Looked { at, obstacle, newcomers }));
        }
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = 0;
        for (claim, error) in failed {
            let pause = command.failed(Direction::Forward, &claim, &error);
            warn!(command = %id, nodeclaim = %claim, %error, retry_in = %pause, "pods not read");
            command.hold = command.hold.max(Some(plus(now, pause)));
        }
        let stale = found.iter().any(|(_, looked)| plus(looked.at, FRESH) < now);
        command.memory.stale_reads = if stale { command.memory.stale_reads.saturating_add(1) } else { 0 };
        if stale {
            command.hold = command.hold.max(Some(plus(now, pause(command.memory.stale_reads))));
        }
        for (claim, looked) in found {
            command.succeeded(Direction::Forward, &claim);
            command.found.insert(claim, looked);
        }
    }

    /// The step that cannot be taken back.
    pub(super) fn remove(&mut self, id: &Arc<str>, claims: &[Arc<str>]) {
        let command = Arc::clone(id);
        self.write_members(id, claims, Purpose::Removal, move |writes, member| {
            let command = Arc::clone(&command);
            async move {
                let target = Target { name: &member.claim, uid: &member.claim_uid };
                let object = writes.delete_claim_of(target, &command).await?;
                Ok(object.map(applied).into_iter().collect())
            }
        });
    }

    pub(super) fn removed(&mut self, id: &Arc<str>, claim: &Arc<str>, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.deleted.insert(Arc::clone(claim));
        let Some(member) = command.member(claim).cloned() else { return };
        let reason = command.reason();
        let (node, object) = (self.cluster.node(&member.node), self.cluster.claim(claim));
        self.events.terminating((node.map(|n| &**n), object.map(|c| &**c)), reason.as_str());
        let labels = Disrupted {
            reason: reason.label(),
            nodepool: member.pool.to_string(),
            capacity_type: member.capacity_type.to_string(),
        };
        self.metrics.disrupted(&labels);
        self.node_backoff.succeeded(&member.node);
        if command.needs > 0 {
            self.resting.succeeded(&member.pool);
        }
        if command.reason() == Reason::Underutilized {
            self.consolidated.insert(Arc::clone(&member.pool), now);
        }
    }
}

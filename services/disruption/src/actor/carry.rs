//! Carrying commands out, one step of [`policy::command::next_step`] at a time.
//!
//! Every step may be done twice, because a process may die after any of them; whoever leads next finds the step in the
//! objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::Reason;
use policy::candidate::{self, Resident};
use policy::command::{self, Invalid, Replacement, Step, Timing, View, Waiting, Why, next_step};
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use tonic::Status;
use tracing::{Instrument as _, info, warn};

use super::{Actor, Done, Live, REMEMBERED, plus};
use crate::candidates;
use crate::command::{Command, Looked, Member, Stage};
use crate::metrics::{Cause, Decided, DecidedFor, Disrupted};
use crate::search;
use crate::take;
use crate::world::{Fact, applied};
use crate::writes::{Error, Target};

const RETRY: SignedDuration = SignedDuration::from_secs(1);
/// How old the last reading of the pods may be when claims are deleted.
const FRESH: SignedDuration = SignedDuration::from_secs(2);

impl Actor {
    pub(super) fn carry_on(&mut self, now: Timestamp) {
        let ids: Vec<Arc<str>> = self.commands.keys().cloned().collect();
        for id in ids {
            self.carry(&id, now);
        }
        while self.ended.front().is_some_and(|old| plus(old.changed, REMEMBERED) < now) {
            self.ended.pop_front();
        }
    }

    fn timing(&self) -> Timing {
        let queued =
            self.commands.values().filter(|command| !command.is_over()).map(|c| c.members().len()).sum();
        Timing {
            validation: self.options.validation_wait,
            settle: self.options.settle_wait,
            fresh: FRESH,
            timeout: command::timeout(queued),
        }
    }

    fn carry(&mut self, id: &Arc<str>, now: Timestamp) {
        let Some(command) = self.commands.get(id) else { return };
        if command.is_over() {
            return self.close(id);
        }
        if command.open > 0 || command.hold.is_some_and(|hold| now < hold) {
            return;
        }
        if command.stage == Stage::Proposed
            && command.memory.giving_up.is_none()
            && command.wake.is_some_and(|wake| now < wake)
        {
            return;
        }
        self.notice_taints(id, now);
        let step = next_step(&self.view(id), &self.timing(), now);
        match step {
            Step::Wait { until, what } => self.waits(id, until, what, now),
            Step::Validate => self.check(id, now),
            Step::Take(claims) => self.take(id, &claims, now),
            Step::Look => self.read_pods(id, now),
            Step::Replace => self.order(id, now),
            Step::Delete(claims) => self.remove(id, &claims, now),
            Step::Drop(claims) => self.drop_unused(id, &claims, now),
            Step::Undo { claims, why } => self.undo(id, &claims, &why, now),
            Step::Done => {
                if let Some(command) = self.commands.get_mut(id) {
                    command.enter(Stage::Done, "", now);
                    info!(command = command.text(), "nodeclaims deleted; termination drains them");
                }
                self.dirty = true;
                self.changed();
            }
            Step::RolledBack(why) => {
                self.given_up(id, &why, now);
                if let Some(command) = self.commands.get_mut(id) {
                    command.enter(Stage::RolledBack, why.to_string(), now);
                }
                self.dirty = true;
                self.changed();
            }
        }
    }

    /// Ended, and the world knows: a claim that was deleted must not look like one with a forgotten taint.
    fn close(&mut self, id: &Arc<str>) {
        let known = self.commands.get(id).is_some_and(|command| {
            command.stage == Stage::RolledBack
                || command.members().iter().all(|member| {
                    self.world
                        .claim(&member.claim)
                        .is_none_or(|claim| claim.deleting || claim.uid != member.claim_uid)
                })
        });
        if known && let Some(command) = self.commands.remove(id) {
            self.ended.push_back(command);
            self.dirty = true;
            self.changed();
        }
    }

    /// The command as the objects show it.
    fn view(&self, id: &Arc<str>) -> View {
        let command = &self.commands[id];
        let mut replacements: Vec<Replacement> = Vec::new();
        for claim in self.world.claims_of(id).filter(|claim| claim.made_for.as_ref() == Some(id)) {
            let node = self.world.node_of(claim);
            replacements.push(Replacement {
                claim: Arc::clone(&claim.name),
                leaving: claim.deleting || command.deleted.contains(&claim.name),
                initialized: claim.initialized_since(),
                used: node.is_some_and(|node| {
                    self.world.pods_on(&node.name).any(|pod| pod.resident.is_reschedulable())
                }),
            });
        }
        // Ordered, and the watch has not told yet, or not any more.
        for claim in command.ordered.keys() {
            if !replacements.iter().any(|known| known.claim == *claim) {
                let leaving = self.seen_claims.contains(claim);
                replacements.push(Replacement {
                    claim: Arc::clone(claim),
                    leaving,
                    initialized: None,
                    used: true,
                });
            }
        }
        let ordered = replacements.len() >= command.needs;
        let members = command.members().iter().filter_map(|member| {
            let claim = self.world.claim(&member.claim).filter(|claim| claim.uid == member.claim_uid)?;
            let node = self.world.node_of(claim);
            let found = command.found.get(&member.claim);
            let noted = claim.note.as_ref().is_some_and(|note| *note.id == **id);
            let tainted = node.is_some_and(|node| node.tainted);
            Some(command::Member {
                node: Arc::clone(&member.node),
                claim: Arc::clone(&member.claim),
                leaving: claim.deleting
                    || node.is_some_and(|node| node.deleting)
                    || command.deleted.contains(&member.claim),
                noted,
                tainted,
                // A claim says that it goes only when its replacements are there: earlier, the provisioner would make
                // nodes for the same pods.
                marked: claim.disruption_reason().is_some() || (noted && tainted && !ordered),
                obstacle: found.and_then(|found| found.obstacle.clone()),
                newcomers: found.map(|found| found.newcomers.clone()).unwrap_or_default(),
            })
        });
        View {
            method: command.method(),
            removes: command.removes,
            needs: command.needs,
            proposed: command.proposed,
            members: members.collect(),
            replacements,
            looked: command.looked,
            memory: command.memory.clone(),
        }
    }

    fn notice_taints(&mut self, id: &Arc<str>, now: Timestamp) {
        for name in self.commands[id].ordered.keys().cloned().collect::<Vec<_>>() {
            if self.world.claim(&name).is_some() {
                self.seen_claims.insert(name);
            }
        }
        let command = &self.commands[id];
        let tainted = command.memory.tainted.is_none()
            && command.members().iter().all(|member| {
                let node = self.world.claim(&member.claim).and_then(|claim| self.world.node_of(claim));
                node.is_none_or(|node| node.tainted)
            });
        if tainted && let Some(command) = self.commands.get_mut(id) {
            command.memory.tainted = Some(now);
        }
    }

    fn waits(&mut self, id: &Arc<str>, until: Option<Timestamp>, what: Waiting, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        let stage = match what {
            Waiting::SecondLook => Stage::Proposed,
            Waiting::Scheduler => Stage::Settling,
            Waiting::Replacements => Stage::Waiting,
        };
        let changed = command.stage != stage;
        command.enter(stage, what.words(), now);
        command.wake = until;
        let reason = command.reason();
        if what == Waiting::Replacements {
            for claim in command.ordered.keys().filter_map(|name| self.world.claim(name)) {
                self.events.launching(claim, &format!("Replacement for disruption, reason {reason}"));
                if !claim.is_initialized() {
                    self.events.waiting(claim);
                }
            }
        }
        if changed {
            self.changed();
        }
    }

    /// Notes, taints, and, when the replacements are there, the reason. From here on the command is in the objects.
    fn take(&mut self, id: &Arc<str>, claims: &[Arc<str>], now: Timestamp) {
        let ordered = self.view(id).replacements.len() >= self.commands[id].needs;
        let Some(command) = self.commands.get_mut(id) else { return };
        if command.stage == Stage::Proposed {
            let due = plus(command.proposed, wait_of(command, self.options.validation_wait));
            self.metrics.taint_delay.observe(now.duration_since(due).as_secs_f64().max(0.0));
            info!(command = command.text(), "disrupting nodes");
            self.metrics.decided(command);
        }
        command.enter(Stage::Taking, "tainting its nodes", now);
        let note: Arc<str> = command.note().write().into();
        let reason = ordered.then(|| command.reason());
        let members: Vec<Member> = claims.iter().filter_map(|claim| command.member(claim)).cloned().collect();
        command.open = members.len();
        let span = command.span.clone();
        for member in members {
            let (writes, id, note) = (self.writes.clone(), Arc::clone(id), Arc::clone(&note));
            let write = async move {
                let result = take::on(&writes, &member, &note, reason, now).await;
                Done::Wrote { id, claim: Arc::clone(&member.claim), result }
            };
            self.tasks.spawn(write.instrument(span.clone()));
        }
        self.changed();
    }

    pub(super) fn wrote(
        &mut self,
        id: &Arc<str>,
        claim: &Arc<str>,
        result: Result<Vec<Fact>, Error>,
        now: Timestamp,
    ) {
        let failed = match result {
            Ok(facts) => {
                for fact in facts {
                    self.learn(fact);
                }
                None
            }
            // Somebody else removed it: one less to do.
            Err(Error::Gone) => None,
            Err(error) => Some(error),
        };
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = command.open.saturating_sub(1);
        match failed {
            Some(error) => {
                warn!(command = %id, nodeclaim = %claim, %error, stage = ?command.stage, "write failed; trying again");
                command.deleted.remove(claim);
                command.hold = Some(plus(now, RETRY));
            }
            None if command.stage == Stage::Removing => self.removed(id, claim, now),
            None if command.stage == Stage::RollingBack && command.method().may_shrink() => {
                // It stays, and the others go on without it.
                if let Some(command) = self.commands.get_mut(id)
                    && command.memory.giving_up.is_none()
                {
                    command.proposal.members.retain(|member| member.claim != *claim);
                }
            }
            None => {}
        }
    }

    fn order(&mut self, id: &Arc<str>, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.enter(Stage::Ordering, "ordering replacements", now);
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
        self.changed();
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
                command.ordered = made.into_iter().map(|made| (made.name.into(), made.uid.into())).collect();
            }
            Err(status) if search::is_about_a_node(&status) => {
                let refused =
                    Invalid::Scheduling(format!("its replacements were refused: {}", status.message()));
                command.memory.giving_up = Some(Why::Invalid(refused));
            }
            Err(status) => {
                warn!(command = %id, error = status.message(), "replacements not ordered; again soon");
                command.hold = Some(plus(now, RETRY));
            }
        }
    }

    /// The last look, at what the API server has and not at what a watch last heard.
    fn read_pods(&mut self, id: &Arc<str>, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        if command.stage != Stage::Waiting {
            command.enter(Stage::Settling, "reading its pods once more", now);
        }
        command.open = 1;
        let members: Vec<Member> = command.members().to_vec();
        let (writes, id, span) = (self.writes.clone(), Arc::clone(id), command.span.clone());
        let read = async move {
            let reads = members.into_iter().map(|member| {
                let writes = writes.clone();
                async move { (Arc::clone(&member.claim), writes.pods_on(&member.node).await) }
            });
            Done::Read { id, at: now, pods: futures::future::join_all(reads).await }
        };
        self.tasks.spawn(read.instrument(span));
    }

    pub(super) fn read(&mut self, id: &Arc<str>, at: Timestamp, pods: Vec<Live>, now: Timestamp) {
        let pdbs = self.world.pdbs();
        let mut found = Vec::new();
        for (claim, pods) in pods {
            let pods = match pods {
                Ok(pods) => pods,
                Err(error) => {
                    warn!(command = %id, nodeclaim = %claim, %error, "pods not read; again soon");
                    let Some(command) = self.commands.get_mut(id) else { return };
                    command.open = 0;
                    command.hold = Some(plus(now, RETRY));
                    return;
                }
            };
            let pods: Vec<Arc<Resident>> = pods.iter().filter_map(|pod| self.world.read_pod(pod)).collect();
            let Some(command) = self.commands.get(id) else { return };
            let Some(member) = command.member(&claim) else { continue };
            let Some(node) = self.world.node(&member.node) else { continue };
            let mut subject =
                candidates::subject(&self.world, node, self.seen.get(&node.name), None, None, now);
            subject.pods = pods;
            let obstacle = candidate::still_free(&subject, command.method(), &pdbs, now).err();
            let known =
                |pod: &&Arc<Resident>| member.pods.as_ref().is_none_or(|known| known.contains(&pod.pod.uid));
            let moving = subject.pods.iter().filter(|pod| pod.is_reschedulable() && pod.eviction_cost > 0);
            let newcomers = moving.filter(|pod| !known(pod)).map(|pod| pod.pod.key()).collect();
            found.push((claim, Looked { obstacle, newcomers }));
        }
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = 0;
        command.looked = Some(at);
        command.found = found.into_iter().collect();
    }

    /// The step that cannot be taken back.
    fn remove(&mut self, id: &Arc<str>, claims: &[Arc<str>], now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.enter(Stage::Removing, "", now);
        let members: Vec<Member> = claims.iter().filter_map(|claim| command.member(claim)).cloned().collect();
        command.open = members.len();
        let span = command.span.clone();
        for member in members {
            let (writes, id) = (self.writes.clone(), Arc::clone(id));
            let delete = async move {
                let target = Target { name: &member.claim, uid: &member.claim_uid };
                let result = writes.delete_claim_of(target, &id).await;
                let facts = result.map(|object| object.map(applied).into_iter().collect());
                Done::Wrote { id, claim: member.claim, result: facts }
            };
            self.tasks.spawn(delete.instrument(span.clone()));
        }
        self.changed();
    }

    fn removed(&mut self, id: &Arc<str>, claim: &Arc<str>, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.deleted.insert(Arc::clone(claim));
        let Some(member) = command.member(claim).cloned() else { return };
        let reason = command.reason();
        let (node, object) = (self.world.node(&member.node), self.world.claim(claim));
        self.events.terminating((node.map(|n| &**n), object.map(|c| &**c)), reason.as_str());
        let labels = Disrupted {
            reason: reason.label(),
            nodepool: member.pool.to_string(),
            capacity_type: member.capacity_type.to_string(),
        };
        self.metrics.disrupted.get_or_create(&labels).inc();
        if command.needs > 0 {
            self.resting.succeeded(&member.pool);
        }
        if command.reason() == Reason::Underutilized {
            self.consolidated.insert(Arc::clone(&member.pool), now);
        }
    }

    /// Says once that a command is taken back, and why.
    fn given_up(&mut self, id: &Arc<str>, why: &Why, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        if command.stage == Stage::RollingBack {
            return;
        }
        let begun = command.stage != Stage::Proposed;
        command.memory.giving_up.get_or_insert_with(|| why.clone());
        let command = &self.commands[id];
        for member in command.members() {
            let (node, claim) = (self.world.node(&member.node), self.world.claim(&member.claim));
            let about = (node.map(|n| &**n), claim.map(|c| &**c));
            let text = command::member_text(&member.node, command.members().len(), command.needs);
            match why {
                Why::Invalid(invalid) if !begun => {
                    let words = format!("{} ({})", invalid, invalid.category());
                    self.events.rejected(about, &text, &words);
                }
                _ => self.events.rolled_back(about, &text, &why.to_string()),
            }
        }
        if !begun {
            info!(command = command.text(), %why, "did not hold at the second look");
            return;
        }
        warn!(command = command.text(), %why, "taken back");
        self.metrics.rolled_back.get_or_create(&Cause { cause: why.rule() }).inc();
        let ready = |name: &Arc<str>| self.world.claim(name).is_some_and(|claim| claim.is_initialized());
        let unready = command.ordered.keys().filter(|name| !ready(name)).count();
        if unready > 0 {
            let labels = decided(command);
            self.metrics.queue_failures.get_or_create(&labels).inc_by(unready as u64);
        }
        // A pool whose new nodes do not come up must not have its old ones tried one after the other.
        if why.is_failure() {
            let pools: BTreeSet<Arc<str>> =
                command.members().iter().map(|member| Arc::clone(&member.pool)).collect();
            for pool in pools {
                let jitter = self.random();
                let until = self.resting.failed(&pool, jitter, now);
                info!(nodepool = %pool, %until, failures = self.resting.failures(&pool), "rests before new nodes are tried again");
            }
        }
    }

    fn drop_unused(&mut self, id: &Arc<str>, claims: &[Arc<str>], now: Timestamp) {
        let why = self
            .commands
            .get(id)
            .and_then(|command| command.memory.giving_up.clone())
            .unwrap_or(Why::Abandoned);
        self.given_up(id, &why, now);
        let targets: Vec<(Arc<str>, Arc<str>)> = claims
            .iter()
            .filter_map(|name| Some((Arc::clone(name), Arc::clone(&self.world.claim(name)?.uid))))
            .collect();
        let Some(command) = self.commands.get_mut(id) else { return };
        command.enter(Stage::RollingBack, why.to_string(), now);
        command.open = targets.len();
        command.deleted.extend(claims.iter().cloned());
        let members: Arc<[Member]> = command.members().into();
        for (name, uid) in targets {
            let (writes, id, members) = (self.writes.clone(), Arc::clone(id), Arc::clone(&members));
            let delete = async move {
                let result = async {
                    let mut facts = Vec::new();
                    for member in &*members {
                        match take::unmark(&writes, member, now).await {
                            Ok(fact) => facts.push(fact),
                            Err(Error::Gone) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    let dropped = writes.delete_claim(Target { name: &name, uid: &uid }).await?;
                    facts.extend(dropped.map(applied));
                    Ok(facts)
                };
                let result = result.await;
                Done::Wrote { id, claim: name, result }
            };
            self.tasks.spawn(delete.instrument(command.span.clone()));
        }
        self.changed();
    }

    fn undo(&mut self, id: &Arc<str>, claims: &[Arc<str>], why: &Why, now: Timestamp) {
        let Some(command) = self.commands.get(id) else { return };
        let partly = command.method().may_shrink() && claims.len() < command.members().len();
        if partly && command.memory.giving_up.is_none() {
            info!(command = %id, %why, nodes = claims.len(), "some of its nodes stay");
            for member in claims.iter().filter_map(|claim| command.member(claim)) {
                let (node, claim) = (self.world.node(&member.node), self.world.claim(&member.claim));
                let text = command::member_text(&member.node, 1, 0);
                self.events.rolled_back((node.map(|n| &**n), claim.map(|c| &**c)), &text, &why.to_string());
            }
        } else {
            self.given_up(id, why, now);
        }
        let Some(command) = self.commands.get_mut(id) else { return };
        command.enter(Stage::RollingBack, why.to_string(), now);
        let members: Vec<Member> = claims.iter().filter_map(|claim| command.member(claim)).cloned().collect();
        command.open = members.len();
        for member in members {
            let (writes, id) = (self.writes.clone(), Arc::clone(id));
            let write = async move {
                let result = take::off(&writes, &member, now).await;
                Done::Wrote { id, claim: member.claim, result }
            };
            self.tasks.spawn(write.instrument(command.span.clone()));
        }
        self.changed();
    }
}

/// The wait before the second look.
pub(super) fn wait_of(command: &Command, wait: SignedDuration) -> SignedDuration {
    if command.method().validation_seconds() > 0 { wait } else { SignedDuration::ZERO }
}

fn decided(command: &Command) -> Decided {
    Decided {
        decision: command.decision(),
        reason: command.reason().label(),
        consolidation_type: command.method().consolidation_type(),
    }
}

impl crate::metrics::Metrics {
    /// Counts a decision that is carried out.
    fn decided(&self, command: &Command) {
        let Decided { decision, reason, consolidation_type } = decided(command);
        self.decisions.get_or_create(&Decided { decision, reason, consolidation_type }).inc();
        let pools: BTreeSet<&Arc<str>> = command.members().iter().map(|member| &member.pool).collect();
        for pool in pools {
            let labels = DecidedFor { nodepool: pool.to_string(), decision, reason, consolidation_type };
            self.decisions_by_pool.get_or_create(&labels).inc();
        }
    }
}

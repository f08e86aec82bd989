//! Carrying commands out, one step of [`policy::command::next_step`] at a time.
//!
//! Every step may be done twice, because a process may die after any of them; the next leader finds the step in the objects.
//! `progress` has the steps forward, `rollback` those back; here is what they have in common: the command as the objects show
//! it, and what becomes of its writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::command::{self, Replacement, Step, Timing, View, Waiting, next_step};
use tracing::{info, warn};

use super::{Actor, MOST_REMEMBERED, REMEMBERED, plus};
use crate::cluster::Fact;
use crate::command::{Command, Direction, Purpose, Stage};
use crate::metrics::{Decided, DecidedFor, Outcome};
use crate::writes::Error;

/// How old the last reading of a node's pods may be when its claim is deleted.
pub(super) const FRESH: SignedDuration = SignedDuration::from_secs(5);

impl Actor {
    pub(super) fn carry_on(&mut self, now: Timestamp) {
        let ids: Vec<Arc<str>> = self.commands.keys().cloned().collect();
        for id in ids {
            self.carry(&id, now);
        }
        while self.ended.len() > MOST_REMEMBERED
            || self.ended.front().is_some_and(|old| plus(old.changed, REMEMBERED) < now)
        {
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
        if command.memory.giving_up.is_none() && command.second_look.is_some_and(|at| now < at) {
            return;
        }
        if let Some(command) = self.commands.get_mut(id) {
            (command.hold, command.wake, command.second_look) = (None, None, None);
        }
        self.notice(id, now);
        let view = self.view(&self.commands[id]);
        let step = next_step(&view, &self.timing(), now);
        let (stage, words) = (step.stage(&view), step.words());
        match step {
            Step::Wait { until, what } => self.waits(id, until, what),
            Step::Validate => self.check(id, now),
            Step::Take(claims) => self.take(id, &claims, now),
            Step::Look(claims) => self.read_pods(id, &claims),
            Step::Replace => self.order(id),
            Step::Mark(claims) => self.mark_members(id, &claims, now),
            Step::Delete(claims) => self.remove(id, &claims),
            Step::Drop { claims, why } => self.drop_unused(id, &claims, &why, now),
            Step::Undo { claims, why } => self.undo(id, &claims, &why, now),
            Step::Release { claims, why } => self.release(id, &claims, &why, now),
            Step::Done => {
                self.open_account(id, now);
                let command = &self.commands[id];
                let used = u64::try_from(command.ordered.len()).unwrap_or(u64::MAX);
                self.metrics.replacements.get_or_create(&Outcome { outcome: "used" }).inc_by(used);
                info!(command = command.text(), "nodeclaims deleted; termination drains them");
                self.dirty = true;
            }
            Step::RolledBack(why) => {
                self.given_up(id, &why, now);
                self.tell_what_is_left(id, now);
                // Whatever comes for it from now on comes late.
                let known = view.replacements.into_iter().map(|made| made.claim);
                if let Some(command) = self.commands.get_mut(id) {
                    command.shown.extend(known);
                }
                self.dirty = true;
            }
        }
        if self.commands.get_mut(id).is_some_and(|command| command.show(stage, words, now)) {
            self.changed();
        }
    }

    /// Ended, and the cluster state knows: a claim that was deleted must not look like one with a forgotten taint.
    fn close(&mut self, id: &Arc<str>) {
        let known = self.commands.get(id).is_some_and(|command| {
            command.stage == Stage::RolledBack
                || command.members().iter().all(|member| {
                    self.cluster
                        .claim(&member.claim)
                        .is_none_or(|claim| claim.deleting || claim.uid != member.claim_uid)
                })
        });
        if known && let Some(command) = self.commands.remove(id) {
            // What is left of it, or came late, is nobody's from now on.
            self.touched.claims.extend(self.cluster.claims_of(id).map(|claim| Arc::clone(&claim.name)));
            self.ended.push_back(command);
            self.dirty = true;
            self.changed();
        }
    }

    /// The command as the objects show it.
    pub(super) fn view(&self, command: &Command) -> View {
        let id = &command.id;
        let stuck = |claim: &Arc<str>| command.refusal(Direction::Back, claim).is_some();
        let mut replacements: Vec<Replacement> = Vec::new();
        for claim in self.cluster.claims_of(id).filter(|claim| claim.made_for.as_ref() == Some(id)) {
            let node = self.cluster.node_of(claim);
            replacements.push(Replacement {
                claim: Arc::clone(&claim.name),
                leaving: claim.deleting || command.deleted.contains(&claim.name),
                initialized: claim.initialized_since(),
                used: node.is_some_and(|node| {
                    self.cluster.pods_on(&node.name).any(|pod| pod.resident.is_reschedulable())
                }),
                stuck: stuck(&claim.name),
            });
        }
        // Ordered, and the watch has not shown it yet, or not any more.
        for claim in command.ordered.keys() {
            if !replacements.iter().any(|known| known.claim == *claim) {
                let leaving = command.shown.contains(claim) || command.deleted.contains(claim);
                replacements.push(Replacement {
                    claim: Arc::clone(claim),
                    leaving,
                    initialized: None,
                    used: false,
                    stuck: stuck(claim),
                });
            }
        }
        let members = command.members().iter().filter_map(|member| {
            let claim = self.cluster.claim(&member.claim).filter(|claim| claim.uid == member.claim_uid)?;
            let node = self.cluster.node_of(claim).filter(|node| node.uid == member.node_uid);
            let found = command.found.get(&member.claim);
            Some(command::Member {
                node: Arc::clone(&member.node),
                claim: Arc::clone(&member.claim),
                leaving: claim.deleting
                    || node.is_some_and(|node| node.deleting)
                    || command.deleted.contains(&member.claim),
                noted: claim.note.as_ref().is_some_and(|note| *note.id == **id),
                tainted: node.is_some_and(|node| node.tainted),
                marked: claim.disruption_reason().is_some(),
                lost: node.is_none(),
                refused: command.refusal(Direction::Forward, &member.claim).map(str::to_owned),
                stuck: stuck(&member.claim),
                looked: found.map(|found| found.at),
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
            memory: command.memory.clone(),
        }
    }

    /// Remembers, by this process's clock, since when all members are tainted, and since when everything is ready.
    fn notice(&mut self, id: &Arc<str>, now: Timestamp) {
        let view = self.view(&self.commands[id]);
        let known: Vec<Arc<str>> = self.commands[id].ordered.keys().cloned().collect();
        let known: Vec<Arc<str>> =
            known.into_iter().filter(|name| self.cluster.claim(name).is_some()).collect();
        let Some(command) = self.commands.get_mut(id) else { return };
        command.shown.extend(known);
        let memory = &mut command.memory;
        let tainted = |member: &command::Member| member.leaving || member.lost || member.tainted;
        if memory.tainted.is_none() && view.members.iter().all(tainted) {
            memory.tainted = Some(now);
        }
        let initialized = view.replacements.iter().filter(|made| made.initialized.is_some()).count();
        let marked = view.members.iter().all(|member| member.leaving || member.marked);
        if memory.ready.is_none() && marked && initialized >= view.needs {
            (memory.ready, memory.stale_reads) = (Some(now), 0);
        }
    }

    fn waits(&mut self, id: &Arc<str>, until: Option<Timestamp>, what: Waiting) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.wake = until;
        command.second_look = until.filter(|_| what == Waiting::SecondLook);
        let reason = command.reason();
        if what == Waiting::Replacements {
            for claim in command.ordered.keys().filter_map(|name| self.cluster.claim(name)) {
                self.events.launching(claim, &format!("Replacement for disruption, reason {reason}"));
                if !claim.is_initialized() {
                    self.events.waiting(claim);
                }
            }
        }
    }

    pub(super) fn wrote(
        &mut self,
        id: &Arc<str>,
        claim: &Arc<str>,
        purpose: Purpose,
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
            Err(error) => Some(error),
        };
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = command.open.saturating_sub(1);
        let to = purpose.direction();
        if let Some(error) = failed {
            let pause = command.failed(to, claim, &error);
            warn!(command = %id, nodeclaim = %claim, %error, ?purpose, retry_in = %pause, "write failed");
            command.deleted.remove(claim);
            command.hold = command.hold.max(Some(plus(now, pause)));
            if purpose == Purpose::Release && command.refusal(to, claim).is_some() {
                self.leave_behind(id, claim, now);
                self.let_go(id, claim);
            }
            return;
        }
        command.succeeded(to, claim);
        match purpose {
            Purpose::Trace => {}
            Purpose::Removal => self.removed(id, claim, now),
            Purpose::Undo => self.left_behind.succeeded(claim),
            Purpose::Release => self.let_go(id, claim),
            Purpose::Drop => {
                self.metrics.replacements.get_or_create(&Outcome { outcome: "dropped" }).inc();
            }
        }
    }

    /// The command goes on without the member.
    fn let_go(&mut self, id: &Arc<str>, claim: &Arc<str>) {
        if let Some(command) = self.commands.get_mut(id) {
            command.release(claim);
        }
    }
}

/// The wait before the second look.
pub(super) fn wait_of(command: &Command, wait: SignedDuration) -> SignedDuration {
    if command.method().validation_seconds() > 0 { wait } else { SignedDuration::ZERO }
}

pub(super) fn decided(command: &Command) -> Decided {
    Decided {
        decision: command.decision(),
        reason: command.reason().label(),
        consolidation_type: command.method().consolidation_type(),
    }
}

impl crate::metrics::Metrics {
    /// Counts a decision that is carried out.
    pub(super) fn decided(&self, command: &Command) {
        let Decided { decision, reason, consolidation_type } = decided(command);
        self.decisions.get_or_create(&Decided { decision, reason, consolidation_type }).inc();
        let pools: BTreeSet<&Arc<str>> = command.members().iter().map(|member| &member.pool).collect();
        for pool in pools {
            let labels = DecidedFor { nodepool: pool.to_string(), decision, reason, consolidation_type };
            self.decisions_by_pool.get_or_create(&labels).inc();
        }
    }
}

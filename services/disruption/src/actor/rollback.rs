//! The steps of a command that is taken back: what is said about it, its unused replacements, and its traces.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use policy::command::{self, Why};
use tracing::{Instrument as _, info, warn};

use super::execution::decided;
use super::{Actor, Done, NotCancelled};
use crate::cluster::{Claim, NodeState, applied};
use crate::command::{Command, Direction, Member, Purpose, Stage};
use crate::command_writes;
use crate::metrics::Cause;
use crate::writes::{Error, Target};

impl Actor {
    /// Takes a command back that a person does not want, while that is possible.
    pub(super) fn cancel(&mut self, id: &Arc<str>) -> Result<Command, NotCancelled> {
        if self.term.is_none() {
            return Err(NotCancelled::NotLeading);
        }
        let ended = self.ended.iter().any(|command| command.id == *id);
        let unknown = if ended { NotCancelled::TooLate } else { NotCancelled::Unknown };
        let command = self.commands.get_mut(id).ok_or(unknown)?;
        if matches!(command.stage, Stage::Removing | Stage::RollingBack | Stage::Done | Stage::RolledBack) {
            return Err(NotCancelled::TooLate);
        }
        command.memory.giving_up.get_or_insert(Why::Cancelled);
        command.hold = None;
        Ok(command.clone())
    }

    /// Says once that a command is taken back, and why.
    pub(super) fn given_up(&mut self, id: &Arc<str>, why: &Why, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        if std::mem::replace(&mut command.told_back, true) {
            return;
        }
        let begun = command.begun;
        command.memory.giving_up.get_or_insert_with(|| why.clone());
        let command = &self.commands[id];
        for member in command.members() {
            let (node, claim) = (self.cluster.node(&member.node), self.cluster.claim(&member.claim));
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
        let ready = |name: &Arc<str>| self.cluster.claim(name).is_some_and(|claim| claim.is_initialized());
        let unready = command.ordered.keys().filter(|name| !ready(name)).count();
        if unready > 0 {
            let labels = decided(command);
            self.metrics.queue_failures.get_or_create(&labels).inc_by(unready as u64);
        }
        // A pool whose new nodes do not come up, or are not used, must not have its old ones tried one after the other. Where
        // nothing was launched only the nodes concerned are left alone for a while.
        let launched = why.is_failure() || !command.ordered.is_empty();
        let pools: BTreeSet<Arc<str>> =
            command.members().iter().map(|member| Arc::clone(&member.pool)).collect();
        let nodes: Vec<Arc<str>> = command.members().iter().map(|member| Arc::clone(&member.node)).collect();
        for pool in pools.into_iter().filter(|_| launched) {
            let jitter = self.random();
            let until = self.resting.failed(&pool, jitter, now);
            info!(nodepool = %pool, %until, failures = self.resting.failures(&pool), "cools down before new nodes are tried again");
        }
        // That the process before ended says nothing about the nodes.
        for node in nodes.into_iter().filter(|_| *why != Why::Abandoned) {
            let jitter = self.random();
            self.node_backoff.failed(&node, jitter, now);
        }
    }

    pub(super) fn drop_unused(&mut self, id: &Arc<str>, claims: &[Arc<str>], why: &Why, now: Timestamp) {
        self.given_up(id, why, now);
        let Some(command) = self.commands.get(id) else { return };
        let uid = |name: &Arc<str>| {
            let ordered = || command.ordered.get(name).cloned();
            self.cluster.claim(name).map(|claim| Arc::clone(&claim.uid)).or_else(ordered)
        };
        let targets: Vec<(Arc<str>, Arc<str>)> =
            claims.iter().filter_map(|name| Some((Arc::clone(name), uid(name)?))).collect();
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = targets.len();
        command.deleted.extend(claims.iter().cloned());
        let members: Arc<[Member]> = command.members().into();
        for (name, uid) in targets {
            let (writes, id, members) = (self.writes.clone(), Arc::clone(id), Arc::clone(&members));
            let delete = async move {
                let result = async {
                    let mut facts = Vec::new();
                    for member in &*members {
                        match command_writes::unmark(&writes, member, now).await {
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
                Done::Wrote { id, claim: name, purpose: Purpose::Drop, result }
            };
            self.tasks.spawn(delete.instrument(command.span.clone()));
        }
    }

    pub(super) fn undo(&mut self, id: &Arc<str>, claims: &[Arc<str>], why: &Why, now: Timestamp) {
        self.given_up(id, why, now);
        self.take_off(id, claims, Purpose::Undo, now);
    }

    /// Some of its nodes stay; the others go on.
    pub(super) fn release(&mut self, id: &Arc<str>, claims: &[Arc<str>], why: &Why, now: Timestamp) {
        let Some(command) = self.commands.get(id) else { return };
        info!(command = %id, %why, nodes = claims.len(), "some of its nodes stay");
        let mut released = Vec::new();
        let first_time = |claim: &&Arc<str>| !command.has_failed(Direction::Back, claim);
        for member in claims.iter().filter(first_time).filter_map(|claim| command.member(claim)) {
            let text = command::member_text(&member.node, 1, 0);
            self.events.rolled_back(self.about(member), &text, &why.to_string());
            released.push(Arc::clone(&member.node));
        }
        for node in released {
            let jitter = self.random();
            self.node_backoff.failed(&node, jitter, now);
        }
        self.take_off(id, claims, Purpose::Release, now);
    }

    fn take_off(&mut self, id: &Arc<str>, claims: &[Arc<str>], purpose: Purpose, now: Timestamp) {
        self.write_members(id, claims, purpose, move |writes, member| async move {
            command_writes::off(&writes, &member, now).await
        });
    }

    fn about(&self, member: &Member) -> (Option<&NodeState>, Option<&Claim>) {
        let (node, claim) = (self.cluster.node(&member.node), self.cluster.claim(&member.claim));
        (node.map(|node| &**node), claim.map(|claim| &**claim))
    }

    /// What could not be taken back is not tried any more by this command, and says so.
    pub(super) fn tell_what_is_left(&mut self, id: &Arc<str>, now: Timestamp) {
        let view = self.view(&self.commands[id]);
        for made in view.replacements.iter().filter(|made| made.stuck && !made.leaving) {
            let (command, claim) = (&self.commands[id], self.cluster.claim(&made.claim));
            let Some(error) = command.refusal(Direction::Back, &made.claim) else { continue };
            warn!(command = %id, nodeclaim = %made.claim, error, "replacement not deleted; it stays as an ordinary node");
            if let Some(claim) = claim {
                self.events.replacement_kept(claim, id, error);
            }
        }
        for member in view.members.iter().filter(|member| member.stuck && !member.leaving) {
            self.leave_behind(id, &member.claim, now);
        }
    }

    /// The traces stay on the member for now. Its note tells of them, and they are tried again after a pause that grows.
    pub(super) fn leave_behind(&mut self, id: &Arc<str>, claim: &Arc<str>, now: Timestamp) {
        let jitter = self.random();
        let until = self.left_behind.failed(claim, jitter, now);
        self.due.at(Arc::clone(claim), until);
        let command = &self.commands[id];
        let Some(member) = command.member(claim) else { return };
        let error = command.refusal(Direction::Back, claim).unwrap_or_default();
        warn!(command = %id, node = %member.node, nodeclaim = %claim, error, %until, "taint and notes not taken off; again later");
        self.events.not_taken_back(self.about(member), id, error, until);
    }
}

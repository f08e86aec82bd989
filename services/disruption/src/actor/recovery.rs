//! What the leader before left: its commands, known from the notes on their claims, and taints and reasons that belong to
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::labels;
use model::price::MicroDollars;
use policy::Method;
use policy::command::{Member as Traces, Memory, Why, orphans, strays};
use tracing::info;

use super::{Actor, Done};
use crate::cluster::{Claim, applied};
use crate::command::{Command, Member, Proposal, Stage};
use crate::command_writes;
use crate::writes::Target;

impl Actor {
    /// Every claim with a note belongs to a command. Whether it goes on or back is `next_step`'s to say.
    pub(super) fn resume(&mut self, now: Timestamp) {
        let ids: Vec<Arc<str>> = self.cluster.commands().cloned().collect();
        for id in ids {
            self.resume_one(&id, now);
        }
    }

    fn resume_one(&mut self, id: &Arc<str>, now: Timestamp) {
        if self.commands.contains_key(id) {
            return;
        }
        let Some(mut command) = self.noted(id, now) else { return };
        let left = command.members().iter().any(|member| self.left_behind.failures(&member.claim) > 0);
        if left {
            // It was taken back before, whatever its notes allow.
            command.memory.giving_up = Some(Why::Abandoned);
        }
        info!(command = %id, nodes = command.members().len(), "takes over a command of the leader before");
        let method = command.method().as_str();
        command.span = tracing::info_span!(parent: None, "disrupt", command = %id, method, resumed = true);
        let first = command.members().first().and_then(|member| self.cluster.claim(&member.claim));
        if let Some(parent) = first.and_then(|claim| claim.traceparent()) {
            runtime::trace::set_parent(&command.span, parent);
        }
        self.commands.insert(Arc::clone(id), command);
        self.changed();
    }

    /// Every command that the objects tell of, for those who ask a replica that does not lead.
    pub(super) fn all_noted(&self, now: Timestamp) -> Vec<Command> {
        self.cluster.commands().filter_map(|id| self.noted(id, now)).collect()
    }

    /// A command as its notes tell it; `None` where all its claims are going already: termination does the rest.
    pub(super) fn noted(&self, id: &Arc<str>, now: Timestamp) -> Option<Command> {
        let noted: Vec<&Arc<Claim>> =
            self.cluster.claims_of(id).filter(|claim| claim.managed && claim.note.is_some()).collect();
        let note = noted.iter().find(|claim| !claim.deleting).and_then(|claim| claim.note.clone())?;
        let ordered: BTreeMap<Arc<str>, Arc<str>> = self
            .cluster
            .claims_of(id)
            .filter(|claim| claim.note.is_none())
            .map(|claim| (Arc::clone(&claim.name), Arc::clone(&claim.uid)))
            .collect();
        // A method that only a newer version knows: nobody here can tell what may be removed by it.
        let method: Option<Method> = note.method.parse().ok();
        let giving_up = method.is_none().then_some(Why::Abandoned);
        // The clock of the process that wrote it may be ahead.
        let proposed = note.proposed.parse().unwrap_or(now).min(now);
        Some(Command {
            id: Arc::clone(id),
            proposal: Proposal {
                method: method.unwrap_or(Method::SingleNode),
                members: noted.iter().map(|claim| self.inherited(claim)).collect(),
                planned: Vec::new(),
                saving: MicroDollars::new(note.saves),
                pods_moved: note.pods,
                payback: SignedDuration::from_secs(note.payback),
            },
            removes: usize::try_from(note.removes).unwrap_or(usize::MAX),
            needs: usize::try_from(note.needs).unwrap_or(usize::MAX),
            proposed,
            memory: Memory { giving_up, ..Memory::default() },
            ordered,
            shown: BTreeSet::new(),
            found: BTreeMap::new(),
            failures: BTreeMap::new(),
            refused_orders: 0,
            unanswered: 0,
            deleted: BTreeSet::new(),
            begun: true,
            told_back: false,
            stage: Stage::Settling,
            changed: proposed,
            detail: "as noted on its claims".to_owned(),
            open: 0,
            wake: None,
            second_look: None,
            validating: false,
            hold: None,
            realised: None,
            span: tracing::Span::none(),
        })
    }

    fn inherited(&self, claim: &Claim) -> Member {
        let node = self.cluster.node_of(claim);
        Member {
            node: node.map(|node| Arc::clone(&node.name)).unwrap_or_default(),
            node_uid: node.map(|node| Arc::clone(&node.uid)).unwrap_or_default(),
            claim: Arc::clone(&claim.name),
            claim_uid: Arc::clone(&claim.uid),
            pool: Arc::clone(&claim.pool),
            capacity_type: claim.label(labels::CAPACITY_TYPE).unwrap_or_default().into(),
            pods: None,
        }
    }

    /// Takes off what belongs to no command: left by a leader before, or put there by hand.
    pub(super) fn clean(&mut self, claim: &Arc<Claim>, now: Timestamp) {
        if let Some(note) = &claim.note {
            if let Some(until) = self.left_behind.resting_until(&claim.name, now) {
                return self.due.at(Arc::clone(&claim.name), until);
            }
            // A write of the leader before may come late.
            return self.resume_one(&Arc::from(note.id.as_str()), now);
        }
        self.left_behind.succeeded(&claim.name);
        if let Some(id) = &claim.made_for {
            self.drop_orphan(claim, id);
        }
        let Some(node) = self.cluster.node_of(claim) else { return };
        let traces = Traces {
            node: Arc::clone(&node.name),
            claim: Arc::clone(&claim.name),
            leaving: claim.deleting || node.deleting,
            noted: false,
            tainted: node.tainted,
            marked: claim.disruption_reason().is_some(),
            lost: false,
            refused: None,
            stuck: false,
            looked: None,
            obstacle: None,
            newcomers: Vec::new(),
        };
        if strays([&traces]).is_empty() || self.cleaning.contains(&claim.name) {
            return;
        }
        if self.members().any(|member| member.claim == claim.name) {
            return;
        }
        info!(node = %node.name, nodeclaim = %claim.name, "taint or reason of no command; taken off");
        self.cleaning.insert(Arc::clone(&claim.name));
        let (member, writes) = (self.inherited(claim), self.writes.clone());
        self.tasks.spawn(async move {
            let result = command_writes::off(&writes, &member, now).await;
            Done::Cleaned { claim: member.claim, result }
        });
    }

    /// A replacement that came after its command had been taken back is deleted. One of a command that nobody here remembers is an
    /// ordinary node: it may be needed.
    fn drop_orphan(&mut self, claim: &Arc<Claim>, id: &Arc<str>) {
        let rolled_back = |command: &Command| command.id == *id && command.stage == Stage::RolledBack;
        let Some(at) = self.ended.iter().rposition(rolled_back) else { return };
        if self.ended[at].shown.contains(&claim.name) || self.cleaning.contains(&claim.name) {
            return;
        }
        if !orphans(&self.view(&self.ended[at])).contains(&claim.name) {
            // It is needed, and an ordinary node from now on.
            self.ended[at].shown.insert(Arc::clone(&claim.name));
            return;
        }
        self.cleaning.insert(Arc::clone(&claim.name));
        info!(command = %id, nodeclaim = %claim.name, "came after its command had been taken back; deleted");
        self.events.came_late(claim, id);
        let (writes, claim) = (self.writes.clone(), Arc::clone(claim));
        self.tasks.spawn(async move {
            let dropped = writes.delete_claim(Target { name: &claim.name, uid: &claim.uid }).await;
            let result = dropped.map(|object| object.map(applied).into_iter().collect());
            Done::Cleaned { claim: Arc::clone(&claim.name), result }
        });
    }
}

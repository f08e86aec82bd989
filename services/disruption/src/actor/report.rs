//! What the actor tells others: every node of ours with what holds it, budgets, and commands.

use std::sync::Arc;

use jiff::Timestamp;
use policy::budget::State;
use policy::candidate::{self, Blocked, Consolidatable, Costs};

use super::pass::PoolBudgets;
use super::{Actor, Probed};
use crate::candidates;
use crate::cluster::{Claim, NodeState};
use crate::command::Command;
use crate::probe::Seen;

/// One node.
pub(crate) struct NodeReport {
    pub(crate) node: Arc<NodeState>,
    pub(crate) claim: Option<Arc<Claim>>,
    pub(crate) seen: Option<Seen>,
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) costs: Costs,
    /// Millicores and bytes that its pods request.
    pub(crate) requested: (i64, i64),
    pub(crate) probed: Option<Probed>,
    pub(crate) command: Option<Arc<str>>,
}

pub(crate) struct Report {
    pub(crate) nodes: Vec<NodeReport>,
    pub(crate) budgets: PoolBudgets,
}

/// One node, and the command that it is part of.
pub(crate) struct Explained {
    pub(crate) node: NodeReport,
    pub(crate) command: Option<Command>,
}

/// Newest first.
pub(crate) struct Commands {
    pub(crate) under_way: Vec<Command>,
    pub(crate) ended: Vec<Command>,
}

impl Actor {
    pub(super) fn report(&self, now: Timestamp) -> Report {
        let pdbs = self.cluster.pdbs();
        let budgets = self.budgets(now);
        let mut nodes: Vec<NodeReport> = self
            .cluster
            .nodes()
            .filter(|node| node.managed || self.cluster.claim_of(node).is_some())
            .map(|node| self.node_report(node, &pdbs, &budgets, now))
            .collect();
        nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
        Report { nodes, budgets }
    }

    /// The node of that name, or that of the NodeClaim of that name.
    pub(super) fn explained(&self, name: &str, now: Timestamp) -> Option<Explained> {
        let of_claim = || self.cluster.claim(name).and_then(|claim| self.cluster.node_of(claim));
        let node = self.cluster.node(name).or_else(of_claim)?;
        if !node.managed && self.cluster.claim_of(node).is_none() {
            return None;
        }
        let budgets = node.pool.as_ref().map(|pool| self.budgets_of(pool, now)).unwrap_or_default();
        let node = self.node_report(node, &self.cluster.pdbs(), &budgets, now);
        let command = node.command.as_ref().and_then(|id| match self.term {
            Some(_) => self.commands.get(id).cloned(),
            None => self.noted(id, now),
        });
        Some(Explained { node, command })
    }

    /// The leader's own; a follower knows what the objects tell.
    pub(super) fn all_commands(&self, now: Timestamp) -> Commands {
        let newest_first =
            |a: &Command, b: &Command| b.proposed.cmp(&a.proposed).then_with(|| b.id.cmp(&a.id));
        let mut under_way: Vec<Command> = match self.term {
            Some(_) => self.commands.values().cloned().collect(),
            None => self.all_noted(now),
        };
        under_way.sort_by(newest_first);
        let mut ended: Vec<Command> = self.ended.iter().cloned().collect();
        ended.sort_by(newest_first);
        Commands { under_way, ended }
    }

    fn node_report(
        &self,
        node: &Arc<NodeState>,
        pdbs: &candidate::Pdbs,
        budgets: &PoolBudgets,
        now: Timestamp,
    ) -> NodeReport {
        let claim = self.cluster.claim_of(node).cloned();
        let command = self
            .commands
            .values()
            .find(|command| command.members().iter().any(|member| member.node == node.name))
            .map(|command| Arc::clone(&command.id))
            .or_else(|| claim.as_ref()?.note.as_ref().map(|note| Arc::from(note.id.as_str())))
            .or_else(|| claim.as_ref().and_then(|claim| self.awaits_pods_of(claim)));
        let not_before = claim.as_ref().and_then(|claim| match self.consolidatable(claim, now) {
            Consolidatable::NotBefore(at) => Some(at),
            _ => None,
        });
        let seen = self.seen.get(&node.name);
        let subject = candidates::subject(&self.cluster, node, seen, command.clone(), not_before, now);
        let mut blocked = candidate::obstacles(&subject, pdbs, now);
        if blocked.is_empty() {
            blocked.extend(node.pool.as_ref().and_then(|pool| self.paused(pool, now)));
            blocked.extend(self.short_of_budget(node, &subject, budgets));
            blocked.extend(self.node_backoff.resting_until(&node.name, now).map(|until| {
                Blocked::CoolingDown {
                    pool: node.pool.clone().unwrap_or_default(),
                    until,
                    why: "a command for this node was taken back".to_owned(),
                }
            }));
            if let (Some(pool), false) = (&node.pool, subject.costs().is_empty()) {
                let because = |why: &'static str| move |until: Timestamp| (until, why.to_owned());
                let failed =
                    self.resting.resting_until(pool, now).map(because("its last replacement failed"));
                let cool = self.cooling_until(pool, now).map(because("it was consolidated a moment ago"));
                let holds = failed.or_else(|| self.unrealised_until(pool, now)).or(cool);
                blocked.extend(holds.map(|(until, why)| Blocked::CoolingDown {
                    pool: Arc::clone(pool),
                    until,
                    why,
                }));
            }
            let probed = self.probed.get(&node.name).filter(|_| !subject.costs().is_empty());
            blocked.extend(probed.and_then(|probed| probed.verdict.blocked.clone()));
        }
        let pods = || self.cluster.pods_on(&node.name).filter(|pod| !pod.resident.pod.is_terminal());
        NodeReport {
            costs: subject.costs(),
            requested: (pods().map(|pod| pod.requests.0).sum(), pods().map(|pod| pod.requests.1).sum()),
            probed: self.probed.get(&node.name).cloned(),
            seen: seen.cloned(),
            node: Arc::clone(node),
            claim,
            blocked,
            command,
        }
    }

    /// The budget of the reason for which the node would go next, when nothing is left of it.
    fn short_of_budget(
        &self,
        node: &NodeState,
        subject: &candidate::Subject,
        budgets: &PoolBudgets,
    ) -> Option<Blocked> {
        let states = budgets.get(node.pool.as_ref()?)?;
        let reason = if subject.is_drifted() {
            policy::Reason::Drifted
        } else if subject.costs().is_empty() {
            policy::Reason::Empty
        } else {
            policy::Reason::Underutilized
        };
        let state: &State = states.get(&reason)?;
        (state.available() == 0).then(|| Blocked::Budget(state.clone()))
    }
}

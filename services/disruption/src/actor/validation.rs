//! The second look at a proposal, after its wait: candidates, promises, budgets and the simulation again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consolidation::search::{Purpose, Question};
use jiff::{SignedDuration, Timestamp};
use policy::Method;
use policy::candidate;
use policy::command::{Invalid, Why, same_shape};
use policy::consolidation::Refusal;
use proto::provisioner::v1 as pb;
use tonic::Status;
use tracing::{Instrument as _, warn};

use super::{Actor, Done, plus};
use crate::candidates;
use crate::command::{Command, Member};
use crate::metrics::Type;
use crate::probe::Told;
use crate::simulation;

/// Until the answer to another command's question may be there.
const ASK_SOON: SignedDuration = SignedDuration::from_millis(100);

/// What others were asked.
pub(super) struct Checked {
    /// When the provisioner was asked.
    began: Timestamp,
    told: Told,
    /// The removal simulated again; `None` where nothing moves.
    answer: Option<pb::SimulateResponse>,
}

impl Actor {
    pub(super) fn check(&mut self, id: &Arc<str>, now: Timestamp) {
        if !self.narrow(id, now) {
            return;
        }
        let Some(command) = self.commands.get(id) else { return };
        let removal = (command.method() != Method::Emptiness).then(|| self.removal(command));
        if removal.is_none() {
            // One answer serves all commands for empty nodes whose wait was over when it was asked for.
            let due = plus(command.proposed, self.options.validation_wait);
            let asked = self.commands.values().any(|other| other.validating);
            let Some(command) = self.commands.get_mut(id) else { return };
            if self.seen_at >= due {
                command.memory.validated = true;
                return;
            }
            if asked {
                command.hold = Some(plus(now, ASK_SOON));
                return;
            }
        }
        let Some(command) = self.commands.get(id) else { return };
        let (probes, span) =
            (self.probes.not_older_than(self.cluster.claims_version()), command.span.clone());
        if let Some(command) = self.commands.get_mut(id) {
            command.open = 1;
            command.validating = true;
        }
        let id = Arc::clone(id);
        let ask = async move {
            let result = async {
                let told = probes.told().await?;
                let answer = match &removal {
                    Some(removal) => Some(probes.ask(removal).await?),
                    None => None,
                };
                Ok(Checked { began: now, told, answer })
            };
            let result = result.await;
            Done::Checked { id, result }
        };
        self.tasks.spawn(ask.instrument(span));
    }

    /// With the nodes of earlier proposals gone: those go first, and leave no room.
    fn removal(&self, command: &Command) -> Question {
        let earlier = self.commands.values().filter(|other| {
            other.memory.tainted.is_none()
                && other.id != command.id
                && other.proposed <= command.proposed
                && !other.is_over()
        });
        // Those that are going already count as gone there.
        let stays = |member: &&Member| self.cluster.claim(&member.claim).is_some_and(|claim| !claim.deleting);
        let earlier = earlier.flat_map(|other| other.members()).filter(stays);
        let members = command.members().iter().chain(earlier);
        let price =
            |member: &Member| self.seen.get(&member.node).and_then(|seen| seen.price).unwrap_or_default();
        Question {
            remove: members.map(|member| Arc::clone(&member.node)).collect(),
            purpose: Purpose::Consolidation,
            below: command.members().iter().map(price).sum(),
        }
    }

    pub(super) fn checked(&mut self, id: &Arc<str>, result: Result<Checked, Status>, now: Timestamp) {
        let Some(command) = self.commands.get_mut(id) else { return };
        command.open = 0;
        command.validating = false;
        let checked = match result {
            Ok(checked) => checked,
            // About one of an earlier proposal: it went between our view and the provisioner's.
            Err(status)
                if simulation::is_about_a_node(&status)
                    && command.members().iter().any(|own| status.message().contains(&*own.node)) =>
            {
                let why = Invalid::Unanswered(status.message().to_owned());
                command.memory.giving_up = Some(Why::Invalid(why));
                return;
            }
            Err(status) => {
                let error = status.message();
                let Some(pause) = command.not_answered() else {
                    warn!(command = %id, error, "second look not answered as often as makes sense");
                    let why = Invalid::Unanswered(error.to_owned());
                    command.memory.giving_up = Some(Why::Invalid(why));
                    return;
                };
                warn!(command = %id, error, retry_in = %pause, "second look not answered");
                command.hold = Some(plus(now, pause));
                return;
            }
        };
        command.unanswered = 0;
        self.hear(checked.told, checked.began);
        if !self.narrow(id, now) {
            return;
        }
        let Some(command) = self.commands.get_mut(id) else { return };
        match checked.answer.map_or(Ok(()), |answer| as_planned(command, &answer)) {
            Ok(()) => command.memory.validated = true,
            Err(invalid) => command.memory.giving_up = Some(Why::Invalid(invalid)),
        }
    }

    /// Takes out who may not go any more, where the method allows that. False: it is given up.
    fn narrow(&mut self, id: &Arc<str>, now: Timestamp) -> bool {
        let Some(command) = self.commands.get(id) else { return false };
        let mut bad = self.no_candidates(command, now);
        for (claim, invalid) in self.over_budget(command, now) {
            bad.entry(claim).or_insert(invalid);
        }
        let Some(first) = bad.values().next().cloned() else { return true };
        let all = command.members().len();
        let shrinks = command.method().may_shrink() && bad.len() < all;
        if first.is_counted() {
            let failed = if command.method().may_shrink() { bad.len() } else { all };
            let labels = Type { consolidation_type: command.method().consolidation_type() };
            self.metrics.failed_validations.get_or_create(&labels).inc_by(failed as u64);
        }
        let Some(command) = self.commands.get_mut(id) else { return false };
        if shrinks {
            command.proposal.members.retain(|member| !bad.contains_key(&member.claim));
            command.removes = command.members().len();
        } else {
            command.memory.giving_up = Some(Why::Invalid(first));
        }
        shrinks
    }

    fn no_candidates(&self, command: &Command, now: Timestamp) -> BTreeMap<Arc<str>, Invalid> {
        let pdbs = self.cluster.pdbs();
        let mut bad = BTreeMap::new();
        for member in command.members() {
            let churn = |by| Invalid::Churn { node: Arc::clone(&member.node), by };
            let pair = self.cluster.node(&member.node).zip(self.cluster.claim(&member.claim));
            let invalid = match pair.filter(|(_, claim)| claim.uid == member.claim_uid) {
                None => Some(churn(None)),
                Some(_) if self.paused(&member.pool, now).is_some() => {
                    Some(churn(self.paused(&member.pool, now)))
                }
                Some((node, _)) => {
                    let subject =
                        candidates::subject(&self.cluster, node, self.seen.get(&node.name), None, None, now);
                    if subject.nominated_until.is_some() {
                        Some(Invalid::Nominated { node: Arc::clone(&member.node) })
                    } else {
                        candidate::eligible(&subject, command.method(), &pdbs, now)
                            .err()
                            .map(|by| churn(Some(by)))
                    }
                }
            };
            if let Some(invalid) = invalid {
                bad.insert(Arc::clone(&member.claim), invalid);
            }
        }
        bad
    }

    /// Members that the budgets no longer have room for: those at the end. All proposals count, this one too.
    fn over_budget(&self, command: &Command, now: Timestamp) -> Vec<(Arc<str>, Invalid)> {
        let budgets = self.budgets(now);
        let mut over = Vec::new();
        let pools: BTreeSet<&Arc<str>> = command.members().iter().map(|member| &member.pool).collect();
        for pool in pools {
            let Some(state) = budgets.get(pool).and_then(|states| states.get(&command.reason())) else {
                continue;
            };
            let surplus = usize::try_from(state.away.saturating_sub(state.allowed)).unwrap_or(usize::MAX);
            let own = command.members().iter().rev().filter(|member| member.pool == *pool);
            let invalid = Invalid::Budget { pool: Arc::clone(pool) };
            over.extend(own.take(surplus).map(|member| (Arc::clone(&member.claim), invalid.clone())));
        }
        over
    }
}

/// Whether the second simulation agrees with the first.
fn as_planned(command: &Command, answer: &pb::SimulateResponse) -> Result<(), Invalid> {
    let outcome = simulation::outcome(answer);
    if !outcome.left_over.is_empty() {
        return Err(Invalid::Scheduling(Refusal::LeftOver(outcome.left_over).to_string()));
    }
    let planned: Vec<Vec<&str>> = command.proposal.planned.iter().map(type_names).collect();
    let fresh: Vec<Vec<&str>> = answer.new_nodes.iter().map(type_names).collect();
    same_shape(&planned, &fresh)
}

fn type_names(node: &proto::types::v1::PlannedNode) -> Vec<&str> {
    node.instance_types.iter().map(String::as_str).collect()
}

//! The cheaper cluster: many nodes at once by at most one, any number by any number where the pools opted in, else one node.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::SignedDuration;
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::churn::{self, Worth};
use policy::consolidation::{
    self, Candidate, Decision, ManyForMany, MultiNode, Refusal, Settings, SingleNode,
};
use policy::{Method, Reason};
use proto::provisioner::v1::{SimulateResponse, SimulationPurpose};
use proto::types::v1 as types;
use tonic::Status;

use super::{AT_ONCE, Look, Verdict, is_about_a_node, outcome};
use crate::command::Proposal;
use crate::probe::Removal;

/// A removal that was found worth while.
struct Good<'a> {
    chosen: Vec<&'a Candidate>,
    decision: Decision,
    worth: Worth,
    answer: SimulateResponse,
}

impl Look {
    pub(super) async fn consolidate(&mut self) -> Result<(), Status> {
        let entries = self.situation.entries.iter().filter(|entry| entry.methods.consolidation);
        let candidates: Vec<Candidate> = entries.map(|entry| entry.candidate.clone()).collect();
        self.many_at_once(&candidates).await?;
        if self.found.proposals.is_empty() {
            self.single(&candidates).await?;
        }
        Ok(())
    }

    fn opted_in(&self, pool: &str) -> bool {
        self.situation.churn.get(pool).is_some_and(|settings| settings.many_for_many)
    }

    fn consolidation(&self, chosen: &[&Candidate]) -> Removal {
        let nodes: Vec<Arc<str>> = chosen.iter().map(|candidate| Arc::clone(&candidate.node)).collect();
        let price = chosen.iter().map(|candidate| candidate.price).sum();
        self.removal(&nodes, SimulationPurpose::Consolidation, price)
    }

    /// What to do with these nodes and what it is worth, or why they are left.
    fn judge(
        &mut self,
        chosen: &[&Candidate],
        answer: &SimulateResponse,
        many_for_many: bool,
    ) -> Result<(Decision, Worth), Refusal> {
        let outcome = outcome(answer);
        if !self.situation.outstanding.is_empty() && !outcome.new_nodes.is_empty() {
            // Whose place a new node would take cannot be told apart; look again when the others are carried out.
            return Err(Refusal::TooManyNew(outcome.new_nodes.len()));
        }
        let settings = Settings { many_for_many, spot_to_spot: self.situation.spot_to_spot };
        let mut decision = consolidation::judge(chosen, &outcome, settings);
        if chosen.len() > 1 {
            decision = consolidation::same_type_guard(chosen, &outcome.new_nodes, decision);
        }
        if let Decision::Leave(refusal) = decision {
            return Err(refusal);
        }
        let worth = self.worth_it(chosen, answer, &decision)?;
        Ok((decision, worth))
    }

    /// Every pool concerned must find it worth while: by its own settings against churn, and by policy Balanced.
    fn worth_it(
        &mut self,
        chosen: &[&Candidate],
        answer: &SimulateResponse,
        decision: &Decision,
    ) -> Result<Worth, Refusal> {
        let added = added(answer, decision);
        let movement = churn::Move {
            removed: chosen.iter().map(|candidate| candidate.price).sum(),
            added,
            new_nodes: if matches!(decision, Decision::Delete) { 0 } else { answer.new_nodes.len() },
        };
        let pools: BTreeSet<&Arc<str>> = chosen.iter().map(|candidate| &candidate.pool).collect();
        let worth =
            churn::worth(movement, pools.into_iter().filter_map(|pool| self.situation.churn.get(pool)))?;
        let scores =
            consolidation::balanced_scores(chosen, added, &self.situation.balanced, &self.situation.totals);
        let approved = scores.values().all(|score| score.approved);
        self.found.scores.extend(scores);
        if approved { Ok(worth) } else { Err(Refusal::NotWorthIt) }
    }

    fn propose(&mut self, good: Good<'_>) {
        let planned = planned(good.answer, &good.decision);
        let method = match (good.chosen.len(), planned.len()) {
            (_, 2..) => Method::ManyForMany,
            (1, _) => Method::SingleNode,
            _ => Method::MultiNode,
        };
        // Where nothing new is bought, nothing has to be earned back.
        let payback = if planned.is_empty() { SignedDuration::ZERO } else { good.worth.payback };
        let members = self.members(&good.chosen);
        let pods = members.iter().filter_map(|member| member.pods.as_ref()).map(BTreeSet::len).sum::<usize>();
        self.found.proposals.push(Proposal {
            method,
            members,
            planned,
            saving: good.worth.saving,
            pods_moved: u32::try_from(pods).unwrap_or(u32::MAX),
            payback,
        });
    }

    /// By at most one, or by several where that saves more.
    async fn many_at_once(&mut self, candidates: &[Candidate]) -> Result<(), Status> {
        let given = self.fingerprint(candidates);
        if self.situation.fruitless == Some(given) {
            self.found.fruitless = Some(given);
            return Ok(());
        }
        let by_one = self.multi(candidates).await?;
        let by_several = self.many_for_many(candidates).await?;
        let saving = |good: &Good<'_>| good.worth.saving;
        // Of equal savings the one that makes fewer nodes.
        let best = match (by_one, by_several) {
            (Some(one), Some(several)) if saving(&several) > saving(&one) => Some(several),
            (one, several) => one.or(several),
        };
        match best {
            Some(good) => self.propose(good),
            None => self.found.fruitless = Some(given),
        }
        Ok(())
    }

    /// `None` where one of the nodes is on its way out meanwhile, or unknown there: a shorter list may do without it.
    async fn try_removal(&self, chosen: &[&Candidate]) -> Result<Option<SimulateResponse>, Status> {
        match self.probes.ask(&self.consolidation(chosen)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(status) if is_about_a_node(&status) => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn multi<'a>(&mut self, candidates: &'a [Candidate]) -> Result<Option<Good<'a>>, Status> {
        let mut search = MultiNode::new(candidates, self.allowance(Reason::Underutilized));
        let mut best: Option<(SimulateResponse, Worth)> = None;
        while let Some(chosen) = search.next() {
            let chosen: Vec<&Candidate> = chosen.to_vec();
            let Some(answer) = self.try_removal(&chosen).await? else {
                search.tell(Decision::Leave(Refusal::NotCheaper));
                continue;
            };
            match self.judge(&chosen, &answer, false) {
                Err(refusal) => search.tell(Decision::Leave(refusal)),
                Ok((decision, worth)) => {
                    best = Some((answer, worth));
                    search.tell(decision);
                }
            }
        }
        let found = search.best().zip(best);
        Ok(found.map(|((chosen, decision), (answer, worth))| Good { chosen, decision, worth, answer }))
    }

    async fn many_for_many<'a>(&mut self, candidates: &'a [Candidate]) -> Result<Option<Good<'a>>, Status> {
        let allowance = self.allowance(Reason::Underutilized);
        let mut search = ManyForMany::new(candidates, allowance, |pool| self.opted_in(pool));
        let mut answers: Vec<(usize, SimulateResponse)> = Vec::new();
        while let Some(chosen) = search.next() {
            let chosen: Vec<&Candidate> = chosen.to_vec();
            let Some(answer) = self.try_removal(&chosen).await? else {
                search.tell(Decision::Leave(Refusal::NotCheaper), None);
                continue;
            };
            match self.judge(&chosen, &answer, true) {
                Err(refusal) => search.tell(Decision::Leave(refusal), None),
                Ok((decision, worth)) => {
                    answers.push((chosen.len(), answer));
                    search.tell(decision, Some(worth));
                }
            }
        }
        let Some((chosen, decision, worth)) = search.best() else { return Ok(None) };
        let answer = answers.into_iter().find(|(length, _)| *length == chosen.len());
        Ok(answer.map(|(_, answer)| Good { chosen, decision, worth, answer }))
    }

    /// Of everything that a search for many at once depends on.
    fn fingerprint(&self, candidates: &[Candidate]) -> u64 {
        let mut hasher = DefaultHasher::new();
        for candidate in candidates {
            candidate.node.hash(&mut hasher);
            self.entry(&candidate.node).map(|entry| entry.basis).hash(&mut hasher);
        }
        self.allowance(Reason::Underutilized).hash(&mut hasher);
        self.situation.outstanding.hash(&mut hasher);
        for (pool, settings) in &self.situation.churn {
            (pool, settings.many_for_many).hash(&mut hasher);
        }
        hasher.finish()
    }

    async fn single(&mut self, candidates: &[Candidate]) -> Result<(), Status> {
        let allowance = self.allowance(Reason::Underutilized);
        self.found.constrained |=
            candidates.iter().any(|candidate| allowance.get(&candidate.pool) == Some(&0));
        let known = |candidate: &&Candidate| self.entry(&candidate.node).is_some_and(|entry| entry.known);
        let order: Vec<&Candidate> = SingleNode::new(candidates, &allowance)
            .filter(|candidate| !known(candidate))
            .filter(|candidate| {
                let totals = self.situation.totals.get(&candidate.pool).copied();
                !self.situation.balanced.contains(&candidate.pool)
                    || consolidation::could_be_worth_it(candidate, totals)
            })
            .collect();
        for some in order.chunks(AT_ONCE) {
            let removals: Vec<Removal> =
                some.iter().map(|candidate| self.consolidation(&[candidate])).collect();
            let answers = self.probes.ask_many(&removals).await?;
            let mut first: Option<Good<'_>> = None;
            for (candidate, answer) in some.iter().copied().zip(answers) {
                let judged = answer.map(|answer| {
                    let judged = self.judge(&[candidate], &answer, self.opted_in(&candidate.pool));
                    (judged, answer)
                });
                let (words, blocked, saving) = match judged {
                    Err(error) => (error, None, None),
                    Ok((Err(refusal), _)) => (refusal.to_string(), Some(Blocked::NoSaving(refusal)), None),
                    Ok((Ok((decision, worth)), answer)) => {
                        let words = match &decision {
                            Decision::Delete => "its pods fit on other nodes",
                            _ => "cheaper nodes can replace it",
                        };
                        first.get_or_insert_with(|| Good {
                            chosen: vec![candidate],
                            decision,
                            worth,
                            answer,
                        });
                        (words.to_owned(), None, Some(worth.saving))
                    }
                };
                self.found.verdicts.push(Verdict {
                    node: Arc::clone(&candidate.node),
                    words,
                    blocked,
                    saving,
                });
            }
            if let Some(good) = first {
                self.propose(good);
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Price of the new nodes under a decision, as they would be launched.
fn added(answer: &SimulateResponse, decision: &Decision) -> MicroDollars {
    match decision {
        Decision::Replace(_) => {
            let launch = |node: &types::PlannedNode| {
                node.launch.as_ref().map_or(0, |launch| launch.micro_usd_per_hour)
            };
            answer.new_nodes.iter().map(|node| MicroDollars::new(launch(node))).sum()
        }
        Decision::Delete | Decision::Leave(_) => MicroDollars::ZERO,
    }
}

/// The new nodes with the types that were kept.
pub(crate) fn planned(answer: SimulateResponse, decision: &Decision) -> Vec<types::PlannedNode> {
    let Decision::Replace(kept) = decision else { return Vec::new() };
    let narrowed = answer.new_nodes.into_iter().zip(kept).map(|(mut node, kept)| {
        let (types, worst) =
            (std::mem::take(&mut node.instance_types), std::mem::take(&mut node.worst_micro_usd_per_hour));
        node.instance_types = kept.types.iter().filter_map(|&index| types.get(index).cloned()).collect();
        node.worst_micro_usd_per_hour =
            kept.types.iter().filter_map(|&index| worst.get(index).copied()).collect();
        node
    });
    narrowed.collect()
}

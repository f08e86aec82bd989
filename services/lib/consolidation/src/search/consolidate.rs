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

use super::singles::Singles;
use super::{Answer, PlannedNode, Proposal, Purpose, Question, Search, Verdict, names};

/// How far it is.
pub(super) enum Consolidating<'a, N> {
    /// Several by at most one.
    Multi {
        search: MultiNode<'a>,
        best: Option<Good<'a, N>>,
        given: u64,
    },
    /// Several by several, where that saves more than the best by one.
    Many {
        search: ManyForMany<'a>,
        found: Vec<Good<'a, N>>,
        by_one: Option<Good<'a, N>>,
        given: u64,
    },
    Single(Singles<'a>),
}

/// A removal that was found worth while.
pub(super) struct Good<'a, N> {
    chosen: Vec<&'a Candidate>,
    planned: Vec<N>,
    worth: Worth,
}

impl<'a, N: PlannedNode> Consolidating<'a, N> {
    pub(super) fn has_question(&self) -> bool {
        match self {
            Self::Multi { search, .. } => search.next().is_some(),
            Self::Many { search, .. } => search.next().is_some(),
            Self::Single(singles) => !singles.asking().is_empty(),
        }
    }

    pub(super) fn questions(&self, search: &Search<'a, N>) -> Vec<Question> {
        let removal = |chosen: &[&Candidate]| {
            let below = chosen.iter().map(|candidate| candidate.price).sum();
            search.question(names(chosen), Purpose::Consolidation, below)
        };
        match self {
            Self::Multi { search, .. } => search.next().map(removal).into_iter().collect(),
            Self::Many { search, .. } => search.next().map(removal).into_iter().collect(),
            Self::Single(singles) => singles.asking().iter().map(|one| removal(&[*one])).collect(),
        }
    }
}

impl<'a, N: PlannedNode> Search<'a, N> {
    fn candidates(&self) -> impl Iterator<Item = &'a Candidate> + use<'a, N> {
        let situation = self.situation;
        let entries = situation.entries.iter().filter(|entry| entry.methods.consolidation);
        entries.map(|entry| &entry.candidate)
    }

    /// Many at once, unless the same search found nothing the last time.
    pub(super) fn begin_consolidation(&mut self) -> Consolidating<'a, N> {
        let given = self.fingerprint();
        if self.situation.fruitless == Some(given) {
            self.found.fruitless = Some(given);
            return self.begin_single();
        }
        let search = MultiNode::new(self.candidates(), self.situation.allowance(Reason::Underutilized));
        Consolidating::Multi { search, best: None, given }
    }

    /// The method after one that has no more questions; `None` when the pass is over.
    pub(super) fn next_of_consolidation(
        &mut self,
        over: Consolidating<'a, N>,
    ) -> Option<Consolidating<'a, N>> {
        match over {
            Consolidating::Multi { best: by_one, given, .. } => {
                let allowance = self.situation.allowance(Reason::Underutilized);
                let search = ManyForMany::new(self.candidates(), allowance, |pool| self.opted_in(pool));
                Some(Consolidating::Many { search, found: Vec::new(), by_one, given })
            }
            Consolidating::Many { search, found, by_one, given } => {
                let length = search.best().map(|(chosen, _, _)| chosen.len());
                let by_several = found.into_iter().find(|good| Some(good.chosen.len()) == length);
                // Of equal savings the one that makes fewer nodes.
                let best = match (by_one, by_several) {
                    (Some(one), Some(several)) if several.worth.saving > one.worth.saving => Some(several),
                    (one, several) => one.or(several),
                };
                match best {
                    Some(good) => {
                        self.propose(good);
                        None
                    }
                    None => {
                        self.found.fruitless = Some(given);
                        Some(self.begin_single())
                    }
                }
            }
            Consolidating::Single(_) => None,
        }
    }

    fn begin_single(&mut self) -> Consolidating<'a, N> {
        let allowance = self.situation.allowance(Reason::Underutilized);
        self.found.constrained |=
            self.candidates().any(|candidate| allowance.get(&candidate.pool) == Some(&0));
        let worth_asking = |candidate: &&Candidate| {
            let known = self.situation.entry(&candidate.node).is_some_and(|entry| entry.known);
            let totals = self.situation.totals.get(&candidate.pool).copied();
            !known
                && (!self.situation.balanced.contains(&candidate.pool)
                    || consolidation::could_be_worth_it(candidate, totals))
        };
        let order: Vec<&Candidate> =
            SingleNode::new(self.candidates(), &allowance).filter(worth_asking).collect();
        Consolidating::Single(Singles::new(order, allowance, self.at_once))
    }

    pub(super) fn answer_consolidation(
        &mut self,
        consolidating: Consolidating<'a, N>,
        answers: Vec<Result<Answer<N>, String>>,
    ) -> Consolidating<'a, N> {
        // A set with a node that is being deleted meanwhile, or is unknown there: a shorter one may do without it.
        let unanswered = || Decision::Leave(Refusal::NotCheaper);
        match consolidating {
            Consolidating::Multi { mut search, mut best, given } => {
                let chosen = search.next().map(<[_]>::to_vec).unwrap_or_default();
                let decision = match answers.into_iter().next() {
                    Some(Ok(answer)) => match self.judge(&chosen, answer, false) {
                        Ok((decision, good)) => {
                            best = Some(good);
                            decision
                        }
                        Err(refusal) => Decision::Leave(refusal),
                    },
                    _ => unanswered(),
                };
                search.tell(decision);
                Consolidating::Multi { search, best, given }
            }
            Consolidating::Many { mut search, mut found, by_one, given } => {
                let chosen = search.next().map(<[_]>::to_vec).unwrap_or_default();
                match answers.into_iter().next() {
                    Some(Ok(answer)) => match self.judge(&chosen, answer, true) {
                        Ok((decision, good)) => {
                            search.tell(decision, Some(good.worth));
                            found.push(good);
                        }
                        Err(refusal) => search.tell(Decision::Leave(refusal), None),
                    },
                    _ => search.tell(unanswered(), None),
                }
                Consolidating::Many { search, found, by_one, given }
            }
            Consolidating::Single(singles) => self.answer_single(singles, answers),
        }
    }

    fn answer_single(
        &mut self,
        mut singles: Singles<'a>,
        answers: Vec<Result<Answer<N>, String>>,
    ) -> Consolidating<'a, N> {
        let mut first: Option<Good<'a, N>> = None;
        for (candidate, answer) in singles.next().into_iter().zip(answers) {
            // What is not about the node itself is no verdict on it: it is asked again in the next pass.
            let Ok(answer) = answer else { continue };
            if self.is_confused(&answer) {
                continue;
            }
            let (words, blocked, saving) =
                match self.judge(&[candidate], answer, self.opted_in(&candidate.pool)) {
                    Err(refusal) => (refusal.to_string(), Some(Blocked::NoSaving(refusal)), None),
                    Ok((decision, good)) => {
                        let words = match decision {
                            Decision::Delete => "its pods fit on other nodes",
                            _ => "cheaper nodes can replace it",
                        };
                        let saving = good.worth.saving;
                        first.get_or_insert(good);
                        (words.to_owned(), None, Some(saving))
                    }
                };
            self.found.verdicts.push(Verdict { node: Arc::clone(&candidate.node), words, blocked, saving });
        }
        if let Some(good) = first {
            self.propose(good);
        }
        Consolidating::Single(singles)
    }

    fn opted_in(&self, pool: &str) -> bool {
        self.situation.churn.get(pool).is_some_and(|settings| settings.many_for_many)
    }

    /// Which removed node a new node would replace cannot be known while other commands are outstanding; the nodes are judged again
    /// when those are carried out.
    fn is_confused(&self, answer: &Answer<N>) -> bool {
        !self.situation.outstanding.is_empty() && !answer.nodes.is_empty()
    }

    /// What to do with these nodes and what it is worth, or why they are left.
    fn judge(
        &mut self,
        chosen: &[&'a Candidate],
        answer: Answer<N>,
        many_for_many: bool,
    ) -> Result<(Decision, Good<'a, N>), Refusal> {
        if self.is_confused(&answer) {
            return Err(Refusal::TooManyNew(answer.nodes.len()));
        }
        let settings = Settings { many_for_many, spot_to_spot: self.situation.spot_to_spot };
        let mut decision = consolidation::judge(chosen, &answer.outcome, settings);
        if chosen.len() > 1 {
            decision = consolidation::same_type_guard(chosen, &answer.outcome.new_nodes, decision);
        }
        let planned = match &decision {
            Decision::Leave(refusal) => return Err(refusal.clone()),
            Decision::Delete => Vec::new(),
            Decision::Replace(kept) => {
                let mut nodes = answer.nodes;
                for (node, kept) in nodes.iter_mut().zip(kept) {
                    node.keep_types(&kept.types);
                }
                nodes
            }
        };
        let worth = self.worth_it(chosen, &planned)?;
        Ok((decision, Good { chosen: chosen.to_vec(), planned, worth }))
    }

    /// Every pool concerned must find it worth while: by its own settings against churn, and by policy Balanced.
    fn worth_it(&mut self, chosen: &[&Candidate], planned: &[N]) -> Result<Worth, Refusal> {
        let movement = churn::Move {
            removed: chosen.iter().map(|candidate| candidate.price).sum(),
            added: planned.iter().map(PlannedNode::price).sum::<MicroDollars>(),
            new_nodes: planned.len(),
            pods: self.pods_of(chosen),
        };
        let pools: BTreeSet<&Arc<str>> = chosen.iter().map(|candidate| &candidate.pool).collect();
        let situation = self.situation;
        let worth = churn::worth(movement, pools.into_iter().filter_map(|pool| situation.churn.get(pool)))?;
        let scores =
            consolidation::balanced_scores(chosen, movement.added, &situation.balanced, &situation.totals);
        let approved = scores.values().all(|score| score.approved);
        self.found.scores.extend(scores);
        if approved { Ok(worth) } else { Err(Refusal::NotWorthIt) }
    }

    fn propose(&mut self, good: Good<'a, N>) {
        let method = match (good.chosen.len(), good.planned.len()) {
            (_, 2..) => Method::ManyForMany,
            (1, _) => Method::SingleNode,
            _ => Method::MultiNode,
        };
        self.found.proposals.push(Proposal {
            method,
            nodes: names(&good.chosen),
            // Where nothing new is bought, nothing has to be earned back.
            payback: if good.planned.is_empty() { SignedDuration::ZERO } else { good.worth.payback },
            saving: good.worth.saving,
            pods_moved: self.pods_of(&good.chosen),
            planned: good.planned,
        });
    }

    /// Pods that must move.
    fn pods_of(&self, chosen: &[&Candidate]) -> u32 {
        let entries = chosen.iter().filter_map(|candidate| self.situation.entry(&candidate.node));
        entries.map(|entry| entry.pods).fold(0, u32::saturating_add)
    }

    /// Of everything that a search for many at once depends on.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for entry in self.situation.entries.iter().filter(|entry| entry.methods.consolidation) {
            (&entry.candidate.node, entry.basis).hash(&mut hasher);
        }
        self.situation.allowance(Reason::Underutilized).hash(&mut hasher);
        self.situation.outstanding.hash(&mut hasher);
        for (pool, settings) in &self.situation.churn {
            (pool, settings.many_for_many).hash(&mut hasher);
        }
        hasher.finish()
    }
}

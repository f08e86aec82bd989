//! One pass over all candidates: which nodes go next. The only implementation of the search: `plan` drives it with the solver in its own
//! process, the disruption service with the provisioner's answers.
//!
//! A state machine without I/O: [`Search::questions`] names the removals to simulate, [`Search::answer`] takes what came of them,
//! until there are no more questions; then [`Search::finish`] has the commands. Whoever carries out commands at once goes on with the
//! same pass, by [`Search::carried_out`].
//!
//! ```text
//! emptiness ─> static drift ─> drift ─> multi-node, N→M ─> single node        the first method that finds something ends the pass
//! ```

mod consolidate;
mod drift;
mod singles;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::churn;
use policy::consolidation::{self, Allowance, Candidate, Outcome, PoolTotals, Score};
use policy::drift::FixedPool;
use policy::{Method, Reason};

use consolidate::Consolidating;
use drift::Drifting;

/// Empty nodes in one command: as many as multi-node consolidation takes, so that their pods are read within a second or two.
const MOST_EMPTY: usize = 100;

/// A node that some method may take.
#[derive(Clone, Debug)]
pub struct Entry {
    pub candidate: Candidate,
    pub methods: Methods,
    /// Pods that must move.
    pub pods: u32,
    /// Since when it is drifted.
    pub drifted: Option<Timestamp>,
    /// Stands for everything that a simulation of its removal depends on.
    pub basis: u64,
    /// A simulation on the same basis was refused already.
    pub known: bool,
}

/// The methods that may take a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods {
    pub emptiness: bool,
    pub fixed_drift: bool,
    pub drift: bool,
    pub consolidation: bool,
}

impl Methods {
    pub fn any(self) -> bool {
        self.emptiness || self.fixed_drift || self.drift || self.consolidation
    }
}

/// The cluster that a pass works on.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    /// In the order of their nodes' names.
    pub entries: Vec<Entry>,
    pub allowances: BTreeMap<Reason, Allowance>,
    /// Nodes of commands that no simulation sees yet: they count as removed.
    pub outstanding: Vec<Arc<str>>,
    /// One of those commands brings new nodes, which no simulation knows yet. Until they are ordered, its pods count as staying where
    /// they are or as taking room anywhere, of whatever pool: nothing is consolidated meanwhile, lest two commands give the same room to
    /// their pods and a node must be bought after all. That lasts as long as a validation and an order.
    pub outstanding_replacements: bool,
    pub fixed_pools: BTreeMap<Arc<str>, FixedPool>,
    /// Pools in backoff, since a replacement failed a moment ago.
    pub backing_off: BTreeSet<Arc<str>>,
    /// Pools with policy Balanced, and the totals of all.
    pub balanced: BTreeSet<Arc<str>>,
    pub totals: BTreeMap<Arc<str>, PoolTotals>,
    /// Settings of all pools against churn.
    pub churn: BTreeMap<Arc<str>, churn::Settings>,
    /// What the last search for many nodes at once was given, when it found nothing.
    pub fruitless: Option<u64>,
    /// Gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
}

impl Situation {
    pub fn entry(&self, node: &str) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| (*entry.candidate.node).cmp(node));
        found.ok().map(|index| &self.entries[index])
    }

    fn allowance(&self, reason: Reason) -> Allowance {
        self.allowances.get(&reason).cloned().unwrap_or_default()
    }
}

/// A removal to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub remove: Vec<Arc<str>>,
    pub purpose: Purpose,
    /// Replacements must cost less than this together; zero for no limit.
    pub below: MicroDollars,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Consolidation,
    Drift,
}

/// What simulating a removal came to. `N`: a new node as the shell carries it.
#[derive(Clone, Debug)]
pub struct Answer<N> {
    pub outcome: Outcome,
    /// One for each new node of the outcome.
    pub nodes: Vec<N>,
}

/// A new node as the shell carries it.
pub trait PlannedNode: Clone {
    /// What it is priced at.
    fn price(&self) -> MicroDollars;
    /// Keeps only these of its types, by index.
    fn keep_types(&mut self, types: &[usize]);
}

/// A decision.
#[derive(Clone, Debug)]
pub struct Proposal<N> {
    pub method: Method,
    pub nodes: Vec<Arc<str>>,
    /// Empty for static drift, whose replacements are of the same pool and need no simulation.
    pub planned: Vec<N>,
    /// Per hour.
    pub saving: MicroDollars,
    pub pods_moved: u32,
    /// How long the saving takes to make up for the time in which old and new nodes are both paid.
    pub payback: SignedDuration,
}

/// What was found out about one node.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub node: Arc<str>,
    pub words: String,
    /// What holds it, when something does.
    pub blocked: Option<Blocked>,
    pub saving: Option<MicroDollars>,
}

/// What came of a pass.
#[derive(Clone, Debug)]
pub struct Found<N> {
    pub proposals: Vec<Proposal<N>>,
    pub verdicts: Vec<Verdict>,
    /// How pools with policy Balanced found the moves that were judged.
    pub scores: Vec<(Arc<str>, Score)>,
    /// What a search for many nodes at once was given that found nothing.
    pub fruitless: Option<u64>,
    /// A budget kept a node from being disrupted.
    pub constrained: bool,
}

enum Phase<'a, N> {
    Drift(Drifting<'a>),
    Consolidation(Consolidating<'a, N>),
    Over,
}

/// One pass.
pub struct Search<'a, N> {
    situation: &'a Situation,
    found: Found<N>,
    phase: Phase<'a, N>,
    /// Single nodes that are asked about at once; the first in their order that can go ends the pass.
    at_once: usize,
}

impl<'a, N: PlannedNode> Search<'a, N> {
    pub fn new(situation: &'a Situation, at_once: usize) -> Self {
        let found = Found {
            proposals: Vec::new(),
            verdicts: Vec::new(),
            scores: Vec::new(),
            fruitless: None,
            constrained: false,
        };
        let mut search = Self { situation, found, phase: Phase::Over, at_once: at_once.max(1) };
        search.find_empty();
        if search.found.proposals.is_empty() {
            search.find_static_drift();
        }
        if search.found.proposals.is_empty() {
            let drifting = search.begin_drift();
            search.phase = Phase::Drift(drifting);
        }
        search.advance();
        search
    }

    /// The removals to simulate next; none when the pass is over.
    pub fn questions(&self) -> Vec<Question> {
        if !self.found.proposals.is_empty() {
            return Vec::new();
        }
        match &self.phase {
            Phase::Drift(drifting) => drifting.questions(self),
            Phase::Consolidation(consolidating) => consolidating.questions(self),
            Phase::Over => Vec::new(),
        }
    }

    /// One answer for each question, in order; an error where a node is unknown or being deleted meanwhile, which is no verdict on the
    /// others.
    pub fn answer(&mut self, answers: Vec<Result<Answer<N>, String>>) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Drift(drifting) => self.phase = Phase::Drift(self.answer_drift(drifting, answers)),
            Phase::Consolidation(consolidating) => {
                self.phase = Phase::Consolidation(self.answer_consolidation(consolidating, answers));
            }
            Phase::Over => {}
        }
        self.advance();
    }

    /// What was found so far and is not carried out yet.
    pub fn proposals(&self) -> &[Proposal<N>] {
        &self.found.proposals
    }

    /// The proposals are carried out, which changed these nodes. The pass goes on with the single nodes that it left as they were,
    /// within what is left of the budgets; other methods begin anew with the next pass.
    pub fn carried_out(&mut self, changed: &BTreeSet<Arc<str>>) {
        let done = std::mem::take(&mut self.found.proposals);
        match &mut self.phase {
            Phase::Consolidation(Consolidating::Single(singles)) => {
                let removed = done.iter().flat_map(|proposal| &proposal.nodes);
                let entries = removed.filter_map(|node| self.situation.entry(node));
                singles.leave_out(changed, entries.map(|entry| &entry.candidate.pool));
                self.advance();
            }
            phase => *phase = Phase::Over,
        }
    }

    pub fn finish(self) -> Found<N> {
        self.found
    }

    /// On to the next method that has a question.
    fn advance(&mut self) {
        while self.found.proposals.is_empty() {
            match &self.phase {
                Phase::Over => return,
                Phase::Drift(drifting) if !drifting.is_over() => return,
                Phase::Drift(_) if self.situation.outstanding_replacements => self.phase = Phase::Over,
                Phase::Drift(_) => {
                    let consolidating = self.begin_consolidation();
                    self.phase = Phase::Consolidation(consolidating);
                }
                Phase::Consolidation(consolidating) if consolidating.has_question() => return,
                Phase::Consolidation(_) => {
                    if let Phase::Consolidation(over) = std::mem::replace(&mut self.phase, Phase::Over) {
                        self.phase =
                            self.next_of_consolidation(over).map_or(Phase::Over, Phase::Consolidation);
                    }
                }
            }
        }
    }

    fn find_empty(&mut self) {
        let situation = self.situation;
        let entries = || situation.entries.iter().filter(|entry| entry.methods.emptiness);
        let candidates = || entries().map(|entry| &entry.candidate);
        let chosen = consolidation::choose_empty(candidates(), situation.allowance(Reason::Empty));
        let empty = candidates().filter(|candidate| candidate.is_empty()).count();
        self.found.constrained |= chosen.len() < empty;
        for some in chosen.chunks(MOST_EMPTY) {
            self.found.proposals.push(Proposal {
                method: Method::Emptiness,
                nodes: names(some),
                planned: Vec::new(),
                saving: some.iter().map(|candidate| candidate.price).sum(),
                pods_moved: 0,
                payback: SignedDuration::ZERO,
            });
        }
    }

    /// With the nodes of commands that no simulation sees yet.
    fn question(&self, nodes: Vec<Arc<str>>, purpose: Purpose, below: MicroDollars) -> Question {
        let mut remove = nodes;
        remove.extend(self.situation.outstanding.iter().cloned());
        Question { remove, purpose, below }
    }
}

fn names(candidates: &[&Candidate]) -> Vec<Arc<str>> {
    candidates.iter().map(|candidate| Arc::clone(&candidate.node)).collect()
}

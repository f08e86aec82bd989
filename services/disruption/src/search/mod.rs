//! One look for nodes to remove: which of the candidates could go, by asking the provisioner what would happen. Decides with
//! `policy`, asks through [`Probes`]; runs beside the actor, on a picture that does not change.

mod consolidate;
mod drift;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::labels;
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::churn;
use policy::consolidation::{
    self, Allowance, Candidate, Outcome, PoolTotals, Replacement, Score, TypeOption,
};
use policy::drift::FixedPool;
use policy::{Method, Reason};
use proto::provisioner::v1::{SimulateResponse, SimulationPurpose};
use proto::types::v1 as types;
use tonic::Status;

use crate::actor::Basis;
use crate::command::{Member, Proposal};
use crate::probe::{Probes, Removal};

/// What-ifs asked at once; the first that works ends the search.
const AT_ONCE: usize = 64;

/// A node that some method may take.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) member: Member,
    pub(crate) candidate: Candidate,
    pub(crate) methods: Methods,
    /// Since when it is drifted.
    pub(crate) drifted: Option<Timestamp>,
    pub(crate) basis: Basis,
    /// A what-if on the same basis failed already.
    pub(crate) known: bool,
}

/// The methods that may take a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Methods {
    pub(crate) emptiness: bool,
    pub(crate) fixed_drift: bool,
    pub(crate) drift: bool,
    pub(crate) consolidation: bool,
}

impl Entry {
    fn pods(&self) -> usize {
        self.member.pods.as_ref().map_or(0, BTreeSet::len)
    }
}

/// The picture that a look works on.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) entries: Vec<Entry>,
    pub(crate) allowances: BTreeMap<Reason, Allowance>,
    /// Nodes of proposals that wait for their second look: they are as good as gone.
    pub(crate) outstanding: Vec<Arc<str>>,
    /// One of them brings new nodes, which no simulation knows yet.
    pub(crate) outstanding_replacements: bool,
    pub(crate) fixed_pools: BTreeMap<Arc<str>, FixedPool>,
    /// Pools whose last drift replacement failed a moment ago.
    pub(crate) resting: BTreeSet<Arc<str>>,
    /// Pools with policy Balanced, and the totals of all.
    pub(crate) balanced: BTreeSet<Arc<str>>,
    pub(crate) totals: BTreeMap<Arc<str>, PoolTotals>,
    /// Settings of all pools against churn.
    pub(crate) churn: BTreeMap<Arc<str>, churn::Settings>,
    /// What the last search for many at once was given, when it found nothing.
    pub(crate) fruitless: Option<u64>,
    /// Gate `SpotToSpotConsolidation`.
    pub(crate) spot_to_spot: bool,
}

/// What was found out about one node.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) node: Arc<str>,
    pub(crate) words: String,
    /// What holds it, when the answer was one.
    pub(crate) blocked: Option<Blocked>,
    pub(crate) saving: Option<MicroDollars>,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) proposals: Vec<Proposal>,
    /// What was known about the nodes when the look began.
    pub(crate) bases: BTreeMap<Arc<str>, Basis>,
    pub(crate) verdicts: Vec<Verdict>,
    /// How pools with policy Balanced found the moves that were judged.
    pub(crate) scores: Vec<(Arc<str>, Score)>,
    /// What a search for many at once was given that found nothing.
    pub(crate) fruitless: Option<u64>,
    /// A budget kept somebody out.
    pub(crate) constrained: bool,
}

/// The methods in their order; the first that finds something ends the look.
pub(crate) async fn look(situation: Situation, probes: Probes) -> Result<Found, Status> {
    let bases = situation.entries.iter().map(|entry| (Arc::clone(&entry.member.node), entry.basis)).collect();
    let mut look = Look { found: Found { bases, ..Found::default() }, situation, probes };
    look.emptiness();
    if look.found.proposals.is_empty() {
        look.fixed_drift();
    }
    if look.found.proposals.is_empty() {
        look.drift().await?;
    }
    if look.found.proposals.is_empty() && !look.situation.outstanding_replacements {
        look.consolidate().await?;
    }
    Ok(look.found)
}

/// What a simulation came to, as `policy` judges it.
pub(crate) fn outcome(answer: &SimulateResponse) -> Outcome {
    let name = |pod: Option<&types::PodRef>| {
        pod.map_or_else(String::new, |pod| format!("{}/{}", pod.namespace, pod.name))
    };
    let left = answer.unschedulable.iter().map(|left| name(left.pod.as_ref()));
    Outcome {
        left_over: left.chain(answer.not_reached.iter().map(|pod| name(Some(pod)))).collect(),
        new_nodes: answer.new_nodes.iter().map(replacement).collect(),
    }
}

fn replacement(node: &types::PlannedNode) -> Replacement {
    let capacity = node.requirements.iter().find(|requirement| requirement.key == labels::CAPACITY_TYPE);
    let allows = |value: &str| {
        capacity.is_none_or(|requirement| {
            let listed = requirement.values.iter().any(|listed| listed == value);
            match requirement.operator() {
                types::Operator::In => listed,
                types::Operator::NotIn => !listed,
                types::Operator::DoesNotExist => false,
                _ => true,
            }
        })
    };
    let (spot, on_demand) = (allows(labels::SPOT), allows(labels::ON_DEMAND));
    let priced = node.instance_types.iter().zip(&node.worst_micro_usd_per_hour);
    let option = |(name, worst): (&String, &i64)| TypeOption {
        name: name.as_str().into(),
        worst_price: MicroDollars::new(*worst),
        worst_spot_price: spot.then(|| MicroDollars::new(*worst)),
    };
    // The provisioner keeps only types that meet the pool's minValues together, so none is counted here.
    Replacement {
        types: priced.map(option).collect(),
        allows_spot: spot,
        allows_on_demand: on_demand,
        min_values: Vec::new(),
    }
}

struct Look {
    situation: Situation,
    probes: Probes,
    found: Found,
}

impl Look {
    /// Entries are in the order of their nodes' names.
    fn entry(&self, node: &str) -> Option<&Entry> {
        let found = self.situation.entries.binary_search_by(|entry| (*entry.member.node).cmp(node));
        found.ok().map(|index| &self.situation.entries[index])
    }

    fn allowance(&self, reason: Reason) -> Allowance {
        self.situation.allowances.get(&reason).cloned().unwrap_or_default()
    }

    fn members(&self, chosen: &[&Candidate]) -> Vec<Member> {
        chosen.iter().filter_map(|candidate| Some(self.entry(&candidate.node)?.member.clone())).collect()
    }

    fn emptiness(&mut self) {
        let entries = self.situation.entries.iter().filter(|entry| entry.methods.emptiness);
        let candidates: Vec<Candidate> = entries.map(|entry| entry.candidate.clone()).collect();
        let chosen = consolidation::choose_empty(&candidates, self.allowance(Reason::Empty));
        let empty = candidates.iter().filter(|candidate| candidate.is_empty()).count();
        self.found.constrained |= chosen.len() < empty;
        if !chosen.is_empty() {
            let saving = chosen.iter().map(|candidate| candidate.price).sum();
            let members = self.members(&chosen);
            self.found.proposals.push(Proposal {
                method: Method::Emptiness,
                members,
                planned: Vec::new(),
                saving,
                pods_moved: 0,
                payback: SignedDuration::ZERO,
            });
        }
    }

    /// With the nodes that are as good as gone.
    fn removal(&self, nodes: &[Arc<str>], purpose: SimulationPurpose, below: MicroDollars) -> Removal {
        let mut all = nodes.to_vec();
        all.extend(self.situation.outstanding.iter().cloned());
        Removal { nodes: all, purpose, below }
    }
}

/// The question, not the provisioner, was at fault.
pub(crate) fn is_about_a_node(status: &Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::FailedPrecondition | tonic::Code::NotFound | tonic::Code::InvalidArgument
    )
}

//! One look for nodes to remove: which of the candidates could go, by asking the provisioner what would happen. Decides with
//! `policy`, asks through [`Probes`]; runs beside the actor, on a picture that does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use model::labels;
use model::price::MicroDollars;
use policy::candidate::Blocked;
use policy::churn;
use policy::consolidation::{
    self, Allowance, Candidate, Decision, MultiNode, Outcome, PoolTotals, Refusal, Replacement, Score,
    SingleNode, TypeOption,
};
use policy::{Method, Reason};
use proto::provisioner::v1::{SimulateResponse, SimulationPurpose};
use proto::types::v1 as types;
use tonic::Status;

use crate::actor::Basis;
use crate::command::{Member, Proposal};
use crate::probe::{Probes, Removal};

/// Single-node what-ifs asked at once; the first that works ends the search.
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

/// A pool whose number of nodes is fixed.
#[derive(Clone, Debug)]
pub(crate) struct FixedPool {
    pub(crate) name: Arc<str>,
    /// More nodes than asked for: scaling down comes first.
    pub(crate) above: bool,
    /// Nodes that may still be made under `limits.nodes`.
    pub(crate) headroom: u32,
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
    pub(crate) fixed_pools: Vec<FixedPool>,
    /// Pools whose last drift replacement failed a moment ago.
    pub(crate) resting: BTreeSet<Arc<str>>,
    /// Pools with policy Balanced, and the totals of all.
    pub(crate) balanced: BTreeSet<Arc<str>>,
    pub(crate) totals: BTreeMap<Arc<str>, PoolTotals>,
    /// Settings of all pools against churn.
    pub(crate) churn: BTreeMap<Arc<str>, churn::Settings>,
    /// What the last search for many at once was given, when it found nothing.
    pub(crate) fruitless: Option<u64>,
    pub(crate) settings: consolidation::Settings,
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
        let candidates = look.consolidation_candidates();
        look.multi(&candidates).await?;
        if look.found.proposals.is_empty() {
            look.single(&candidates).await?;
        }
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
            });
        }
    }

    fn fixed_drift(&mut self) {
        let mut allowance = self.allowance(Reason::Drifted);
        for pool in &self.situation.fixed_pools {
            let mut headroom = pool.headroom;
            let drifted = self
                .situation
                .entries
                .iter()
                .filter(|entry| entry.methods.fixed_drift && entry.member.pool == pool.name);
            for entry in drifted {
                let budget = allowance.get_mut(&pool.name);
                if pool.above || headroom == 0 || budget.as_ref().is_some_and(|left| **left == 0) {
                    self.found.constrained = true;
                    break;
                }
                headroom -= 1;
                if let Some(left) = budget {
                    *left -= 1;
                }
                let bare = types::PlannedNode {
                    name: "new-0".into(),
                    node_pool: pool.name.to_string(),
                    ..Default::default()
                };
                self.found.proposals.push(Proposal {
                    method: Method::StaticDrift,
                    members: vec![entry.member.clone()],
                    planned: vec![bare],
                    saving: MicroDollars::ZERO,
                    pods_moved: u32::try_from(entry.pods()).unwrap_or(u32::MAX),
                });
            }
        }
    }

    /// Those without pods first, then by how long they have been drifted.
    async fn drift(&mut self) -> Result<(), Status> {
        let mut allowance = self.allowance(Reason::Drifted);
        let mut drifted: Vec<&Entry> = self
            .situation
            .entries
            .iter()
            .filter(|entry| entry.methods.drift)
            .filter(|entry| !self.situation.resting.contains(&entry.member.pool))
            .collect();
        drifted.sort_by(|a, b| {
            let key = |entry: &Entry| (entry.pods() > 0, entry.drifted, Arc::clone(&entry.member.node));
            key(a).cmp(&key(b))
        });
        let mut taken: Vec<&Entry> = Vec::new();
        for entry in drifted {
            match allowance.get_mut(&entry.member.pool) {
                Some(0) => self.found.constrained = true,
                left => {
                    // Nodes without pods go together; of the others the first that works.
                    if entry.pods() == 0
                        && let Some(left) = left
                    {
                        *left -= 1;
                    }
                    taken.push(entry);
                }
            }
        }
        let (empty, full): (Vec<&Entry>, Vec<&Entry>) =
            taken.into_iter().partition(|entry| entry.pods() == 0);
        let delete = |entry: &Entry| Proposal {
            method: Method::Drift,
            members: vec![entry.member.clone()],
            planned: Vec::new(),
            saving: MicroDollars::ZERO,
            pods_moved: 0,
        };
        let mut proposals: Vec<Proposal> = empty.into_iter().map(delete).collect();
        if proposals.is_empty() {
            for some in full.chunks(AT_ONCE / 4) {
                let removals: Vec<Removal> = some
                    .iter()
                    .map(|entry| {
                        self.removal(
                            &[Arc::clone(&entry.member.node)],
                            SimulationPurpose::Drift,
                            MicroDollars::ZERO,
                        )
                    })
                    .collect();
                let answers = self.probes.ask_many(&removals).await?;
                let mut verdicts = Vec::new();
                for (entry, answer) in some.iter().zip(answers) {
                    let outcome = answer.as_ref().map(outcome).map_err(Clone::clone);
                    let (words, blocked) = match &outcome {
                        Err(error) => (error.clone(), None),
                        Ok(outcome) if !outcome.left_over.is_empty() => {
                            let blocked = Blocked::Unplaceable(outcome.left_over.clone());
                            (blocked.to_string(), Some(blocked))
                        }
                        Ok(outcome) => (
                            format!("drifted; can be replaced by {} new node(s)", outcome.new_nodes.len()),
                            None,
                        ),
                    };
                    verdicts.push(Verdict {
                        node: Arc::clone(&entry.member.node),
                        words,
                        blocked,
                        saving: None,
                    });
                    if let (Ok(outcome), Ok(answer)) = (outcome, answer)
                        && outcome.left_over.is_empty()
                    {
                        proposals.push(Proposal {
                            method: Method::Drift,
                            members: vec![entry.member.clone()],
                            planned: answer.new_nodes,
                            saving: MicroDollars::ZERO,
                            pods_moved: u32::try_from(entry.pods()).unwrap_or(u32::MAX),
                        });
                        break;
                    }
                }
                self.found.verdicts.extend(verdicts);
                if !proposals.is_empty() {
                    break;
                }
            }
        }
        self.found.proposals.extend(proposals);
        Ok(())
    }

    fn consolidation_candidates(&self) -> Vec<Candidate> {
        let entries = self.situation.entries.iter().filter(|entry| entry.methods.consolidation);
        entries.map(|entry| entry.candidate.clone()).collect()
    }

    /// With the nodes that are as good as gone.
    fn removal(&self, nodes: &[Arc<str>], purpose: SimulationPurpose, below: MicroDollars) -> Removal {
        let mut all = nodes.to_vec();
        all.extend(self.situation.outstanding.iter().cloned());
        Removal { nodes: all, purpose, below }
    }

    fn consolidation(&self, chosen: &[&Candidate]) -> Removal {
        let nodes: Vec<Arc<str>> = chosen.iter().map(|candidate| Arc::clone(&candidate.node)).collect();
        let price = chosen.iter().map(|candidate| candidate.price).sum();
        self.removal(&nodes, SimulationPurpose::Consolidation, price)
    }

    fn judge(&mut self, chosen: &[&Candidate], answer: &SimulateResponse) -> Decision {
        let outcome = outcome(answer);
        if !self.situation.outstanding.is_empty() && !outcome.new_nodes.is_empty() {
            // Whose place a new node would take cannot be told apart; look again when the others are carried out.
            return Decision::Leave(Refusal::TooManyNew(outcome.new_nodes.len()));
        }
        let opted_in = |candidate: &&Candidate| {
            self.situation.churn.get(&candidate.pool).is_some_and(|settings| settings.many_for_many)
        };
        let settings = consolidation::Settings {
            many_for_many: chosen.len() > 1 && chosen.iter().all(opted_in),
            ..self.situation.settings
        };
        let decision = consolidation::judge(chosen, &outcome, settings);
        let decision = if chosen.len() > 1 {
            consolidation::same_type_guard(chosen, &outcome.new_nodes, decision)
        } else {
            decision
        };
        if matches!(decision, Decision::Leave(_)) {
            return decision;
        }
        match self.worth_it(chosen, answer, &decision) {
            Ok(()) => decision,
            Err(refusal) => Decision::Leave(refusal),
        }
    }

    /// Every pool concerned must find it worth while: by its own settings against churn, and by policy Balanced.
    fn worth_it(
        &mut self,
        chosen: &[&Candidate],
        answer: &SimulateResponse,
        decision: &Decision,
    ) -> Result<(), Refusal> {
        let added = added(answer, decision);
        let movement = churn::Move {
            removed: chosen.iter().map(|candidate| candidate.price).sum(),
            added,
            new_nodes: if matches!(decision, Decision::Delete) { 0 } else { answer.new_nodes.len() },
        };
        let pools: BTreeSet<&Arc<str>> = chosen.iter().map(|candidate| &candidate.pool).collect();
        churn::worth(movement, pools.into_iter().filter_map(|pool| self.situation.churn.get(pool)))?;
        let scores =
            consolidation::balanced_scores(chosen, added, &self.situation.balanced, &self.situation.totals);
        let approved = scores.values().all(|score| score.approved);
        self.found.scores.extend(scores);
        if approved { Ok(()) } else { Err(Refusal::NotWorthIt) }
    }

    fn propose(
        &mut self,
        method: Method,
        chosen: &[&Candidate],
        answer: SimulateResponse,
        decision: &Decision,
    ) {
        let price: MicroDollars = chosen.iter().map(|candidate| candidate.price).sum();
        let saving = price - added(&answer, decision);
        let planned = planned(answer, decision);
        let members = self.members(chosen);
        let pods = members.iter().filter_map(|member| member.pods.as_ref()).map(BTreeSet::len).sum::<usize>();
        self.found.proposals.push(Proposal {
            method,
            members,
            planned,
            saving,
            pods_moved: u32::try_from(pods).unwrap_or(u32::MAX),
        });
    }

    async fn multi(&mut self, candidates: &[Candidate]) -> Result<(), Status> {
        let given = self.fingerprint(candidates);
        if self.situation.fruitless == Some(given) {
            self.found.fruitless = Some(given);
            return Ok(());
        }
        let mut search = MultiNode::new(candidates, self.allowance(Reason::Underutilized));
        let mut best: Option<SimulateResponse> = None;
        while let Some(chosen) = search.next() {
            let chosen: Vec<&Candidate> = chosen.to_vec();
            let answer = self.probes.ask(&self.consolidation(&chosen)).await;
            let (decision, answer) = match answer {
                Ok(answer) => (self.judge(&chosen, &answer), Some(answer)),
                // One of them is on its way out meanwhile, or unknown there: a shorter list may do without it.
                Err(status) if is_about_a_node(&status) => (Decision::Leave(Refusal::NotCheaper), None),
                Err(status) => return Err(status),
            };
            if !matches!(decision, Decision::Leave(_)) {
                best = answer;
            }
            search.tell(decision);
        }
        match (search.best(), best) {
            (Some((chosen, decision)), Some(answer)) => {
                let many = answer.new_nodes.len() > 1 && matches!(decision, Decision::Replace(_));
                let method = if many { Method::ManyForMany } else { Method::MultiNode };
                self.propose(method, &chosen, answer, &decision);
            }
            _ => self.found.fruitless = Some(given),
        }
        Ok(())
    }

    /// Of everything that a search for many at once depends on.
    fn fingerprint(&self, candidates: &[Candidate]) -> u64 {
        let mut hasher = DefaultHasher::new();
        for candidate in candidates {
            candidate.node.hash(&mut hasher);
            self.entry(&candidate.node).map(|entry| (entry.basis.freed, entry.basis.own)).hash(&mut hasher);
        }
        self.allowance(Reason::Underutilized).hash(&mut hasher);
        self.situation.outstanding.hash(&mut hasher);
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
            let mut first: Option<(&Candidate, SimulateResponse, Decision)> = None;
            for (candidate, answer) in some.iter().zip(answers) {
                let (words, blocked, saving) = match answer {
                    Err(error) => (error, None, None),
                    Ok(answer) => match self.judge(&[candidate], &answer) {
                        Decision::Leave(refusal) => {
                            (refusal.to_string(), Some(Blocked::NoSaving(refusal)), None)
                        }
                        decision => {
                            let saving = candidate.price - added(&answer, &decision);
                            let words = match &decision {
                                Decision::Delete => "its pods fit on other nodes".to_owned(),
                                _ => "a cheaper node can replace it".to_owned(),
                            };
                            if first.is_none() {
                                first = Some((candidate, answer, decision));
                            }
                            (words, None, Some(saving))
                        }
                    },
                };
                self.found.verdicts.push(Verdict {
                    node: Arc::clone(&candidate.node),
                    words,
                    blocked,
                    saving,
                });
            }
            if let Some((candidate, answer, decision)) = first {
                self.propose(Method::SingleNode, &[candidate], answer, &decision);
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

/// The question, not the provisioner, was at fault.
pub(crate) fn is_about_a_node(status: &Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::FailedPrecondition | tonic::Code::NotFound | tonic::Code::InvalidArgument
    )
}

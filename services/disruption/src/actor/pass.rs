//! Before and after a search: the picture it works on, and what becomes of its findings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consolidation::search::{self, Entry, Methods, Situation};
use jiff::Timestamp;
use model::do_not_disrupt::DoNotDisrupt;
use model::quantity::Quantity;
use policy::budget::{self, Budgets, CountedNode, Counts, State};
use policy::candidate::{self, Blocked, EventReason, Pdbs};
use policy::churn;
use policy::command::Memory;
use policy::consolidation::{COST_UNIT, PoolTotals, Score, pool_totals};
use policy::drain::pod::Owner;
use policy::drift::FixedPool;
use policy::{Method, Reason};
use tonic::Status;
use tracing::{Instrument as _, debug, info, warn};

use super::{Actor, Done, Pass, Probed, plus};
use crate::candidates;
use crate::cluster::{Claim, NodeState};
use crate::command::{Command, Member, Proposal, Stage};
use crate::metrics::Reason as ReasonLabel;
use crate::metrics::{Evaluation, Move, PoolReason};
use crate::probe::Told;
use crate::simulation::{self, planned_nodes};

const TELL_AGAIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

/// A search that finds nothing takes at most this part of the time: the reciprocal.
const DUTY: i32 = 4;

/// The budgets of all pools, by reason.
pub(crate) type PoolBudgets = BTreeMap<Arc<str>, BTreeMap<Reason, State>>;

impl Actor {
    pub(super) fn look(&mut self, now: Timestamp) {
        self.dirty = false;
        self.next_look = plus(now, self.options.look_interval);
        self.mark_pools(now);
        self.ask_prices(now);
    }

    pub(super) fn ask_prices(&mut self, now: Timestamp) {
        self.looking = true;
        self.last_look = now;
        let probes = self.probes.clone();
        self.tasks.spawn(async move {
            let result = probes.told().await;
            Done::Seen { result, began: now }
        });
    }

    /// Prices and promises are known: the search may begin.
    pub(super) fn seen(&mut self, result: Result<Told, Status>, began: Timestamp, now: Timestamp) {
        match result {
            Ok(told) => self.hear(told, began),
            Err(status) => return self.looked(Err(status), began, now),
        }
        if self.term.is_none() {
            self.looking = false;
            return;
        }
        let budgets = self.budgets(now);
        self.show_budgets(&budgets);
        let (situation, members) = self.situation(&budgets, now);
        self.show_eligible(&situation);
        if situation.entries.is_empty() {
            self.looking = false;
            self.metrics.passes.completed(now);
            return;
        }
        let probes = self.probes.not_older_than(self.cluster.claims_version());
        let span = tracing::info_span!(parent: None, "look for nodes to remove", candidates = situation.entries.len());
        let search = async move {
            let found = simulation::search(&situation, &probes).await;
            let result = found.map(|found| Pass { found, members });
            Done::Looked { result, began }
        };
        self.tasks.spawn(search.instrument(span));
    }

    /// What only the provisioner knows. Drift may turn on a placement group that was made anew under its old name.
    pub(super) fn hear(&mut self, told: Told, asked: Timestamp) {
        self.seen_at = self.seen_at.max(asked);
        self.seen = told.nodes;
        self.catalogue = told.catalogue;
        let before = std::mem::replace(&mut self.groups, told.groups);
        if before != self.groups {
            let changed = |claim: &&Arc<Claim>| before.get(&claim.class) != self.groups.get(&claim.class);
            self.touched.claims.extend(self.cluster.claims().filter(changed).map(|claim| claim.name.clone()));
        }
    }

    /// Nodes that count for each pool's budgets, and what is left of these. Proposals count from the moment they are made.
    pub(crate) fn budgets(&self, now: Timestamp) -> PoolBudgets {
        let mut counts: BTreeMap<&Arc<str>, Counts> = BTreeMap::new();
        for (pool, node) in self.counted_nodes(|_| true) {
            counts.entry(pool).or_default().add(node);
        }
        let states = |(name, pool): (&Arc<str>, &Arc<api::NodePool>)| {
            let counts = counts.get(name).copied().unwrap_or_default();
            (Arc::clone(name), budget_states(pool, counts, now))
        };
        self.cluster.pools().map(states).collect()
    }

    /// The same for one pool.
    pub(super) fn budgets_of(&self, pool: &Arc<str>, now: Timestamp) -> PoolBudgets {
        let Some(object) = self.cluster.pool(pool) else { return PoolBudgets::new() };
        let mut counts = Counts::default();
        for (_, node) in self.counted_nodes(|of| of == pool) {
            counts.add(node);
        }
        PoolBudgets::from([(Arc::clone(pool), budget_states(object, counts, now))])
    }

    fn counted_nodes(
        &self,
        of: impl Fn(&Arc<str>) -> bool,
    ) -> impl Iterator<Item = (&Arc<str>, CountedNode)> {
        let taken: BTreeSet<&str> = self.members().map(|member| &*member.node).collect();
        self.cluster.nodes().filter_map(move |node| {
            let pool = node.pool.as_ref().filter(|pool| of(pool))?;
            let claim = self.cluster.claim_of(node)?;
            let counted = CountedNode {
                managed: node.managed,
                initialized: node.initialized,
                instance_terminating: claim.is_instance_terminating(),
                ready: node.ready,
                leaving: claim.deleting || node.deleting,
                // Traces that could not be taken off keep it out of use all the same.
                reserved: taken.contains(&*node.name) || claim.note.is_some(),
            };
            Some((pool, counted))
        })
    }

    fn show_budgets(&self, budgets: &PoolBudgets) {
        for (pool, states) in budgets {
            for (reason, state) in states {
                let labels = PoolReason { nodepool: pool.to_string(), reason: reason.as_str() };
                self.metrics.allowed.get_or_create(&labels).set(i64::from(state.allowed));
                self.metrics.consuming.get_or_create(&labels).set(i64::from(state.away));
                if state.forbids()
                    && let Some(object) = self.cluster.pool(pool)
                {
                    let why = match &state.problem {
                        Some(problem) => problem.to_string(),
                        None => format!(
                            "No allowed disruptions for disruption reason {reason} due to blocking budget"
                        ),
                    };
                    self.events.pool_blocked(object, reason.as_str(), &why);
                }
            }
        }
    }

    fn show_eligible(&self, situation: &Situation) {
        let count = |which: &dyn Fn(&Entry) -> bool| {
            i64::try_from(situation.entries.iter().filter(|e| which(e)).count()).unwrap_or(0)
        };
        let set = |reason, value| {
            self.metrics.eligible.get_or_create(&ReasonLabel { reason }).set(value);
        };
        set("empty", count(&|entry| entry.methods.emptiness));
        set("underutilized", count(&|entry| entry.methods.consolidation));
        set("drifted", count(&|entry| entry.methods.drift || entry.methods.fixed_drift));
    }

    /// Every node that a command has or will have.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.commands.values().flat_map(|command| command.members())
    }

    pub(super) fn situation(
        &mut self,
        budgets: &PoolBudgets,
        now: Timestamp,
    ) -> (Situation, BTreeMap<Arc<str>, (Member, u64)>) {
        let taken: BTreeSet<Arc<str>> = self.members().map(|member| Arc::clone(&member.node)).collect();
        let pdbs = self.cluster.pdbs();
        // A search must see what the last decision does to a pool before it decides about that pool again.
        let unsettled: BTreeSet<Arc<str>> = self
            .commands
            .values()
            .filter(|command| command.is_unsettled(now))
            .flat_map(|command| command.members())
            .map(|member| Arc::clone(&member.pool))
            .collect();
        let settled = |node: &&Arc<NodeState>| {
            !taken.contains(&node.name) && node.pool.as_ref().is_none_or(|pool| !unsettled.contains(pool))
        };
        let nodes: Vec<Arc<NodeState>> = self.cluster.nodes().filter(settled).cloned().collect();
        let (mut entries, mut members) = (Vec::new(), BTreeMap::new());
        for (entry, member) in nodes.iter().filter_map(|node| self.entry(node, &pdbs, now)) {
            members.insert(Arc::clone(&member.node), (member, entry.basis));
            entries.push(entry);
        }
        entries.sort_by(|a, b| a.candidate.node.cmp(&b.candidate.node));
        // What commands do that no simulation sees yet.
        let unseen = || {
            self.commands
                .values()
                .filter(|command| command.stage == Stage::Proposed || command.is_unsettled(now))
        };
        let situation = Situation {
            entries,
            allowances: Reason::ALL
                .into_iter()
                .map(|reason| {
                    let states =
                        budgets.iter().filter_map(|(pool, states)| Some((pool, states.get(&reason)?)));
                    (reason, budget::allowance(states))
                })
                .collect(),
            outstanding: unseen()
                .filter(|command| command.needs == 0)
                .flat_map(|command| command.members())
                .filter(|member| self.cluster.claim(&member.claim).is_some_and(|claim| !claim.deleting))
                .map(|member| Arc::clone(&member.node))
                .collect(),
            outstanding_replacements: unseen().any(|command| command.needs > 0),
            fixed_pools: self.fixed_pools(),
            backing_off: self
                .cluster
                .pools()
                .filter(|(pool, _)| self.resting.resting_until(pool, now).is_some())
                .map(|(pool, _)| Arc::clone(pool))
                .collect(),
            balanced: self.balanced(),
            totals: self.totals(),
            churn: self
                .cluster
                .pools()
                .map(|(pool, object)| (Arc::clone(pool), consolidation::churn_settings(object)))
                .collect(),
            fruitless: self.fruitless,
            spot_to_spot: self.options.spot_to_spot,
        };
        (situation, members)
    }

    /// The node as a search sees it; `None` when no method may take it. Tells whom it concerns what holds it.
    fn entry(&mut self, node: &Arc<NodeState>, pdbs: &Pdbs, now: Timestamp) -> Option<(Entry, Member)> {
        let claim = Arc::clone(self.cluster.claim_of(node)?);
        if claim.note.is_some()
            || self.awaits_pods_of(&claim).is_some()
            || self.node_backoff.resting_until(&node.name, now).is_some()
            || self.paused(&claim.pool, now).is_some()
        {
            return None;
        }
        let seen = self.seen.get(&node.name);
        let subject = candidates::subject(&self.cluster, node, seen, None, None, now);
        self.tell_pods(&subject, now);
        let costs = subject.costs();
        let quiet = if costs.is_empty() { Method::Emptiness } else { Method::SingleNode };
        let mut methods = Methods::default();
        match candidate::eligible(&subject, quiet, pdbs, now) {
            Ok(()) if quiet == Method::Emptiness => methods.emptiness = true,
            Ok(()) if self.resting.resting_until(&claim.pool, now).is_some() => {}
            Ok(()) if self.unrealised_until(&claim.pool, now).is_some() => {}
            Ok(()) => methods.consolidation = self.cooling_until(&claim.pool, now).is_none(),
            Err(blocked) => self.tell(node, &claim, &blocked, now),
        }
        if subject.is_drifted() {
            methods.drift = candidate::eligible(&subject, Method::Drift, pdbs, now).is_ok();
            methods.fixed_drift = candidate::eligible(&subject, Method::StaticDrift, pdbs, now).is_ok();
        }
        let candidate = subject.candidate().filter(|_| methods.any())?;
        let reschedulable = subject.pods.iter().filter(|pod| pod.is_reschedulable());
        let pods: BTreeSet<Arc<str>> = reschedulable.map(|pod| Arc::clone(&pod.pod.uid)).collect();
        // Room that came free anywhere, its own pods and price, and what everything costs: a price may have fallen.
        let basis = fingerprint((self.cluster.freed(), &pods, candidate.price.get(), self.catalogue));
        let recent = |probed: &&Probed| now < plus(probed.at, self.options.full_look_interval);
        let probed = self.probed.get(&node.name).filter(|probed| probed.basis == basis).filter(recent);
        let entry = Entry {
            known: probed.is_some_and(|probed| probed.verdict.saving.is_none()),
            basis,
            candidate,
            methods,
            pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
            drifted: subject.claim.and_then(|claim| claim.drifted).map(|drifted| drifted.since),
        };
        let member = Member {
            node: Arc::clone(&node.name),
            node_uid: Arc::clone(&node.uid),
            claim: Arc::clone(&claim.name),
            claim_uid: Arc::clone(&claim.uid),
            pool: Arc::clone(&claim.pool),
            capacity_type: node.capacity_type.clone().unwrap_or_default(),
            pods: Some(pods),
        };
        Some((entry, member))
    }

    /// Owners of pods hear what their do-not-disrupt annotation does.
    fn tell_pods(&mut self, subject: &candidate::Subject, now: Timestamp) {
        let annotated = subject.pods.iter().filter(|pod| pod.pod.do_not_disrupt != DoNotDisrupt::Absent);
        for pod in annotated.filter(|pod| pod.pod.is_active()) {
            let Some(notice) = candidate::notice(&pod.pod, now) else { continue };
            let words = notice.to_string();
            if self.told.get(&pod.pod.uid).is_none_or(|(known, until)| *known != words || now >= *until) {
                self.events.notice(&pod.pod, &notice);
                self.told.insert(Arc::clone(&pod.pod.uid), (words, plus(now, TELL_AGAIN)));
            }
        }
    }

    /// The same words about the same node once in a quarter of an hour.
    fn tell(&mut self, node: &NodeState, claim: &Claim, blocked: &Blocked, now: Timestamp) {
        let Some(event) = blocked.event() else { return };
        let words = blocked.to_string();
        let told = self.told.get(&node.name);
        if told.is_some_and(|(known, until)| *known == words && now < *until) {
            return;
        }
        match event {
            EventReason::DisruptionBlocked => self.events.blocked((Some(node), Some(claim)), &words),
            EventReason::Unconsolidatable => self.events.unconsolidatable((Some(node), Some(claim)), &words),
        }
        self.told.insert(Arc::clone(&node.name), (words, plus(now, TELL_AGAIN)));
    }

    /// Pools with a fixed number of nodes, and what becomes of their claims.
    fn fixed_pools(&self) -> BTreeMap<Arc<str>, FixedPool> {
        let fixed = self.cluster.pools().filter_map(|(name, pool)| {
            let limit = pool.spec.limits.as_ref().and_then(|limits| limits.get("nodes"));
            let fixed = FixedPool {
                replicas: u32::try_from(pool.spec.replicas?.max(0)).unwrap_or(u32::MAX),
                limit: limit.map(|nodes| {
                    let nodes = nodes.text().parse::<Quantity>().map_or(0, Quantity::value_ceil);
                    u32::try_from(nodes.max(0)).unwrap_or(u32::MAX)
                }),
                ..FixedPool::default()
            };
            Some((Arc::clone(name), fixed))
        });
        let mut fixed: BTreeMap<Arc<str>, FixedPool> = fixed.collect();
        if fixed.is_empty() {
            return fixed;
        }
        let going: BTreeSet<&Arc<str>> = self.members().map(|member| &member.claim).collect();
        for claim in self.cluster.claims() {
            let Some(pool) = fixed.get_mut(&claim.pool) else { continue };
            match claim {
                claim if claim.deleting => pool.deleting += 1,
                claim if going.contains(&claim.name) => pool.replacing += 1,
                _ => pool.active += 1,
            }
        }
        for command in self.commands.values().filter(|command| !command.is_over()) {
            let made = self.cluster.claims_of(&command.id).filter(|claim| claim.made_for.is_some()).count();
            let open = u32::try_from(command.needs.saturating_sub(made)).unwrap_or(u32::MAX);
            let pool = command.members().first().and_then(|member| fixed.get_mut(&member.pool));
            if let Some(pool) = pool {
                pool.granted = pool.granted.saturating_add(open);
            }
        }
        fixed
    }

    fn balanced(&self) -> BTreeSet<Arc<str>> {
        let balanced = |pool: &api::NodePool| {
            pool.spec.disruption.consolidation_policy == api::disruption::ConsolidationPolicy::Balanced
        };
        self.cluster.pools().filter(|(_, pool)| balanced(pool)).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Price, and what moving all pods costs, of all nodes of each pool.
    fn totals(&self) -> BTreeMap<Arc<str>, PoolTotals> {
        let nodes = self.cluster.nodes().filter_map(|node| {
            let pods = self.cluster.pods_on(&node.name).filter(|pod| pod.resident.pod.owner != Owner::Daemon);
            let cost = COST_UNIT + pods.map(|pod| pod.resident.eviction_cost.max(0)).sum::<i64>();
            let price = self.seen.get(&node.name).and_then(|seen| seen.price).unwrap_or_default();
            Some((Arc::clone(node.pool.as_ref()?), price, cost))
        });
        pool_totals(nodes)
    }

    /// The command whose nodes this claim takes the pods of, while any of them is still there. Until then it is not empty but
    /// awaits its pods.
    pub(super) fn awaits_pods_of(&self, claim: &Claim) -> Option<Arc<str>> {
        let id = claim.made_for.as_ref()?;
        let coming =
            self.commands.contains_key(id) || self.cluster.claims_of(id).any(|other| other.note.is_some());
        coming.then(|| Arc::clone(id))
    }

    /// Set where a person stopped voluntary disruption of the pool.
    pub(super) fn paused(&self, pool: &str, now: Timestamp) -> Option<Blocked> {
        let until = consolidation::churn_settings(self.cluster.pool(pool)?).paused(now)?;
        let why = format!("annotation {} of the NodePool", model::labels::PAUSED_UNTIL);
        Some(Blocked::CoolingDown { pool: Arc::from(pool), until, why })
    }

    /// Until when the pool of a claim is left alone after its last consolidation.
    pub(super) fn cooling_until(&self, pool: &str, now: Timestamp) -> Option<Timestamp> {
        let settings = consolidation::churn_settings(self.cluster.pool(pool)?);
        if settings.cool_down == jiff::SignedDuration::ZERO {
            return None;
        }
        let last = self.cluster.last_replacement(pool).max(self.consolidated.get(pool).copied());
        churn::cooling_until(&settings, last, now)
    }

    pub(super) fn looked(&mut self, result: Result<Pass, Status>, began: Timestamp, now: Timestamp) {
        self.looking = false;
        if self.term.is_none() {
            return;
        }
        let took = now.duration_since(began).as_secs_f64();
        self.metrics.look.observe(took);
        let Pass { found, members } = match result {
            Ok(pass) => pass,
            Err(status) => {
                warn!(code = ?status.code(), error = status.message(), "no what-if from the provisioner; looking again soon");
                self.dirty = true;
                self.next_look = plus(now, jiff::SignedDuration::from_secs(2));
                return;
            }
        };
        debug!(
            took,
            proposals = found.proposals.len(),
            probed = found.verdicts.len(),
            "looked for nodes to remove"
        );
        self.metrics.passes.completed(now);
        self.resting.forget(now);
        self.ledger.backoff.forget(now);
        self.node_backoff.forget(now);
        self.left_behind.forget(now);
        self.told.retain(|_, (_, until)| now < *until);
        self.probed.retain(|node, _| self.cluster.node(node).is_some());
        for verdict in found.verdicts {
            if verdict.saving.is_none()
                && let Some(node) = self.cluster.node(&verdict.node).cloned()
                && let Some(claim) = self.cluster.claim_of(&node).cloned()
                && let Some(blocked) = &verdict.blocked
            {
                self.tell(&node, &claim, blocked, now);
            }
            if let Some((_, basis)) = members.get(&verdict.node) {
                self.probed.insert(Arc::clone(&verdict.node), Probed { verdict, at: now, basis: *basis });
            }
        }
        let proposals: Vec<Proposal> =
            found.proposals.iter().map(|proposal| with_members(proposal, &members)).collect();
        self.show_moves(&found.scores, &proposals);
        self.fruitless = found.fruitless;
        let any = !found.proposals.is_empty();
        if !any {
            let took = now.duration_since(began);
            self.next_look = self.next_look.max(plus(now, took.saturating_mul(DUTY)));
        }
        for proposal in proposals {
            self.propose(proposal, began, now);
        }
        if any {
            self.dirty = true;
            self.next_look = now;
        }
    }

    /// Counts what consolidation weighed, and tells pools with policy Balanced what they approved.
    fn show_moves(&self, scores: &[(Arc<str>, Score)], proposals: &[Proposal]) {
        let labels = |pool: &Arc<str>, approved: bool| {
            let policy = self
                .cluster
                .pool(pool)
                .map(|pool| pool.spec.disruption.consolidation_policy.as_str().to_owned());
            Move {
                decision: if approved { "approved" } else { "rejected" },
                nodepool: pool.to_string(),
                policy: policy.unwrap_or_default(),
            }
        };
        for (pool, score) in scores {
            let labels = labels(pool, score.approved);
            self.metrics.scores.get_or_create(&labels).observe(score.to_f64());
            self.metrics.moves.get_or_create(&labels).inc();
        }
        for proposal in proposals.iter().filter(|proposal| proposal.method.reason() == Reason::Underutilized)
        {
            let pools: BTreeSet<&Arc<str>> = proposal.members.iter().map(|member| &member.pool).collect();
            for pool in pools {
                match scores.iter().rev().find(|(scored, score)| scored == pool && score.approved) {
                    None => drop(self.metrics.moves.get_or_create(&labels(pool, true)).inc()),
                    Some((_, score)) => {
                        let words = format!(
                            "Saves {}.{} % of the pool's cost for {}.{} % of its disruption",
                            score.savings_share / 10_000,
                            score.savings_share / 1000 % 10,
                            score.cost_share / 10_000,
                            score.cost_share / 1000 % 10
                        );
                        for member in proposal.members.iter().filter(|member| member.pool == *pool) {
                            let (node, claim) =
                                (self.cluster.node(&member.node), self.cluster.claim(&member.claim));
                            self.events.approved((node.map(|n| &**n), claim.map(|c| &**c)), &words);
                        }
                    }
                }
            }
        }
    }

    fn propose(&mut self, proposal: Proposal, began: Timestamp, now: Timestamp) {
        // The cluster state moved while the search went on.
        let taken: BTreeSet<Arc<str>> = self.members().map(|member| Arc::clone(&member.node)).collect();
        if proposal.members.is_empty() || proposal.members.iter().any(|member| taken.contains(&member.node)) {
            return;
        }
        let method = proposal.method;
        let id = self.new_id(now);
        let parent = proposal.members.first().and_then(|member| self.cluster.claim(&member.claim));
        let span = tracing::info_span!(
            parent: None, "disrupt", command = %id, reason = method.reason().as_str(), method = method.as_str(),
            nodes = proposal.members.len(), replacements = proposal.planned.len()
        );
        if let Some(parent) = parent.and_then(|claim| claim.traceparent()) {
            runtime::trace::set_parent(&span, parent);
        }
        let command = Command {
            id: Arc::clone(&id),
            removes: proposal.members.len(),
            needs: proposal.planned.len(),
            proposal,
            proposed: now,
            memory: Memory { plan: true, ..Memory::default() },
            ordered: BTreeMap::new(),
            shown: BTreeSet::new(),
            found: BTreeMap::new(),
            failures: BTreeMap::new(),
            refused_orders: 0,
            unanswered: 0,
            deleted: BTreeSet::new(),
            begun: false,
            told_back: false,
            stage: Stage::Proposed,
            changed: now,
            detail: String::new(),
            open: 0,
            wake: None,
            second_look: None,
            validating: false,
            hold: None,
            realised: None,
            span,
        };
        let labels =
            Evaluation { reason: command.reason().label(), consolidation_type: method.consolidation_type() };
        let acts = plus(now, super::execution::wait_of(&command, self.options.validation_wait));
        self.metrics.evaluation.get_or_create(&labels).observe(acts.duration_since(began).as_secs_f64());
        info!(command = command.text(), "proposed");
        if command.needs > 0 && command.reason() == Reason::Underutilized {
            for member in command.members() {
                let (node, claim) = (self.cluster.node(&member.node), self.cluster.claim(&member.claim));
                self.events.candidate((node.map(|n| &**n), claim.map(|c| &**c)), &command.text());
            }
        }
        self.commands.insert(id, command);
        self.changed();
    }

    /// Short, unique, and in the order of time.
    fn new_id(&mut self, now: Timestamp) -> Arc<str> {
        self.count += 1;
        let random = {
            use std::hash::{BuildHasher as _, Hasher as _, RandomState};
            RandomState::new().build_hasher().finish() & 0xffff_ffff
        };
        format!("{:x}-{random:08x}-{:x}", now.as_second(), self.count).into()
    }
}

fn budget_states(pool: &api::NodePool, counts: Counts, now: Timestamp) -> BTreeMap<Reason, State> {
    let budgets = Budgets::read(&consolidation::budget_specs(pool));
    Reason::ALL.into_iter().map(|reason| (reason, budgets.state(reason, counts, now))).collect()
}

/// The proposal about the objects that it names.
fn with_members(
    proposal: &search::Proposal<simulation::Planned>,
    members: &BTreeMap<Arc<str>, (Member, u64)>,
) -> Proposal {
    let members: Vec<Member> =
        proposal.nodes.iter().filter_map(|node| Some(members.get(node)?.0.clone())).collect();
    let pool = members.first().map(|member| Arc::clone(&member.pool)).unwrap_or_default();
    Proposal {
        method: proposal.method,
        planned: planned_nodes(proposal, &pool),
        saving: proposal.saving,
        pods_moved: proposal.pods_moved,
        payback: proposal.payback,
        members,
    }
}

fn fingerprint(of: impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

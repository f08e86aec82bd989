//! The commands, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::disruption::{ConsolidationPolicy, DisruptionReason};
use model::pool::ClusterInput;
use model::price::MicroDollars;
use policy::consolidation::{
    Allowance, Candidate, Decision, MultiNode, Outcome, PoolTotals, Settings, Share, SingleNode, approves,
    choose_empty, judge, same_type_guard,
};
use solver::{Effort, Options, Plan, PodRef, Snapshot};

use crate::launch::{self, replacement_of};
use crate::state::{self, State};
use crate::{Blocked, Command, Consolidated, Method, Move, Rest, name_of};

/// `plan` is what was decided about the input's pending pods; it counts as carried out.
pub fn run(
    input: ClusterInput,
    rest: &Rest,
    plan: &Plan,
    options: &Options,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Consolidated {
    let options = Options {
        effort: Effort::Quick,
        protect_settling: true,
        distrust_uninitialized: true,
        report_pending: false,
        ..options.clone()
    };
    let mut run = Run {
        state: State::new(input, plan),
        rest,
        options,
        keep_going,
        commands: Vec::new(),
        refusals: BTreeMap::new(),
        made: plan.new_nodes.len(),
    };
    let before = run.state.hourly();
    while (run.keep_going)() && run.step() {}
    Consolidated {
        before,
        after: run.state.hourly(),
        timed_out: !(run.keep_going)(),
        blocked: run.blocked(),
        commands: run.commands,
    }
}

struct Run<'a> {
    state: State,
    rest: &'a Rest,
    options: Options,
    keep_going: &'a (dyn Fn() -> bool + Sync),
    commands: Vec<Command>,
    /// Why single nodes stayed, from the last look at each.
    refusals: BTreeMap<Arc<str>, String>,
    /// New nodes so far, over the whole answer.
    made: usize,
}

/// A removal that was found good.
struct Found {
    nodes: Vec<Arc<str>>,
    method: Method,
    plan: Plan,
    decision: Decision,
}

impl Run<'_> {
    /// One command, of the first method that has one.
    fn step(&mut self) -> bool {
        let (candidates, _) = self.candidates();
        let empty =
            choose_empty(&self.of_method(&candidates, false), self.allowance(&DisruptionReason::Empty))
                .iter()
                .map(|c| Arc::clone(&c.node))
                .collect::<Vec<_>>();
        if !empty.is_empty() {
            self.carry_out(Found {
                nodes: empty,
                method: Method::Empty,
                plan: Plan::default(),
                decision: Decision::Delete,
            });
            return true;
        }
        let candidates = self.of_method(&candidates, true);
        let snapshot = self.state.snapshot();
        let totals = self.totals();
        let found =
            self.many(&candidates, &snapshot, &totals).or_else(|| self.one(&candidates, &snapshot, &totals));
        match found {
            Some(found) => {
                self.carry_out(found);
                true
            }
            None => false,
        }
    }

    fn many(
        &mut self,
        candidates: &[Candidate],
        snapshot: &Snapshot,
        totals: &BTreeMap<Arc<str>, PoolTotals>,
    ) -> Option<Found> {
        let mut search = MultiNode::new(candidates, self.allowance(&DisruptionReason::Underutilized));
        let mut best = None;
        while let Some(tried) = search.next() {
            if !(self.keep_going)() {
                break;
            }
            let tried = tried.to_vec();
            let (plan, outcome) = self.simulate(&tried, snapshot);
            let mut decision = judge(&tried, &outcome, self.settings());
            decision = same_type_guard(&tried, &outcome.new_nodes, decision);
            decision = self.balanced(&tried, &plan, decision, totals);
            if !matches!(decision, Decision::Leave(_)) {
                let nodes = tried.iter().map(|c| Arc::clone(&c.node)).collect();
                best = Some(Found { nodes, method: Method::Multi, plan, decision: decision.clone() });
            }
            search.tell(decision);
        }
        best
    }

    fn one(
        &mut self,
        candidates: &[Candidate],
        snapshot: &Snapshot,
        totals: &BTreeMap<Arc<str>, PoolTotals>,
    ) -> Option<Found> {
        self.refusals.clear();
        let allowance = self.allowance(&DisruptionReason::Underutilized);
        for candidate in SingleNode::new(candidates, &allowance) {
            if !(self.keep_going)() {
                return None;
            }
            let (plan, outcome) = self.simulate(&[candidate], snapshot);
            let decision = judge(&[candidate], &outcome, self.settings());
            let decision = self.balanced(&[candidate], &plan, decision, totals);
            match decision {
                Decision::Leave(refusal) => {
                    self.refusals.insert(Arc::clone(&candidate.node), refusal.to_string());
                }
                decision => {
                    let nodes = vec![Arc::clone(&candidate.node)];
                    return Some(Found { nodes, method: Method::Single, plan, decision });
                }
            }
        }
        None
    }

    fn settings(&self) -> Settings {
        Settings { spot_to_spot: self.rest.spot_to_spot, many_for_many: true }
    }

    /// Pods of removed nodes placed anew; pods that were pending anyway are no obstacle.
    fn simulate(&self, removed: &[&Candidate], snapshot: &Snapshot) -> (Plan, Outcome) {
        let ids: Vec<_> = removed.iter().filter_map(|c| snapshot.node_id(&c.node)).collect();
        let plan = solver::simulate(snapshot, &ids, &[], &self.options, self.keep_going);
        let had_a_place = |namespace: &Arc<str>, name: &Arc<str>| !self.state.is_pending(namespace, name);
        let left_over = plan
            .unschedulable
            .iter()
            .map(|u| &u.pod)
            .chain(&plan.unreached)
            .filter(|pod| had_a_place(&pod.namespace, &pod.name))
            .map(ToString::to_string)
            .collect();
        let new_nodes = plan.new_nodes.iter().map(|node| replacement_of(node, &self.state.input)).collect();
        (plan, Outcome { left_over, new_nodes })
    }

    /// Pools with the policy Balanced have a say in every command that touches them.
    fn balanced(
        &self,
        removed: &[&Candidate],
        plan: &Plan,
        decision: Decision,
        totals: &BTreeMap<Arc<str>, PoolTotals>,
    ) -> Decision {
        if matches!(decision, Decision::Leave(_)) {
            return decision;
        }
        let all_price: MicroDollars = removed.iter().map(|c| c.price).sum();
        let savings = all_price - plan.cost;
        let touched: BTreeSet<&Arc<str>> = removed.iter().map(|c| &c.pool).collect();
        let agrees = touched
            .into_iter()
            .filter(|pool| self.policy(pool) == Some(&ConsolidationPolicy::Balanced))
            .all(|pool| {
                let own = || removed.iter().filter(|c| c.pool == *pool);
                let share = Share {
                    savings,
                    pool_price: own().map(|c| c.price).sum(),
                    all_price,
                    cost: own().map(|c| c.reschedule_cost).sum(),
                };
                totals.get(pool).is_some_and(|totals| approves(share, *totals))
            });
        if agrees { decision } else { Decision::Leave(policy::consolidation::Refusal::NotWorthIt) }
    }

    fn policy(&self, pool: &str) -> Option<&ConsolidationPolicy> {
        self.rest.pools.get(pool).map(|p| &p.spec.disruption.consolidation_policy)
    }

    fn totals(&self) -> BTreeMap<Arc<str>, PoolTotals> {
        let mut totals: BTreeMap<Arc<str>, PoolTotals> = BTreeMap::new();
        for candidate in self.candidates().0 {
            let entry = totals
                .entry(Arc::clone(&candidate.pool))
                .or_insert(PoolTotals { price: MicroDollars::ZERO, cost: 0 });
            entry.price += candidate.price;
            entry.cost += candidate.reschedule_cost;
        }
        totals
    }

    /// Nodes that nothing protects, and why the others stay.
    fn candidates(&self) -> (Vec<Candidate>, Vec<Blocked>) {
        state::candidates(&self.state, self.rest)
    }

    /// Candidates that the pool's policy lets this method see.
    fn of_method(&self, candidates: &[Candidate], underutilized: bool) -> Vec<Candidate> {
        let wants = |c: &&Candidate| {
            let Some(pool) = self.rest.pools.get(&c.pool) else { return false };
            let disruption = &pool.spec.disruption;
            !pool.is_static()
                && disruption.consolidate_after.get().is_some()
                && !(underutilized && disruption.consolidation_policy == ConsolidationPolicy::WhenEmpty)
        };
        candidates.iter().filter(wants).cloned().collect()
    }

    /// Budgets that always hold; ones with a schedule depend on an hour that a plan does not have.
    fn allowance(&self, reason: &DisruptionReason) -> Allowance {
        let count = |pool: &Arc<str>| {
            let ours = self.state.input.nodes.iter().filter(|n| n.managed() && n.initialized);
            u64::try_from(ours.filter(|n| n.pool.as_ref() == Some(pool)).count()).unwrap_or(0)
        };
        let mut allowance = Allowance::new();
        for (name, pool) in &self.rest.pools {
            let budgets = pool.spec.disruption.budgets.iter();
            let applies = budgets.filter(|b| {
                b.schedule.is_none() && b.reasons.as_ref().is_none_or(|reasons| reasons.contains(reason))
            });
            let allowed = applies
                .map(|b| match b.nodes.strip_suffix('%') {
                    Some(percent) => percent.parse::<u64>().map_or(0, |p| (count(name) * p).div_ceil(100)),
                    None => b.nodes.parse::<u64>().unwrap_or(0),
                })
                .min();
            if let Some(allowed) = allowed {
                allowance.insert(Arc::clone(name), u32::try_from(allowed).unwrap_or(u32::MAX));
            }
        }
        allowance
    }

    fn carry_out(&mut self, found: Found) {
        let mut savings: MicroDollars = found.nodes.iter().map(|n| self.state.price_of(n)).sum();
        let (mut nodes, first) = (Vec::new(), self.made);
        let mut targets: BTreeMap<String, Arc<str>> = BTreeMap::new();
        for existing in &found.plan.existing {
            targets.extend(existing.pods.iter().map(|pod| (pod.to_string(), Arc::clone(&existing.node))));
        }
        let kept = match &found.decision {
            Decision::Replace(kept) => kept.as_slice(),
            Decision::Delete | Decision::Leave(_) => &[],
        };
        for (node, kept) in found.plan.new_nodes.iter().zip(kept) {
            let mut node = node.clone();
            launch::narrow(&mut node, &kept.types, kept.pin_spot, &self.state.input);
            savings -= node.launch.price;
            let name: Arc<str> = Arc::from(name_of(self.made));
            targets.extend(node.pods.iter().map(|pod| (pod.to_string(), Arc::clone(&name))));
            self.state.launch(&node, self.made);
            self.made += 1;
            let from_removed = |pod: &PodRef| {
                self.state.node_of(&pod.to_string()).is_some_and(|from| found.nodes.contains(&from))
            };
            node.pods.retain(from_removed);
            nodes.push(node);
        }
        let moved = self.state.remove(&found.nodes, &targets);
        let to = |(pod, from): (PodRef, Arc<str>)| {
            let to = targets[&pod.to_string()].to_string();
            Move { pod, from: from.to_string(), to }
        };
        let mut moves: Vec<Move> = moved.into_iter().map(to).collect();
        moves.sort();
        self.commands.push(Command {
            method: found.method,
            remove: found.nodes,
            nodes,
            first,
            moves,
            savings,
        });
    }

    /// Nodes that are still there, and why.
    fn blocked(&self) -> Vec<Blocked> {
        let (candidates, mut blocked) = self.candidates();
        for candidate in candidates {
            let pool = self.rest.pools.get(&candidate.pool);
            let reason = match pool {
                Some(p) if p.spec.disruption.consolidate_after.get().is_none() => {
                    Some(format!("NodePool {} has consolidateAfter Never", candidate.pool))
                }
                Some(p) if p.spec.disruption.consolidation_policy == ConsolidationPolicy::WhenEmpty => {
                    Some(format!("NodePool {} only consolidates empty nodes", candidate.pool))
                }
                _ => self.refusals.get(&candidate.node).cloned(),
            };
            blocked.extend(reason.map(|reason| Blocked { node: candidate.node.to_string(), reason }));
        }
        blocked.sort_by(|a, b| a.node.cmp(&b.node));
        blocked
    }
}

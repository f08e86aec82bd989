//! The commands, one after the other, each carried out on paper before the next pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::pool::ClusterInput;
use model::price::MicroDollars;
use solver::{Effort, NewNode, NodeId, Options, Plan, PodRef, Snapshot};

use crate::launch::choose_launch;
use crate::search::{Answer, Found, PlannedNode, Proposal, Question, Search, Situation, Verdict};
use crate::situation::{Surveyed, situation_of, survey};
use crate::state::State;
use crate::{Blocked, Command, Consolidated, Move, Rest, name_of, what_if};

/// `plan` is what was decided about the input's pending pods; it counts as carried out.
pub fn run(
    input: ClusterInput,
    rest: &Rest,
    plan: &Plan,
    options: &Options,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Consolidated {
    let options = simulation_options(options);
    let state = State::new(input, plan);
    let before = state.hourly();
    let made = plan.new_nodes.len();
    let mut run = Run {
        state,
        surveyed: BTreeMap::new(),
        rest,
        options,
        keep_going,
        commands: Vec::new(),
        verdicts: Vec::new(),
        made,
        simulations: 0,
    };
    let names: Vec<Arc<str>> = run.state.input.nodes.iter().map(|node| Arc::clone(&node.name)).collect();
    names.iter().for_each(|name| run.survey(name));
    while (run.keep_going)() && run.pass() {}
    Consolidated {
        before,
        after: run.state.hourly(),
        timed_out: !(run.keep_going)(),
        blocked: run.blocked(),
        simulations: run.simulations,
        commands: run.commands,
    }
}

/// As the provisioner answers what-ifs about consolidation.
pub fn simulation_options(options: &Options) -> Options {
    Options {
        effort: Effort::Quick,
        protect_settling: true,
        distrust_uninitialized: true,
        report_pending: false,
        ..options.clone()
    }
}

/// One pass, with every question answered at once.
pub fn drive<N: PlannedNode>(
    situation: &Situation,
    mut simulate: impl FnMut(&Question) -> Result<Answer<N>, String>,
) -> Found<N> {
    let mut search = Search::new(situation, 1);
    loop {
        let questions = search.questions();
        if questions.is_empty() {
            return search.finish();
        }
        search.answer(questions.iter().map(&mut simulate).collect());
    }
}

/// Most moves of one pod in one plan. A plan that moves it more often is better made anew when that much of it is carried out.
const MOST_MOVES: u32 = 2;

struct Run<'a> {
    state: State,
    /// Nodes of the state, by name.
    surveyed: BTreeMap<Arc<str>, Surveyed>,
    rest: &'a Rest,
    options: Options,
    keep_going: &'a (dyn Fn() -> bool + Sync),
    commands: Vec<Command>,
    /// Of the last pass.
    verdicts: Vec<Verdict>,
    /// New nodes so far, over the whole answer.
    made: usize,
    simulations: usize,
}

impl Run<'_> {
    /// One pass, with everything that it finds carried out at once.
    fn pass(&mut self) -> bool {
        let (situation, _) = situation_of(&self.surveyed, &self.state.input, self.rest);
        let mut search = Search::new(&situation, 1);
        let mut snapshot = self.state.snapshot();
        let mut any = false;
        while (self.keep_going)() {
            let proposals = search.proposals().to_vec();
            if !proposals.is_empty() {
                any = true;
                let mut changed = BTreeSet::new();
                for proposal in proposals {
                    // What an earlier one changed must be seen.
                    changed.extend(self.carry_out(proposal));
                }
                snapshot = self.state.snapshot();
                search.carried_out(&changed);
                continue;
            }
            let questions = search.questions();
            if questions.is_empty() {
                break;
            }
            self.simulations += questions.len();
            search.answer(questions.iter().map(|question| Ok(self.answer(question, &snapshot))).collect());
        }
        self.verdicts = search.finish().verdicts;
        any
    }

    fn answer(&self, question: &Question, snapshot: &Snapshot) -> Answer<NewNode> {
        let waited = |pod: &PodRef| self.state.is_pending(&pod.namespace, &pod.name);
        let pools = &self.state.input.pools;
        what_if::answer(snapshot, question, pools, &self.options, waited, self.keep_going)
    }

    /// Returns the nodes that are removed, new, or hold other pods than before.
    fn carry_out(&mut self, proposal: Proposal<NewNode>) -> BTreeSet<Arc<str>> {
        let snapshot = self.state.snapshot();
        let mut savings: MicroDollars = proposal.nodes.iter().map(|n| self.state.price_of(n)).sum();
        let (mut nodes, first) = (Vec::new(), self.made);
        let ids: Vec<NodeId> = proposal.nodes.iter().filter_map(|node| snapshot.node_id(node)).collect();
        let plan = solver::simulate(&snapshot, &ids, &[], &self.options, &|| true);
        let mut targets: BTreeMap<String, Arc<str>> = BTreeMap::new();
        for existing in &plan.existing {
            targets.extend(existing.pods.iter().map(|pod| (pod.to_string(), Arc::clone(&existing.node))));
        }
        let mut changed: BTreeSet<Arc<str>> = proposal.nodes.iter().cloned().collect();
        for mut node in proposal.planned {
            if let Some(pool) = self.state.input.pools.iter().find(|pool| pool.name == node.pool) {
                choose_launch(&mut node, pool);
            }
            savings -= node.launch.price;
            let name: Arc<str> = Arc::from(name_of(self.made));
            targets.extend(node.pods.iter().map(|pod| (pod.to_string(), Arc::clone(&name))));
            self.state.launch(&node, self.made);
            self.made += 1;
            let from_removed = |pod: &PodRef| {
                self.state.node_of(&pod.to_string()).is_some_and(|from| proposal.nodes.contains(&from))
            };
            node.pods.retain(from_removed);
            nodes.push(node);
            changed.insert(name);
        }
        let moved = self.state.remove(&proposal.nodes, &targets);
        let to = |(pod, from): (PodRef, Arc<str>)| {
            let to = Arc::clone(&targets[&pod.to_string()]);
            let found = Move { pod, from: from.to_string(), to: to.to_string() };
            changed.insert(to);
            found
        };
        let mut moves: Vec<Move> = moved.into_iter().map(to).collect();
        moves.sort();
        let (method, remove) = (proposal.method, proposal.nodes);
        self.commands.push(Command { method, remove, nodes, first, moves, savings });
        for node in &changed {
            self.survey(node);
        }
        changed
    }

    /// Looks at a node as it is now.
    fn survey(&mut self, name: &Arc<str>) {
        let node = self.state.node(name);
        let found =
            node.and_then(|node| survey(node, &self.state.pods_on(name), &self.state.input, self.rest));
        let Some(mut found) = found else {
            self.surveyed.remove(name);
            return;
        };
        if let Some(pod) = self.state.pod_moved(MOST_MOVES, name) {
            let pod = pod.key();
            found.block(format!(
                "this plan moves its pod {pod} {MOST_MOVES} times already; plan again when it is carried out"
            ));
        }
        self.surveyed.insert(Arc::clone(name), found);
    }

    /// Nodes that are still there, and why.
    fn blocked(&self) -> Vec<Blocked> {
        let (situation, mut blocked) = situation_of(&self.surveyed, &self.state.input, self.rest);
        let refused = self
            .verdicts
            .iter()
            .filter(|verdict| verdict.saving.is_none() && situation.entry(&verdict.node).is_some());
        blocked.extend(
            refused.map(|verdict| Blocked { node: verdict.node.to_string(), reason: verdict.words.clone() }),
        );
        blocked.sort_by(|a, b| a.node.cmp(&b.node));
        blocked
    }
}

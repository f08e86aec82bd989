//! The commands, one after the other, each carried out on paper before the next pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pool::ClusterInput;
use model::price::MicroDollars;
use solver::{Effort, NewNode, NodeId, Options, Plan, PodRef, Snapshot};

use crate::launch::choose_launch;
use crate::search::{Answer, Found, PlannedNode, Proposal, Question, Search, Situation, Verdict};
use crate::situation::situation;
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
    let mut run = Run { state, rest, options, keep_going, commands: Vec::new(), verdicts: Vec::new(), made };
    while (run.keep_going)() && run.step() {}
    Consolidated {
        before,
        after: run.state.hourly(),
        timed_out: !(run.keep_going)(),
        blocked: run.blocked(),
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

struct Run<'a> {
    state: State,
    rest: &'a Rest,
    options: Options,
    keep_going: &'a (dyn Fn() -> bool + Sync),
    commands: Vec<Command>,
    /// Of the last pass.
    verdicts: Vec<Verdict>,
    /// New nodes so far, over the whole answer.
    made: usize,
}

impl Run<'_> {
    /// One pass, and what it found carried out.
    fn step(&mut self) -> bool {
        let (situation, _) = situation(&self.state.input, self.rest);
        let snapshot = self.state.snapshot();
        let found = drive(&situation, |question| Ok(self.answer(question, &snapshot)));
        self.verdicts = found.verdicts;
        let any = !found.proposals.is_empty();
        for proposal in found.proposals {
            let snapshot = self.state.snapshot();
            self.carry_out(proposal, &snapshot);
        }
        any
    }

    fn answer(&self, question: &Question, snapshot: &Snapshot) -> Answer<NewNode> {
        let waited = |pod: &PodRef| self.state.is_pending(&pod.namespace, &pod.name);
        let pools = &self.state.input.pools;
        what_if::answer(snapshot, question, pools, &self.options, waited, self.keep_going)
    }

    fn carry_out(&mut self, proposal: Proposal<NewNode>, snapshot: &Snapshot) {
        let mut savings: MicroDollars = proposal.nodes.iter().map(|n| self.state.price_of(n)).sum();
        let (mut nodes, first) = (Vec::new(), self.made);
        let ids: Vec<NodeId> = proposal.nodes.iter().filter_map(|node| snapshot.node_id(node)).collect();
        let plan = solver::simulate(snapshot, &ids, &[], &self.options, &|| true);
        let mut targets: BTreeMap<String, Arc<str>> = BTreeMap::new();
        for existing in &plan.existing {
            targets.extend(existing.pods.iter().map(|pod| (pod.to_string(), Arc::clone(&existing.node))));
        }
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
        }
        let moved = self.state.remove(&proposal.nodes, &targets);
        let to = |(pod, from): (PodRef, Arc<str>)| {
            let to = targets[&pod.to_string()].to_string();
            Move { pod, from: from.to_string(), to }
        };
        let mut moves: Vec<Move> = moved.into_iter().map(to).collect();
        moves.sort();
        let (method, remove) = (proposal.method, proposal.nodes);
        self.commands.push(Command { method, remove, nodes, first, moves, savings });
    }

    /// Nodes that are still there, and why.
    fn blocked(&self) -> Vec<Blocked> {
        let (situation, mut blocked) = situation(&self.state.input, self.rest);
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

//! A removal simulated by the solver. `plan` asks here directly, and the provisioner answers the disruption service from here, so that
//! both judge the same.

use model::pool::NodePool;
use model::price::MicroDollars;
use policy::consolidation::Outcome;
use solver::{NewNode, NodeId, Options, Plan, PodRef, Snapshot};

use crate::launch::{self, replacement_of};
use crate::placement::keep_schedulable;
use crate::search::{Answer, PlannedNode, Question};

/// A cluster without some nodes.
#[derive(Clone, Debug)]
pub struct Simulated {
    pub plan: Plan,
    /// Pods that have a place in the plan, but that kube-scheduler would leave pending in some order of their arrival.
    pub displaced: Vec<PodRef>,
}

/// The plan for a cluster without these nodes. Where there is a limit on the price of new nodes, they keep only the types with which
/// they cost less than that together, and with which all pods fit as kube-scheduler places them.
pub fn simulate(
    snapshot: &Snapshot,
    remove: &[NodeId],
    below: Option<MicroDollars>,
    pools: &[NodePool],
    options: &Options,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Simulated {
    let mut plan = solver::simulate(snapshot, remove, &[], options, keep_going);
    let mut displaced = Vec::new();
    if let Some(below) = below {
        launch::keep_below(&mut plan.new_nodes, below, pools);
        // Only what could be carried out is worth the effort.
        let affordable = plan.new_nodes.iter().all(|node| !node.instance_types.is_empty());
        if affordable && !plan.timed_out {
            displaced = keep_schedulable(snapshot, remove, &mut plan.new_nodes, pools, options);
        }
    }
    Simulated { plan, displaced }
}

/// The removal of a question; nodes that the snapshot does not have are removed already. `waited`: pods that had no place before,
/// which speak against nothing.
pub fn answer(
    snapshot: &Snapshot,
    question: &Question,
    pools: &[NodePool],
    options: &Options,
    waited: impl Fn(&PodRef) -> bool,
    keep_going: &(dyn Fn() -> bool + Sync),
) -> Answer<NewNode> {
    let ids: Vec<NodeId> = question.remove.iter().filter_map(|node| snapshot.node_id(node)).collect();
    let below = (question.below > MicroDollars::ZERO).then_some(question.below);
    let simulated = simulate(snapshot, &ids, below, pools, options, keep_going);
    Answer { outcome: outcome(&simulated, pools, waited), nodes: simulated.plan.new_nodes }
}

/// The plan as the rules of consolidation look at it.
fn outcome(simulated: &Simulated, pools: &[NodePool], waited: impl Fn(&PodRef) -> bool) -> Outcome {
    let plan = &simulated.plan;
    let left = plan.unschedulable.iter().map(|left| &left.pod).chain(&plan.unreached);
    Outcome {
        left_over: left.filter(|pod| !waited(pod)).map(ToString::to_string).collect(),
        displaced: simulated.displaced.iter().map(ToString::to_string).collect(),
        new_nodes: plan.new_nodes.iter().map(|node| replacement_of(node, pools)).collect(),
    }
}

impl PlannedNode for NewNode {
    fn price(&self) -> MicroDollars {
        self.launch.price
    }

    fn keep_types(&mut self, types: &[usize]) {
        self.instance_types =
            types.iter().filter_map(|&index| self.instance_types.get(index).cloned()).collect();
    }
}

//! What was decided. A plan names every choice, so that carrying it out leaves nothing to decide.

use std::fmt;
use std::sync::Arc;

use model::catalog::CapacityType;
use model::price::MicroDollars;
use model::requirements::Requirements;
use model::resources::Resources;

use crate::explain::Explanation;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Nodes to create.
    pub new_nodes: Vec<NewNode>,
    /// Pods that go onto nodes that exist or are on their way, by node, in the snapshot's order of nodes.
    pub existing: Vec<ExistingNode>,
    /// Pods that nothing can take, and why.
    pub unschedulable: Vec<Unschedulable>,
    /// Pods that the deadline left undecided.
    pub unreached: Vec<PodRef>,
    /// Sum of the launch prices of the new nodes.
    pub cost: MicroDollars,
    /// No plan that places the same pods can cost less; `None` where it was not computed.
    pub lower_bound: Option<MicroDollars>,
    /// The deadline came before the end; the plan is valid, but more time might have made it better or fuller.
    pub timed_out: bool,
}

impl Plan {
    /// `cost / lower_bound - 1`, for people; `None` without a bound, or where the bound is zero and the cost is not.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.lower_bound?;
        match (self.cost.get(), bound.get()) {
            (0, 0) => Some(0.0),
            (_, 0) => None,
            _ => Some(self.cost.to_f64() / bound.to_f64() - 1.0),
        }
    }

    /// Everything has a place.
    pub fn is_complete(&self) -> bool {
        self.unschedulable.is_empty() && self.unreached.is_empty()
    }
}

/// Names a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewNode {
    pub pool: Arc<str>,
    pub pods: Vec<PodRef>,
    /// Everything that the node must satisfy, pool and pods combined; without hostname and instance types.
    pub requirements: Arc<Requirements>,
    /// All types that the node may become, cheapest first.
    pub instance_types: Arc<[Arc<str>]>,
    /// What the plan is priced at: of the preferred capacity type among those allowed, the cheapest.
    pub launch: Launch,
    /// Of the pods, and the least daemon overhead that any of the types brings.
    pub requests: Resources,
    /// Fewer values than `minValues` asked for remain (best-effort policy).
    pub min_values_relaxed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub instance_type: Arc<str>,
    pub zone: Arc<str>,
    pub capacity_type: CapacityType,
    pub reservation: Option<Arc<str>>,
    pub price: MicroDollars,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExistingNode {
    pub node: Arc<str>,
    pub pods: Vec<PodRef>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Unschedulable {
    pub pod: PodRef,
    /// Shared by all pods of one class. Its `Display` is one sentence.
    pub why: Arc<Explanation>,
}

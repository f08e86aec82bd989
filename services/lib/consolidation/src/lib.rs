//! Which nodes go: the search over all candidates, and the simulated removal that it judges. The rules are [`policy`]'s, the simulation
//! is the solver's. No clock and no I/O.
//!
//! ```text
//! Situation ──> search ── questions ──> what_if (solver), or the provisioner's RPC ── answers ──> search ──> proposals
//! run: the same on paper, one command after the other until nothing is left to gain, for `plan --consolidate`
//! ```

mod launch;
mod placement;
mod pool;
mod run;
pub mod search;
mod situation;
mod state;
pub mod what_if;

#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::convert::Obstacle;
use api::nodepool::NodePool;
use model::price::MicroDollars;
use policy::Method;
use solver::{NewNode, PodRef};

pub use launch::{min_values, worst_prices};
pub use pool::{budget_specs, churn_settings};
pub use run::{drive, run, simulation_options};
pub use situation::situation;

/// What is known beyond the solver's input.
#[derive(Default)]
pub struct Rest {
    pub facts: PodIndex,
    /// As written.
    pub pools: BTreeMap<Arc<str>, Arc<NodePool>>,
    /// Nodes with `karpenter.sh/do-not-disrupt: "true"`, by the solver's name.
    pub held_nodes: BTreeSet<Arc<str>>,
    pub spot_to_spot: bool,
}

/// What consolidation must know of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// Forbids to take its node away.
    pub obstacle: Option<Obstacle>,
    /// In units of 2^-27.
    pub eviction_cost: i64,
}

/// Facts by namespace and name; replicas share them.
pub type PodIndex = BTreeMap<(Arc<str>, Arc<str>), Arc<PodFacts>>;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Consolidated {
    /// In the order in which they are to be carried out.
    pub commands: Vec<Command>,
    /// Nodes that are still there at the end, and why, by name.
    pub blocked: Vec<Blocked>,
    /// What all nodes of ours cost an hour, with the pods placed and nothing taken away yet.
    pub before: MicroDollars,
    pub after: MicroDollars,
    /// Removals that were simulated: what the work grows with.
    pub simulations: usize,
    /// There was no time to look at everything.
    pub timed_out: bool,
}

/// One removal.
#[derive(Clone, Debug)]
pub struct Command {
    pub method: Method,
    pub remove: Vec<Arc<str>>,
    /// Made in their place, with the pods that come from the removed ones.
    pub nodes: Vec<NewNode>,
    /// Number of the first of them; new nodes are numbered over the whole answer, those for pending pods first.
    pub first: usize,
    /// Sorted.
    pub moves: Vec<Move>,
    pub savings: MicroDollars,
}

/// What the node with this number is called.
pub fn name_of(number: usize) -> String {
    format!("new-{number}")
}

/// A pod goes from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    pub pod: PodRef,
    pub from: String,
    pub to: String,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub node: String,
    pub reason: String,
}

//! Decides which nodes to make for which pods: bin-packing by price under the scheduling rules of Kubernetes and of
//! NodePools, what-if simulation, explanations, and a lower bound on the cost.
//!
//! Pure: no clock, no I/O, no async, no logging. Equal input gives an equal plan.
//!
//! ```text
//!  ClusterInput ──build──► Snapshot ──solve / simulate──► Plan ──check──► violations
//!                             │ ▲                           │
//!                             └─┘ apply (deltas)            └─explain──► Explanation
//! ```
//! - [`Snapshot::build`] compiles plain objects into dense tables once; [`Snapshot::apply`] carries changes over cheaply.
//!   A snapshot is immutable and cheap to clone; any number of threads may ask it questions.
//! - [`solve`] places all pods without a home. [`simulate`] does so in a cluster without some nodes and with some more
//!   pods; [`simulate_many`] answers many removal sets on all cores.
//! - [`Scheduler`] says where kube-scheduler would put the pods of removed nodes, which need not be where the plan puts them.
//! - [`explain()`] says why a pod is where it is, or why it is nowhere.
//!
//! Inside: pods that no rule can tell apart are one class, requirements are bit sets over types and offerings, resources
//! are columns of integers. `engine` holds every feasibility rule and places pods; `pack` makes a packing problem of what was
//! placed and a plan of its solution, which the crate `packing` finds; `bound` relaxes the whole to prove how much better a plan
//! could be.

mod backlog;
mod bound;
mod cells;
pub mod check;
mod classes;
mod deadline;
mod dims;
mod engine;
mod explain;
mod finish;
mod kube_scheduler;
mod nodes;
mod options;
mod pack;
mod plan;
mod pools;
mod reach;
mod relax;
mod sets;
mod snapshot;
mod solve;
mod table;
mod topology;
mod update;
mod volumes;
mod world;

pub use explain::{Explanation, PoolMiss, Rule, explain, relaxed};
pub use kube_scheduler::{Order, Scheduled, Scheduler, Target};
pub use options::{Effort, MinValuesPolicy, Options, PreferencePolicy};
pub use plan::{ExistingNode, Launch, NewNode, Plan, PodRef, Unschedulable};
pub use snapshot::Snapshot;
pub use solve::{first_fit, simulate, simulate_many, solve};
pub use update::{Change, NeedsRebuild};

/// A node of one snapshot. Meaningless in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

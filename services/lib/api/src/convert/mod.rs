//! Conversion of Kubernetes objects and of our own resources to the plain scheduling objects of `model`.
//!
//! One pure function per object: what other objects it depends on (claims, storage classes, priority classes, disruption
//! budgets, the time) is an argument, so that an index can convert one object when one object changes, and an offline tool
//! can convert a directory of manifests. Nothing is fetched, cached or decided here.
//!
//! ```text
//!  Pod template ── pod_spec ──> model PodSpec ─┐ (shared by replicas, see `Specs`)
//!  Pod ─────────────────────── pod ────────────┴─> model Pod
//!  Node + NodeClaim + CSINode ─ node ────────────> model Node
//!  NodePool + types ─────────── node_pool ───────> model NodePool
//!  DaemonSet ────────────────── daemon_set ──────> model DaemonSet
//!  PodDisruptionBudget ──────── budget ──────────> PodBudget
//!  CapacityBuffer + template ── virtual_pods ────> model Pods
//!  NodeOverlays + types ─────── overlay::apply ──> types
//! ```

mod budget;
mod buffer;
mod daemon_set;
mod error;
mod eviction;
mod node;
mod node_class;
mod node_terms;
pub mod overlay;
mod pod;
mod pod_spec;
mod pool;
mod quantities;
mod replica;
mod requests;
mod selectors;
mod specs;
mod validate;
mod volumes;

#[cfg(test)]
mod tests;

pub use budget::{PodBudget, budget, implied_disruptions_allowed};
pub use buffer::{buffer_replicas, virtual_pods};
pub use daemon_set::daemon_set;
pub use error::{At, Error, FieldPath, Invalid, Step};
pub use eviction::{Obstacle, do_not_disrupt, eviction_cost, fully_blocked, obstacle};
pub use node::{NodeFacts, node, node_taint};
pub use node_class::node_class;
pub use pod::{PodContext, is_provisionable, is_terminal, owned_by, pod};
pub use pod_spec::{pod_spec, priority_of};
pub use pool::node_pool;
pub use quantities::{amounts, quantities};
pub use replica::{WithClaims, has_own_claims, replica};
pub use selectors::label_selector;
pub use specs::Specs;
pub use validate::{OPTED_OUT, why_rejected};
pub use volumes::{ClaimState, Storage, volume_of_claim};

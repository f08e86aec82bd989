//! Which node may be disrupted, by which method, and if not, the named thing that holds it.
//!
//! ```text
//! Subject (a Node, its NodeClaim, its pool, its pods) ─┬─ check(class)   first thing that holds it for any method
//!                                                      ├─ eligible(method) check, and the method's own conditions
//!                                                      ├─ obstacles()    everything that holds it, for explanations
//!                                                      └─ candidate()    what the searches of `consolidation` take
//! ```
//! The order of the checks is the reference's, so that the first obstacle is the one its events name. Budgets and prices of
//! alternatives are not looked at here, but [`Blocked`] has words for them, so that one type says why a node stays.

mod blocked;
mod cost;
mod notice;
mod pods;
mod rules;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use model::duration::{GoDuration, NillableDuration};
use model::price::MicroDollars;

pub use blocked::{Blocked, EventReason, Leaving, PdbBlock};
pub use cost::{Costs, lifetime_remaining};
pub use model::eviction::eviction_cost;
pub use notice::{Notice, notice};
pub use pods::{Pdbs, Resident};
pub use rules::{check, eligible, obstacles, still_free};

/// A node and everything its disruption depends on.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the Node object, once there is one.
    pub node: Option<Arc<str>>,
    /// `None` for nodes that are not ours.
    pub claim: Option<Claim>,
    /// Names of all claims with its provider id, where there is more than one.
    pub conflicting_claims: Vec<Arc<str>>,
    /// Id of the command it is part of, proposed ones included.
    pub command: Option<Arc<str>>,
    /// Label `karpenter.sh/initialized`.
    pub initialized: bool,
    /// It is on its way out for whatever cause.
    pub leaving: Option<Leaving>,
    /// Pods were promised to it until then.
    pub nominated_until: Option<Timestamp>,
    /// Annotation `karpenter.sh/do-not-disrupt: "true"`; no other value counts on a node.
    pub do_not_disrupt: bool,
    /// A taint with our key that is not the one we write: somebody else's mark.
    pub foreign_taint: Option<String>,
    pub pool: PoolOf,
    pub offering: Offering,
    /// All pods bound to it, in a stable order.
    pub pods: Vec<Arc<Resident>>,
    /// Placeholders of capacity buffers that count on it.
    pub buffer_pods: u32,
}

/// What its NodeClaim says.
#[derive(Clone, Debug)]
pub struct Claim {
    pub name: Arc<str>,
    pub created: Timestamp,
    pub expire_after: NillableDuration,
    pub termination_grace_period: Option<GoDuration>,
    pub consolidatable: Consolidatable,
    pub drifted: Option<Drifted>,
}

/// The Consolidatable condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consolidatable {
    Yes,
    /// Not True; will be then, if nothing happens on the node.
    NotBefore(Timestamp),
    /// Not True, and there is no telling when.
    No,
}

/// The Drifted condition, when True.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    pub reason: String,
    pub since: Timestamp,
}

/// The pool named by label `karpenter.sh/nodepool`.
#[derive(Clone, Debug)]
pub enum PoolOf {
    NoLabel,
    /// No such NodePool.
    Missing(Arc<str>),
    Known(Arc<Pool>),
}

/// What a NodePool says about disruption.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: Arc<str>,
    /// `spec.replicas` is set.
    pub fixed_size: bool,
    pub consolidate_after: NillableDuration,
    pub policy: Policy,
    /// Why its instance types are not known, if they are not.
    pub types_unknown: Option<String>,
}

/// `spec.disruption.consolidationPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    WhenEmpty,
    #[default]
    WhenEmptyOrUnderutilized,
    Balanced,
}

/// What it was bought as, from its labels and the catalogue.
#[derive(Clone, Debug, Default)]
pub struct Offering {
    /// Label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<Arc<str>>,
    /// The pool's node class offers this type.
    pub type_known: bool,
    /// Label `karpenter.sh/capacity-type`.
    pub capacity_type: Option<Arc<str>>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// Of the offering that these name, whether it could be bought now or not; `None` when there is no price for it.
    pub price: Option<MicroDollars>,
}

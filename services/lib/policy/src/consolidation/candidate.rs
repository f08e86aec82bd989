//! A node that may be taken away.

use std::cmp::Ordering;
use std::sync::Arc;

use model::eviction::COST_UNIT;
use model::price::MicroDollars;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: Arc<str>,
    pub pool: Arc<str>,
    /// `None` where type, zone or capacity type are not known: such a node can be empty, but not consolidated.
    pub instance_type: Option<Arc<str>>,
    /// Zero where unknown; then it can be deleted, never replaced.
    pub price: MicroDollars,
    pub spot: bool,
    /// `COST_UNIT` for the node itself and the positive eviction costs of its pods that must move.
    pub reschedule_cost: i64,
    /// Placeholders of capacity buffers stand on it: not empty, though nothing needs to move.
    pub holds_buffers: bool,
}

impl Candidate {
    /// Nothing on it costs anything to move. Only a node that also holds no placeholders is removed as empty; one that does is
    /// not consolidated either.
    pub fn is_empty(&self) -> bool {
        self.reschedule_cost <= COST_UNIT
    }
}

/// Price per cost of moving, highest first; then by name, so that the order is total.
pub fn by_savings(a: &Candidate, b: &Candidate) -> Ordering {
    let ratio = |price: MicroDollars, other_cost: i64| i128::from(price.get()) * i128::from(other_cost);
    ratio(b.price, a.reschedule_cost)
        .cmp(&ratio(a.price, b.reschedule_cost))
        .then_with(|| a.node.cmp(&b.node))
}

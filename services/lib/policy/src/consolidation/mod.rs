//! Which nodes to take away because the cluster would be cheaper without them.
//!
//! Only the choice. Who asks brings the candidates (nodes that nothing protects), the budgets and the outcome of
//! simulations, and carries out what is decided. Nothing here waits or calls: searches are state machines that name the next
//! removal to simulate and are told how it went, so that the offline planner can drive them with a local solver and a
//! service with remote ones.
//!
//! ```text
//!  candidates ──> empty::choose ────────────────────────────────> delete together
//!             └─> MultiNode / ManyForMany / SingleNode ── next() ──> simulate ──> judge ──> tell() … ──> Command
//! ```
//! The rules are those of the reference: delete, or replace by one strictly cheaper node, many nodes at once if possible;
//! on request also several nodes by several cheaper ones.

mod balanced;
mod candidate;
mod empty;
mod judge;
mod many;
mod multi;
mod single;

#[cfg(test)]
mod balanced_tests;
#[cfg(test)]
mod tests;

pub use balanced::{
    BALANCED_FACTOR, PoolTotals, Score, Share, approves, balanced_scores, could_be_worth_it, pool_totals,
    score,
};
pub use candidate::{Candidate, by_savings};
pub use empty::choose as choose_empty;
pub use judge::{
    Decision, Kept, MinValues, Outcome, Refusal, Replacement, SPOT_TO_SPOT_TYPES, Settings, TypeOption,
    judge, same_type_guard,
};
pub use many::ManyForMany;
pub use model::eviction::COST_UNIT;
pub use multi::MultiNode;
pub use single::SingleNode;

use std::collections::BTreeMap;
use std::sync::Arc;

/// How many more nodes of each pool may be disrupted. A pool that is not listed is not limited.
pub type Allowance = BTreeMap<Arc<str>, u32>;

/// Takes one from the pool's allowance; false where nothing is left.
fn take(allowance: &mut Allowance, pool: &Arc<str>) -> bool {
    match allowance.get_mut(pool) {
        None => true,
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}

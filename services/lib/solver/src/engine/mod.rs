//! Placing pods: the mutable state of one decision over the immutable world, and every feasibility rule.
//!
//! Nothing here chooses an order or weighs prices; [`crate::pack`] does. What is placed here is always valid.

pub(crate) mod bin;
pub(crate) mod choice;
pub(crate) mod demand;
pub(crate) mod existing;
pub(crate) mod holds;
pub(crate) mod hosts;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod listing;
pub(crate) mod place;
pub(crate) mod rebuild;
pub(crate) mod state;

//! Removing a node without losing anything: which step comes next for a node or a claim that is being deleted, which pods
//! leave when, who waits for what, and what garbage is.
//!
//! ```text
//! claim::next_step   deadline ─ delete nodes ─────────────────────────── instance gone ─ release
//! node::next_step               └ claim ─ dead? ─ taint ─ pods ─ volumes ─ instance gone ─ release
//!                                                          └ leaving: groups, deadline, obstacles; pace: backoff, budgets
//! collect                       instances without claim, claims without instance
//! ```
//!
//! Plain data in, decision out. Nothing here evicts, deletes or asks; a step is carried out by the termination service,
//! and every step may be carried out twice, because a process may die after any of them.

pub mod claim;
pub mod collect;
pub mod deadline;
pub mod instance;
pub mod leaving;
pub mod node;
pub mod pace;
pub mod pdb;
pub mod pod;
pub mod time;
pub mod volumes;

#[cfg(test)]
mod tests;

pub use deadline::Deadline;
pub use instance::Instance;
pub use pod::Pod;

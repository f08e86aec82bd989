//! What the objects say about a claim: consolidatable, drifted and why, expired, beyond repair. Verdicts only; who writes them
//! into conditions, and deletes, is the service.
//!
//! Every answer also says when it may change by itself, so that nothing needs to be asked on a timer.

pub mod consolidatable;
pub mod drift;
pub mod expiry;
pub mod repair;

#[cfg(test)]
mod tests;

//! Decisions about disruption as pure functions of plain data: no clock, no I/O, no async.
//!
//! ```text
//! condition ─ what the objects say: consolidatable, drifted, expired, unhealthy
//! candidate ─ which nodes may go, or the named thing that holds them      budget, cron ─ how many, and when
//! consolidation, drift, churn ─ which of them, and is it worth it                       command ─ one removal, step by step
//! drain ─ how a node that goes is emptied
//! ```

pub mod budget;
pub mod candidate;
pub mod churn;
pub mod command;
pub mod condition;
pub mod consolidation;
pub mod cron;
pub mod drain;
pub mod drift;
pub mod method;

pub use method::{Class, Method, Reason};

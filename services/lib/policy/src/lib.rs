//! Decisions about disruption as pure functions of plain data: no clock, no I/O, no async.

pub mod consolidation;
pub mod drain;

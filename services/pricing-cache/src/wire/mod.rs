//! Plain data to and from the wire. Nothing is decided here but what a difference between two catalogues is.

mod delta;
mod marks;
mod parts;
mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use delta::delta;
pub(crate) use marks::{capacity_type, from_capacity_type, scope, timestamp, unavailable};
pub(crate) use parts::{facts, requirement_entry};
pub(crate) use snapshot::snapshot;

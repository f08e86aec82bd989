//! Plain data to and from the wire. Nothing is decided here but what a difference between two catalogues is.

mod delta;
mod frame;
mod marks;
mod parts;
mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use delta::delta;
pub(crate) use frame::{Numbered, framed_delta, framed_snapshot, unframed};
pub(crate) use marks::{capacity_type, from_capacity_type, scope, timestamp, unavailable};
pub(crate) use parts::{facts, requirement_entry};

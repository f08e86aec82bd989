//! Plain data to and from the wire. Nothing is decided here but what a difference between two catalogues is.

mod delta;
mod frame;
mod parts;
mod snapshot;
#[cfg(test)]
mod tests;
mod unavailable_offerings;

pub(crate) use delta::delta;
pub(crate) use frame::{Numbered, framed_delta, framed_snapshot, unframed};
pub(crate) use parts::{facts, requirement_entry};
pub(crate) use unavailable_offerings::{capacity_type, from_capacity_type, scope, timestamp, unavailable};

//! What is kept in ConfigMaps over a restart and shared by replicas: how it is written as text, and the task that writes.
//! Reading is lenient: a line or entry that makes no sense is left out and counted, never fatal.

mod memory;
mod prices;
mod saver;
mod types;
mod unavailable_offerings;

pub(crate) use memory::{memory_from, memory_key, memory_text};
pub(crate) use prices::{prices_from, prices_text};
pub(crate) use saver::{Save, Saver};
pub(crate) use types::{fingerprint, types_from, types_text};
pub(crate) use unavailable_offerings::{mark_text, marks_from, store_key};

/// Types and zones as EC2 last listed them.
pub(crate) const TYPES: &str = "karpenter-instance-types";
/// Prices as last read from the APIs.
pub(crate) const PRICES: &str = "karpenter-prices";
/// What EC2 could not give.
pub(crate) const UNAVAILABLE: &str = "karpenter-unavailable-offerings";
/// Memory that real nodes reported.
pub(crate) const MEMORY: &str = "karpenter-memory-capacity";

/// Field manager of every write of this service.
pub(crate) const FIELD_MANAGER: &str = "karpenter-pricing-cache";

/// What a ConfigMap held, and how many entries of it made no sense.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read<T> {
    pub(crate) found: T,
    pub(crate) malformed: usize,
}

//! Spread, affinity and anti-affinity: which domains of a label key a pod may go to, given where others are.

pub(crate) mod counts;
pub(crate) mod group;
pub(crate) mod groups;
pub(crate) mod hosts;

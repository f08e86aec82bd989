//! Ways to pack: in which order pods are placed, and what new nodes are made of.

pub(crate) mod by_price;
pub(crate) mod greedy;
pub(crate) mod repack;

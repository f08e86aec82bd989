//! Ways to pack: in which order pods are placed, and what new nodes are made of.
//!
//! `greedy` is first fit. `by_price` takes the new nodes of a valid decision apart and packs their pods again, while every pod
//! keeps the topology domain that was decided for it: `realize` names the parts, `asks` makes sizes of pods (equal requests,
//! equal places to go) and kinds of nodes (a type in offerings that no pod tells apart, at a price), the crate `packing` solves
//! that, and `realize` makes nodes of the solution.

pub(crate) mod asks;
pub(crate) mod by_price;
pub(crate) mod greedy;
pub(crate) mod realize;

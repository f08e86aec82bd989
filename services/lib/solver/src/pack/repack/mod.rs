//! Packing by price. Takes the new nodes of a valid decision apart and packs their pods again, with prices deciding what each
//! node is made of, while every pod keeps its pool and the topology domain that was decided for it.
//!
//! Pods become sizes (equal requests and reach), nodes become kinds (a type in cells that no pod tells apart, at a price). Column generation
//! over sizes and kinds tells what each pod should cost; nodes are then filled by value for money.

pub(crate) mod asks;
pub(crate) mod columns;
pub(crate) mod components;
pub(crate) mod construct;
pub(crate) mod dive;
pub(crate) mod exact;
pub(crate) mod fill;
pub(crate) mod improve;
pub(crate) mod knapsack;
pub(crate) mod problem;
pub(crate) mod realize;
pub(crate) mod simple;

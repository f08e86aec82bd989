//! Plain data of the domain: exact quantities, resources, the requirement algebra, taints, labels, durations and prices,
//! and the scheduling objects (pods, nodes, pools, instance types) that every decision is made from.
//!
//! Pure: no clock, no I/O, no async, no Kubernetes or AWS types. Conversions from API objects live in `api`, decisions in
//! `solver` and `policy`.

pub mod do_not_disrupt;
pub mod duration;
pub mod eviction;
pub mod labels;
pub mod price;
pub mod quantity;
pub mod requirement;
pub mod requirements;
pub mod resources;
pub mod taint;

pub mod catalog;
pub mod node;
pub mod pod;
pub mod pool;

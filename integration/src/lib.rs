//! The harness over the local cluster: starts it, starts our services on it as real processes, and waits on conditions.
//!
//! It knows nothing of what the services decide: assertions live in `tests/cluster/`. Everything it starts goes through
//! `deploy/local/stack`, the tool people use by hand, so that a test meets what a person meets.

pub mod aws;
pub mod black_hole;
pub mod browser;
pub mod chaos;
pub mod figures;
pub mod helm;
pub mod history;
pub mod invariants;
pub mod jaeger;
pub mod kubernetes;
pub mod processes;
pub mod real_node;
pub mod rpc;
pub mod stack;
pub mod suite;
pub mod wait;
pub mod workload;

pub use processes::Service;
pub use stack::Stack;
pub use suite::{Skipped, Test, run, run_in};
pub use wait::{eventually, patiently};

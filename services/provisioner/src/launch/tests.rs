//! Launches against a cloud in memory; the same against EC2's own behaviour is in `tests/launch.rs`.

mod batches;
mod candidates;
mod fixture;
mod fleets;
mod lasting_failures;

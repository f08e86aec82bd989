//! Tests of the API crate through its public face, without a server. `manifests` is also sent to a real API server, by the
//! integration tests.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod conditions;
mod definitions;
mod hashes;
#[path = "../manifests/mod.rs"]
mod manifests;
mod round_trip;
mod validation;

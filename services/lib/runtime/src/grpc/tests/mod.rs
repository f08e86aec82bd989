//! Real servers and callers in one process: TLS on both sides, a scripted API server for token and grant reviews.

mod calls;
mod fixture;
mod flooding;
mod guarding;
mod trusting;

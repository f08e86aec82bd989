//! `kubectl karpenter …`: what the autoscaler would do, asked from the command line.
//!
//! ```text
//!  manifest ──> cluster ──> plan (solver, policy) ──> table, JSON or HTML
//!  catalogue ──────┘
//! ```
//! `plan` works offline, on manifests: it links neither a cluster client nor the AWS SDK. Each sub-command is a module.

pub mod catalogue;
pub mod cluster;
pub mod features;
pub mod manifest;
pub mod plan;
pub mod process_usage;
mod progress;

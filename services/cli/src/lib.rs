//! `kubectl karpenter …`: what the autoscaler would do, asked from the command line.
//!
//! ```text
//!  manifest ──> cluster ──> plan (solver, policy) ──> table, JSON or HTML
//!  catalogue ──────┘
//! ```
//! `plan` works offline, on manifests: it asks neither a cluster nor AWS. Sub-commands that ask a running service reach it
//! through `connect`. Each sub-command is a module; none links the AWS SDK.

mod age;
pub mod catalogue;
pub mod check;
pub mod cluster;
mod columns;
pub mod commands;
pub mod connect;
pub mod drains;
pub mod explain;
pub mod features;
pub mod manifest;
mod offering;
mod output;
pub mod pause;
pub mod plan;
pub mod prices;
pub mod process_usage;
mod progress;
pub mod shadow;
pub mod top;
pub mod ui;

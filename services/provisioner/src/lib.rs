//! From pending pods to ready nodes: it hosts the solver, creates NodeClaims, launches them and follows each until its Node is
//! initialised; it answers what-if questions from an immutable snapshot. It removes nothing: that is termination's.
//!
//! ```text
//!  watches ─► cluster ─┐                    ┌─► schedule ─► claims ─► NodeClaims
//!  pricing-cache ─► catalog ─► views ─► batch                          │
//!  EC2NodeClass ─► nodeclass (status)       grpc (what-if)   lifecycle + launch ─► instances, Nodes
//!  NodePool ─► nodepool (status)
//! ```

mod catalog;
mod cluster;
mod config;
mod deps;
mod grpc;
pub mod launch;
pub mod nodeclass;

pub use config::Config;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(_config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
    shell.serve(grpc::server()).await?;
    Ok(())
}

//! which nodes may go, and when: empty, underutilised, drifted, expired, unhealthy. It removes nothing itself: it taints, orders
//! replacements from the provisioner and deletes NodeClaims, which termination then drains.

mod config;
mod grpc;

pub use config::Config;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(_config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
    let _leadership = shell.leadership();
    shell.serve(grpc::server()).await?;
    Ok(())
}

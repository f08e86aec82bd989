//! AWS's warnings, turned into drains before the instance goes. It drains nothing itself: it hands NodeClaims to termination with a
//! deadline and tells pricing-cache what EC2 is short of.

mod config;
mod grpc;

pub use config::Config;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(_config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
    shell.serve(grpc::server()).await?;
    Ok(())
}

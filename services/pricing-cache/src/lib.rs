//! what EC2 offers, at what price, live: the catalogue every decision reads. It is read-only towards AWS and decides nothing.

mod config;
mod grpc;

pub use config::Config;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(_config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
    shell.serve(grpc::server()).await?;
    Ok(())
}

//! owner of the finalizers and of everything that removes: taint, eviction within PDBs, volume detach, TerminateInstances, garbage
//! collection both ways. It never decides that a node should go.

mod config;
mod grpc;

pub use config::Config;

/// Wires the service. Everything it needs from outside is in `config` and `shell`.
pub async fn start(_config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
    shell.serve(grpc::server()).await?;
    Ok(())
}

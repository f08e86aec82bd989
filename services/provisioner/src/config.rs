//! What provisioner can be told from outside.

/// provisioner: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-provisioner", version)]
pub struct Config {
    #[command(flatten)]
    pub process: runtime::ProcessConfig,
    #[command(flatten)]
    pub settings: runtime::Settings,
}

impl runtime::ServiceConfig for Config {
    fn process(&self) -> &runtime::ProcessConfig {
        &self.process
    }
}

//! What interruption-watcher can be told from outside.

/// interruption-watcher: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-interruption-watcher", version)]
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

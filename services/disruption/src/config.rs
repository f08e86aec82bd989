//! What disruption can be told from outside.

use std::time::Duration;

use runtime::config::go_duration;

/// disruption: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-disruption", version)]
pub struct Config {
    #[command(flatten)]
    pub process: runtime::ProcessConfig,
    #[command(flatten)]
    pub settings: runtime::Settings,
    #[command(flatten)]
    pub disruption: Disruption,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Disruption {
    /// How long a decision about empty or underutilised nodes waits before it is looked at again and carried out.
    #[arg(long, env = "VALIDATION_WAIT", default_value = "15s", value_parser = go_duration)]
    pub validation_wait: Duration,

    /// After how long a node is simulated again that could not go, although nothing changed that we know of.
    #[arg(long, env = "FULL_LOOK_INTERVAL", default_value = "5m", value_parser = go_duration)]
    pub full_look_interval: Duration,

    /// Shortest time between two looks for nodes to remove, so that a busy cluster is looked at once for many changes.
    #[arg(long, env = "LOOK_INTERVAL", default_value = "1s", value_parser = go_duration)]
    pub look_interval: Duration,

    /// Time between the taint on a node and the last look at its pods, for bindings that the scheduler had under way.
    #[arg(long, env = "SETTLE_WAIT", default_value = "1s", value_parser = go_duration)]
    pub settle_wait: Duration,

    /// Writes a second to the Kubernetes API; apart from the reads, so that neither holds up the other.
    #[arg(long, env = "WRITES_PER_SECOND", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub writes_per_second: u32,
}

impl runtime::ServiceConfig for Config {
    fn process(&self) -> &runtime::ProcessConfig {
        &self.process
    }
}

//! What termination can be told from outside.

use std::time::Duration;

use runtime::config::go_duration;

/// termination: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-termination", version)]
pub struct Config {
    #[command(flatten)]
    pub process: runtime::ProcessConfig,
    #[command(flatten)]
    pub settings: runtime::Settings,
    /// How fast AWS is called, by class of calls: `create-fleet=5/20/50,describe=20/80`, that is calls a second, how many at once,
    /// and the most a second that a rate grows to while nothing is throttled. Also: terminate, tag, launch-template, other.
    #[arg(long, env = "AWS_RATE_LIMITS", default_value = "")]
    pub aws_rate_limits: cloud_aws::Limits,
    #[command(flatten)]
    pub removal: Removal,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Removal {
    /// The most evictions asked for, and writes on their way, at once; fewer while the API server is slow.
    #[arg(long, env = "EVICTIONS_AT_ONCE", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub evictions_at_once: u32,

    /// Writes a second to the Kubernetes API, evictions included; apart from the reads, so that neither holds up the other.
    #[arg(long, env = "WRITES_PER_SECOND", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub writes_per_second: u32,

    /// How often instances and NodeClaims are compared, once the first twenty looks (every ten seconds) are done.
    #[arg(long, env = "GARBAGE_COLLECTION_INTERVAL", default_value = "2m", value_parser = go_duration)]
    pub garbage_collection_interval: Duration,
}

impl runtime::ServiceConfig for Config {
    fn process(&self) -> &runtime::ProcessConfig {
        &self.process
    }
}

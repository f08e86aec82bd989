//! What pricing-cache can be told from outside.

use std::time::Duration;

/// pricing-cache: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-pricing-cache", version)]
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
    pub periods: Periods,
}

/// How often EC2 and the price list are read, plus or minus 10 %. The defaults are Karpenter's.
#[derive(Clone, Debug, clap::Args)]
pub struct Periods {
    /// How often instance types, their zones and the zones themselves are read.
    #[arg(long, env = "INSTANCE_TYPES_REFRESH_INTERVAL", default_value = "12h", value_parser = at_least_a_second)]
    pub instance_types_refresh_interval: Duration,

    /// How often on-demand prices are read.
    #[arg(long, env = "ON_DEMAND_REFRESH_INTERVAL", default_value = "12h", value_parser = at_least_a_second)]
    pub on_demand_refresh_interval: Duration,

    /// How often spot prices are read.
    #[arg(long, env = "SPOT_REFRESH_INTERVAL", default_value = "12h", value_parser = at_least_a_second)]
    pub spot_refresh_interval: Duration,

    /// How often capacity reservations are read.
    #[arg(long, env = "RESERVATIONS_REFRESH_INTERVAL", default_value = "1m", value_parser = at_least_a_second)]
    pub reservations_refresh_interval: Duration,

    /// How often zonal shifts are read, where they are followed at all.
    #[arg(long, env = "ZONAL_SHIFT_REFRESH_INTERVAL", default_value = "30s", value_parser = at_least_a_second)]
    pub zonal_shift_refresh_interval: Duration,
}

impl runtime::ServiceConfig for Config {
    fn process(&self) -> &runtime::ProcessConfig {
        &self.process
    }
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    let parsed = runtime::config::go_duration(text)?;
    if parsed < Duration::from_secs(1) { Err("must be at least 1s".to_owned()) } else { Ok(parsed) }
}

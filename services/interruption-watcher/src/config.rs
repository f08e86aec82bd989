//! What interruption-watcher can be told from outside.

use std::time::Duration;

use clap::ArgAction;
use runtime::config::{boolean, go_duration};

/// interruption-watcher: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-interruption-watcher", version)]
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
    pub interruption: Interruption,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Interruption {
    /// Create and repair the EventBridge rules that feed the queue. Otherwise they are only checked.
    #[arg(long, env = "MANAGE_RULES", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub manage_rules: bool,

    /// Drain a spot node after a rebalance recommendation, once a replacement is ready. Otherwise it only causes an event.
    #[arg(long, env = "DRAIN_ON_REBALANCE", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub drain_on_rebalance: bool,

    /// Most tasks that poll a busy queue at once.
    #[arg(long, env = "QUEUE_RECEIVERS", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub queue_receivers: u16,

    /// Deliveries after which a message that is refused each time is removed.
    #[arg(long, env = "QUEUE_MAX_DELIVERIES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub queue_max_deliveries: u32,

    /// Accounts whose messages are accepted besides those of the queue's own account, separated by commas: for an event bus that
    /// serves several accounts.
    #[arg(long, env = "EVENT_ACCOUNTS", value_delimiter = ',', value_parser = account)]
    pub event_accounts: Vec<String>,

    /// How often instance status is polled.
    #[arg(long, env = "INSTANCE_STATUS_INTERVAL", default_value = "1m", value_parser = go_duration)]
    pub instance_status_interval: Duration,
}

fn account(text: &str) -> Result<String, String> {
    let is_account = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_account { Ok(text.to_owned()) } else { Err("an AWS account has 12 digits".to_owned()) }
}

impl runtime::ServiceConfig for Config {
    fn process(&self) -> &runtime::ProcessConfig {
        &self.process
    }
}

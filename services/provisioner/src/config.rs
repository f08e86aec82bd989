//! What provisioner can be told from outside.

/// provisioner: see the README of the project.
#[derive(Debug, clap::Parser)]
#[command(name = "karpenter-provisioner", version)]
pub struct Config {
    #[command(flatten)]
    pub process: runtime::ProcessConfig,
    #[command(flatten)]
    pub settings: runtime::Settings,
    /// How fast AWS is called, by class of calls: `create-fleet=5/20/50,describe=20/80`, that is calls a second, how many at once,
    /// and the most a second that a rate grows to while nothing is throttled. Also: terminate, tag, launch-template, other.
    #[arg(long, env = "AWS_RATE_LIMITS", default_value = "")]
    pub aws_rate_limits: cloud_aws::Limits,
}

impl runtime::ServiceConfig for Config {
    fn process(&self) -> &runtime::ProcessConfig {
        &self.process
    }
}

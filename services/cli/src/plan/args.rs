//! Arguments of `plan`.

use std::io::IsTerminal;

use clap::ValueEnum;
use model::duration::GoDuration;
use solver::{MinValuesPolicy, Options, PreferencePolicy};

use crate::connect::Connection;
use crate::features::Features;

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Manifests: files or directories of YAML and JSON, `-` for standard input
    #[arg(short = 'f', long = "filename", required_unless_present_any = ["more", "live"], num_args = 1.., value_name = "DIR|FILE")]
    files: Vec<String>,

    /// Further manifests
    #[arg(value_name = "DIR|FILE")]
    more: Vec<String>,

    /// Instance types: a catalogue in the plan format, or the output of `aws ec2 describe-instance-types`; without it the
    /// built-in catalogue is used
    #[arg(long, value_name = "JSON", conflicts_with = "live")]
    pub catalog: Option<String>,

    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,

    /// Ask the running provisioner: the manifests change the cluster as it is now, and the answer is the difference
    #[arg(long, conflicts_with_all = ["preference_policy", "min_values_policy", "feature_gates"])]
    pub live: bool,

    /// With --live: leave this object of the cluster out, such as Node/ip-10-0-1-2 or Pod/NAMESPACE/NAME
    #[arg(long, value_name = "KIND/NAME", requires = "live")]
    pub remove: Vec<String>,

    /// Also say which nodes of the input would be taken away or replaced
    #[arg(long)]
    pub consolidate: bool,

    /// Longest time to plan, such as 10s; the best plan so far is printed then
    #[arg(long, value_name = "DURATION")]
    pub deadline: Option<GoDuration>,

    /// Whether preferences of pods count as long as they can be met
    #[arg(long, value_enum, default_value_t = Preferences::Respect, ignore_case = true)]
    preference_policy: Preferences,

    /// Whether a node may have fewer values than minValues asks for
    #[arg(long, value_enum, default_value_t = MinValues::Strict, ignore_case = true)]
    min_values_policy: MinValues,

    /// As of the services: ReservedCapacity=true,NodeOverlay=true,…
    #[arg(long, default_value = "", value_name = "NAME=BOOL,…", value_parser = str::parse::<Features>)]
    pub feature_gates: Features,

    /// No colours even on a terminal
    #[arg(long, env = "NO_COLOR", value_parser = clap::builder::BoolishValueParser::new(), default_value_t = false, num_args = 0..=1, default_missing_value = "true", hide_env_values = true)]
    no_color: bool,

    #[command(flatten)]
    pub connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_PROVISIONER", hide = true)]
    pub grpc_provisioner: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// For programs
    Json,
    /// One self-contained page that draws the nodes
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preferences {
    #[value(name = "Respect")]
    Respect,
    #[value(name = "Ignore")]
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MinValues {
    #[value(name = "Strict")]
    Strict,
    #[value(name = "BestEffort")]
    BestEffort,
}

impl Args {
    pub fn paths(&self) -> Vec<String> {
        self.files.iter().chain(&self.more).cloned().collect()
    }

    pub fn options(&self) -> Options {
        Options {
            preferences: match self.preference_policy {
                Preferences::Respect => PreferencePolicy::Respect,
                Preferences::Ignore => PreferencePolicy::Ignore,
            },
            min_values: match self.min_values_policy {
                MinValues::Strict => MinValuesPolicy::Strict,
                MinValues::BestEffort => MinValuesPolicy::BestEffort,
            },
            use_reserved: self.feature_gates.reserved_capacity,
            ..Options::default()
        }
    }

    pub fn colour(&self) -> bool {
        !self.no_color && std::io::stdout().is_terminal()
    }
}

//! Karpenter's own settings, with its names and defaults (reference: the AWS provider's flags, 1.14). A service flattens
//! this into its `Config` and takes from it what it needs.
//!
//! One difference by intent: a malformed value ends the start with exit status 64, where the reference falls back to the
//! default without a word.

use std::{str::FromStr, time::Duration};

use clap::{ArgAction, Args, ValueEnum};

use crate::config_values::{absolute_url, at_least_a_minute, boolean, go_duration, non_negative};

#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Name of the cluster, in tags, launch templates and instance profiles.
    #[arg(long, env = "CLUSTER_NAME")]
    pub cluster_name: String,

    /// API server address for nodes to join [default: asked from EKS].
    #[arg(long, env = "CLUSTER_ENDPOINT", value_parser = absolute_url)]
    pub cluster_endpoint: Option<String>,

    /// CA of the API server, base64, for nodes [default: the CA this process trusts].
    #[arg(long, env = "CLUSTER_CA_BUNDLE")]
    pub cluster_ca_bundle: Option<String>,

    /// The VPC has no way to IAM and Pricing: on-demand prices come from the built-in table.
    #[arg(long, env = "ISOLATED_VPC", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub isolated_vpc: bool,

    /// Ask EKS for the version of the control plane.
    #[arg(long, env = "EKS_CONTROL_PLANE", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub eks_control_plane: bool,

    /// Part of an instance's memory that its kernel and hypervisor keep; a fraction, despite the name.
    #[arg(long, env = "VM_MEMORY_OVERHEAD_PERCENT", default_value = "0.075", value_parser = non_negative,
          allow_hyphen_values = true)]
    pub vm_memory_overhead_percent: f64,

    /// SQS queue with interruption messages. Empty: none is read.
    #[arg(long, env = "INTERRUPTION_QUEUE", default_value = "")]
    pub interruption_queue: String,

    /// Network interfaces that are not for pods, taken off the pod limit.
    #[arg(long, env = "RESERVED_ENIS", default_value_t = 0)]
    pub reserved_enis: u32,

    /// Do not check permissions of an EC2NodeClass with dry-run calls.
    #[arg(long, env = "DISABLE_DRY_RUN", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_dry_run: bool,

    /// Keep away from a zone while AWS shifts traffic from it.
    #[arg(long, env = "ENABLE_ZONAL_SHIFT", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_zonal_shift: bool,

    /// How often AMIs are looked up again; at least 1m.
    #[arg(long, env = "AMI_REFRESH_INTERVAL", default_value = "1m", value_parser = at_least_a_minute)]
    pub ami_refresh_interval: Duration,

    /// How often subnets are looked up again; at least 1m.
    #[arg(long, env = "SUBNET_REFRESH_INTERVAL", default_value = "1m", value_parser = at_least_a_minute)]
    pub subnet_refresh_interval: Duration,

    /// Longest time that pending pods are collected into one batch.
    #[arg(long, env = "BATCH_MAX_DURATION", default_value = "10s", value_parser = go_duration,
          allow_hyphen_values = true)]
    pub batch_max_duration: Duration,

    /// A batch ends when no new pod came for this long.
    #[arg(long, env = "BATCH_IDLE_DURATION", default_value = "1s", value_parser = go_duration,
          allow_hyphen_values = true)]
    pub batch_idle_duration: Duration,

    /// Whether preferences of pods (preferred affinities, ScheduleAnyway) count when nodes are chosen.
    #[arg(long, env = "PREFERENCE_POLICY", default_value = "Respect")]
    pub preference_policy: PreferencePolicy,

    /// Whether minValues may be relaxed when they cannot be met.
    #[arg(long, env = "MIN_VALUES_POLICY", default_value = "Strict")]
    pub min_values_policy: MinValuesPolicy,

    /// Leave out pods that claim devices through dynamic resource allocation.
    #[arg(long, env = "IGNORE_DRA_REQUESTS", default_value = "true", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ignore_dra_requests: bool,

    /// Do not publish per-node and per-pod state as metrics.
    #[arg(long, env = "DISABLE_CLUSTER_STATE_OBSERVABILITY", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_cluster_state_observability: bool,

    /// Optional behaviour, e.g. `NodeRepair=true,SpotToSpotConsolidation=true`. Gates not named keep their default.
    #[arg(long, env = "FEATURE_GATES", default_value = "")]
    pub feature_gates: FeatureGates,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PreferencePolicy {
    Respect,
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum MinValuesPolicy {
    Strict,
    BestEffort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    pub node_repair: bool,
    pub reserved_capacity: bool,
    pub spot_to_spot_consolidation: bool,
    pub node_overlay: bool,
    pub static_capacity: bool,
    pub capacity_buffer: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
        }
    }
}

impl FromStr for FeatureGates {
    type Err = String;

    /// Unknown gates are let through, as in the reference: charts of other versions may name them.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} is not of the form Name=true"))?;
            let value = boolean(value.trim()).map_err(|error| format!("gate {name}: {error}"))?;
            let gate = match name.trim() {
                "NodeRepair" => &mut gates.node_repair,
                "ReservedCapacity" => &mut gates.reserved_capacity,
                "SpotToSpotConsolidation" => &mut gates.spot_to_spot_consolidation,
                "NodeOverlay" => &mut gates.node_overlay,
                "StaticCapacity" => &mut gates.static_capacity,
                "CapacityBuffer" => &mut gates.capacity_buffer,
                _ => continue,
            };
            *gate = value;
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_list_of_gates_keeps_the_other_defaults() {
        let gates: FeatureGates =
            "NodeRepair=true, SpotToSpotConsolidation=True,Future=true".parse().unwrap();
        let expected =
            FeatureGates { node_repair: true, spot_to_spot_consolidation: true, ..FeatureGates::default() };
        assert_eq!(gates, expected);
        assert_eq!("".parse(), Ok(FeatureGates::default()));
        assert!(!"ReservedCapacity=false".parse::<FeatureGates>().unwrap().reserved_capacity);
    }

    #[test]
    fn a_malformed_gate_is_refused_with_its_name() {
        for text in ["NodeRepair", "NodeRepair=on", "=", "NodeOverlay="] {
            assert!(text.parse::<FeatureGates>().is_err(), "{text}");
        }
        assert!("NodeRepair=on".parse::<FeatureGates>().unwrap_err().contains("NodeRepair"));
    }
}

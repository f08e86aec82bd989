//! Kubelet settings of an EC2NodeClass: a closed set of fields.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use model::duration::GoDuration;

use crate::Extra;
use crate::patterns;
use crate::schema::{Cel, Inner, cel};

/// Settings of the kubelet. They also tell the autoscaler how much of a node pods can use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubelet_rules())]
pub struct KubeletConfiguration {
    /// Addresses of the cluster's DNS servers. Unset takes the kube-dns service.
    #[serde(default, rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    /// Most pods on a node. Unset follows from the instance type's network interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_pods: Option<i32>,
    /// Most pods for each core of a node, within maxPods. Bottlerocket does not take this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pods_per_core: Option<i32>,
    /// What is kept back for the operating system: cpu, memory, ephemeral-storage, pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = Inner(json!({"pattern": patterns::QUANTITY})), transform = reserved_rules("systemReserved"))]
    pub system_reserved: Option<BTreeMap<String, String>>,
    /// What is kept back for Kubernetes' own programs: cpu, memory, ephemeral-storage, pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = Inner(json!({"pattern": patterns::QUANTITY})), transform = reserved_rules("kubeReserved"))]
    pub kube_reserved: Option<BTreeMap<String, String>>,
    /// Free room below which pods are evicted at once, as quantity or percent, by signal such as memory.available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = Inner(json!({"pattern": patterns::EVICTION})), transform = signal_rules("evictionHard"))]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Free room below which pods are evicted after a grace period, as quantity or percent, by signal. Bottlerocket does not
    /// take this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = Inner(json!({"pattern": patterns::EVICTION})), transform = signal_rules("evictionSoft"))]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    /// Grace period of each signal of evictionSoft, such as `1m30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, String>>", transform = signal_rules("evictionSoftGracePeriod"))]
    pub eviction_soft_grace_period: Option<BTreeMap<String, GoDuration>>,
    /// Longest grace period in seconds that a pod gets when it is evicted by evictionSoft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Disk usage in percent above which unused images are always removed.
    #[serde(default, rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk usage in percent below which images are never removed. Must be below the high threshold.
    #[serde(default, rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Whether CPU limits of containers are enforced by CFS quota.
    #[serde(default, rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

const RESERVABLE: &str = "'cpu', 'memory', 'ephemeral-storage', 'pid'";
const SIGNALS: &str = "'memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'";

fn reserved_rules(field: &str) -> Cel {
    cel(format!("self.all(k, k in [{RESERVABLE}])"), format!("{field} takes only the keys {RESERVABLE}"))
        .and("self.all(k, !self[k].startsWith('-'))", format!("{field} cannot hold negative amounts"))
}

fn signal_rules(field: &str) -> Cel {
    cel(format!("self.all(k, k in [{SIGNALS}])"), format!("{field} takes only the keys {SIGNALS}"))
}

fn kubelet_rules() -> Cel {
    cel(
        "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
        "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
    )
    .and(
        "!has(self.evictionSoft) || self.evictionSoft.all(k, has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod)",
        "every signal of evictionSoft needs a grace period in evictionSoftGracePeriod",
    )
    .and(
        "!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(k, has(self.evictionSoft) && k in self.evictionSoft)",
        "every signal of evictionSoftGracePeriod needs a threshold in evictionSoft",
    )
}

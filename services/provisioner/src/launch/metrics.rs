//! Metrics of launches, with the reference's names.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct FailureLabels {
    pub zone: String,
    pub zone_id: String,
    pub capacity_type: &'static str,
    pub reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ClassLabels {
    pub nodeclass: String,
}

#[derive(Clone, Default)]
pub struct LaunchMetrics {
    pub failures: Family<FailureLabels, Counter>,
    pub user_data_bytes: Family<ClassLabels, Gauge<u64, AtomicU64>>,
    /// Counts how many claims share a fleet request.
    pub calls: cloud_aws::CallMetrics,
}

impl LaunchMetrics {
    /// `calls` is registered already.
    pub fn registered(metrics: &runtime::Metrics, calls: cloud_aws::CallMetrics) -> Self {
        let own = Self { calls, ..Self::default() };
        metrics.register(
            "karpenter_cloudprovider_instance_launch_failures_total",
            "Places in which EC2 could not launch, by zone, capacity type and reason",
            own.failures.clone(),
        );
        metrics.register(
            "karpenter_ec2nodeclasses_userdata_bytes",
            "Size of the rendered user data of a class; EC2 takes 16384 bytes",
            own.user_data_bytes.clone(),
        );
        own
    }
}

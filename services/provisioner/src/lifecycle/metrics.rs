//! Metrics of the claims' life, with the reference's names, labels and buckets.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use runtime::Metrics;

use crate::metrics::DURATION_BUCKETS;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Disrupted {
    pub(super) reason: &'static str,
    pub(super) nodepool: String,
    pub(super) capacity_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Created {
    pub(super) nodepool: String,
    pub(super) zone: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Pool {
    pub(super) nodepool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    controller: &'static str,
    method: &'static str,
    provider: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailedCall {
    controller: &'static str,
    method: &'static str,
    provider: &'static str,
    error: &'static str,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone)]
pub(super) struct LifecycleMetrics {
    pub(super) disrupted: Family<Disrupted, Counter>,
    pub(super) nodes_created: Family<Created, Counter>,
    /// From a claim's creation to its registration; a name of earlier releases.
    pub(super) registered: Seconds<Pool>,
    calls: Seconds<Call>,
    failed_calls: Family<FailedCall, Counter>,
}

impl LifecycleMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let own = Self {
            disrupted: Family::default(),
            nodes_created: Family::default(),
            registered: Family::new_with_constructor(durations),
            calls: Family::new_with_constructor(durations),
            failed_calls: Family::default(),
        };
        metrics.register(
            "karpenter_nodeclaims_disrupted_total",
            "NodeClaims deleted by the autoscaler, by reason, NodePool and capacity type",
            own.disrupted.clone(),
        );
        metrics.register(
            "karpenter_nodes_created_total",
            "Nodes that joined and were registered, by NodePool and zone",
            own.nodes_created.clone(),
        );
        metrics.register(
            "karpenter_nodeclaims_registered_duration_seconds",
            "From the creation of a NodeClaim to its node's registration",
            own.registered.clone(),
        );
        metrics.register(
            "karpenter_cloudprovider_duration_seconds",
            "Time of calls to the cloud provider, by controller, method and provider",
            own.calls.clone(),
        );
        metrics.register(
            "karpenter_cloudprovider_errors_total",
            "Failed calls to the cloud provider, by controller, method, provider and error",
            own.failed_calls.clone(),
        );
        own
    }

    /// `error` is the reference's name of the failure, empty for those that have none; `None`: it succeeded.
    pub(super) fn launched(&self, took: Duration, error: Option<&'static str>) {
        let (controller, method, provider) = ("nodeclaim.lifecycle", "Create", "aws");
        self.calls.get_or_create(&Call { controller, method, provider }).observe(took.as_secs_f64());
        if let Some(error) = error {
            self.failed_calls.get_or_create(&FailedCall { controller, method, provider, error }).inc();
        }
    }
}

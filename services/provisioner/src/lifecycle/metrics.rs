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

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone)]
pub(super) struct LifecycleMetrics {
    pub(super) disrupted: Family<Disrupted, Counter>,
    pub(super) nodes_created: Family<Created, Counter>,
    /// From a claim's creation to its registration; a name of earlier releases.
    pub(super) registered: Seconds<Pool>,
    calls: cloud_aws::CallMetrics,
}

impl LifecycleMetrics {
    pub(super) fn new(metrics: &Metrics, calls: cloud_aws::CallMetrics) -> Self {
        let durations: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);
        let own = Self {
            disrupted: Family::default(),
            nodes_created: Family::default(),
            registered: Family::new_with_constructor(durations),
            calls,
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
        own
    }

    /// `error` is the reference's name of the failure, empty for those that have none; `None`: it succeeded.
    pub(super) fn launched(&self, took: Duration, error: Option<&'static str>) {
        self.calls.called("nodeclaim.lifecycle", "Create", took, error);
    }
}

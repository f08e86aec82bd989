//! Every metric of termination, with the reference's names, labels and buckets.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::summary::Summary;

pub(crate) use runtime::metrics::Disrupted;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Pool {
    pub(crate) nodepool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct PoolZone {
    pub(crate) nodepool: String,
    pub(crate) zone: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ClaimLabels {
    pub(crate) nodepool: String,
    pub(crate) capacity_type: String,
    pub(crate) zone: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Zone {
    pub(crate) zone: String,
    pub(crate) zone_id: String,
}

impl Zone {
    pub(crate) fn of(instance: &cloud::instance::Instance) -> Self {
        Self { zone: instance.zone.clone(), zone_id: instance.zone_id.clone().unwrap_or_default() }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Code {
    /// HTTP status; 0 where no answer came.
    pub(crate) code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Reason {
    pub(crate) reason: String,
}

type Histograms = Family<Pool, Histogram, fn() -> Histogram>;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(crate) evictions: Family<Code, Counter>,
    pub(crate) pods_drained: Family<Reason, Counter>,
    pub(crate) nodes_drained: Family<Pool, Counter>,
    pub(crate) nodes_terminated: Family<PoolZone, Counter>,
    pub(crate) node_termination: Summary,
    pub(crate) node_lifetime: Histograms,
    pub(crate) claims_terminated: Family<ClaimLabels, Counter>,
    pub(crate) claim_termination: Histograms,
    pub(crate) instance_termination: Histograms,
    pub(crate) instance_refusals: Family<Zone, Counter>,
    pub(crate) claims_disrupted: Family<Disrupted, Counter>,
    /// Ours: time from a claim's or node's deletion to the taint on its node.
    pub(crate) taint_delay: Histogram,
    /// Ours: pods that wait to be evicted now.
    pub(crate) waiting_pods: Gauge,
    /// Ours: instances ended because no claim wanted them.
    pub(crate) instances_collected: Counter,
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
const LIFETIME: [f64; 21] = [
    15.0 * MINUTE,
    30.0 * MINUTE,
    45.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    8.0 * HOUR,
    10.0 * HOUR,
    12.0 * HOUR,
    16.0 * HOUR,
    20.0 * HOUR,
    DAY,
    2.0 * DAY,
    3.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    15.0 * DAY,
    20.0 * DAY,
    25.0 * DAY,
    30.0 * DAY,
];

fn powers_of_two(upto: i32) -> impl Iterator<Item = f64> {
    (0..=upto).map(|power| 2.0_f64.powi(power))
}

impl Metrics {
    pub(crate) fn register(registry: &runtime::Metrics) -> Self {
        let metrics = Self {
            evictions: Family::default(),
            pods_drained: Family::default(),
            nodes_drained: Family::default(),
            nodes_terminated: Family::default(),
            node_termination: Summary::new(
                "karpenter_nodes_termination_duration_seconds",
                "The time taken between a node's deletion request and the removal of its finalizer",
                Some("nodepool"),
            ),
            node_lifetime: Family::new_with_constructor(|| Histogram::new(LIFETIME)),
            claims_terminated: Family::default(),
            claim_termination: Family::new_with_constructor(|| Histogram::new(powers_of_two(11))),
            instance_termination: Family::new_with_constructor(|| Histogram::new(powers_of_two(10))),
            instance_refusals: Family::default(),
            claims_disrupted: Family::default(),
            taint_delay: Histogram::new([0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]),
            waiting_pods: Gauge::default(),
            instances_collected: Counter::default(),
        };
        let m = &metrics;
        registry.register(
            "karpenter_pods_eviction_requests_total",
            "Requests to the eviction API, by HTTP code",
            m.evictions.clone(),
        );
        registry.register(
            "karpenter_pods_drained_total",
            "Pods evicted or deleted from nodes that go, by reason",
            m.pods_drained.clone(),
        );
        registry.register(
            "karpenter_nodes_drained_total",
            "Nodes that were drained",
            m.nodes_drained.clone(),
        );
        registry.register(
            "karpenter_nodes_terminated_total",
            "Nodes whose finalizer was removed",
            m.nodes_terminated.clone(),
        );
        registry.register(
            "karpenter_cloudprovider_instance_termination_failures_total",
            "Instances that EC2 did not end when told to",
            m.instance_refusals.clone(),
        );
        registry.register_collector(m.node_termination.clone());
        registry.register(
            "karpenter_nodes_lifetime_duration_seconds",
            "Age of nodes when they were removed",
            m.node_lifetime.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_terminated_total",
            "NodeClaims whose finalizer was removed",
            m.claims_terminated.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_termination_duration_seconds",
            "From deletion of a NodeClaim to the removal of its finalizer",
            m.claim_termination.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_instance_termination_duration_seconds",
            "From the order to end an instance to its end",
            m.instance_termination.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_disrupted_total",
            "NodeClaims deleted, by reason",
            m.claims_disrupted.clone(),
        );
        registry.register(
            "karpenter_termination_taint_delay_seconds",
            "From deletion to the taint on the node",
            m.taint_delay.clone(),
        );
        registry.register(
            "karpenter_termination_waiting_pods",
            "Pods that wait to be evicted",
            m.waiting_pods.clone(),
        );
        registry.register(
            "karpenter_termination_instances_collected_total",
            "Instances ended because no NodeClaim wanted them",
            m.instances_collected.clone(),
        );
        metrics
    }
}

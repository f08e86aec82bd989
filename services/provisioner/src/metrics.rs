//! Every metric of deciding and creating, with the reference's names, labels and buckets.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// Seconds, as all duration histograms of the reference.
pub(crate) const DURATION_BUCKETS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

/// As the reference names the loop in its `controller` labels.
const CONTROLLER: &str = "provisioner";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

/// One decision.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Run {
    controller: &'static str,
    scheduling_id: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct InZone {
    controller: &'static str,
    zone: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPool {
    nodepool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Created {
    reason: &'static str,
    nodepool: String,
    min_values_relaxed: &'static str,
}

type Float = Gauge<f64, AtomicU64>;
type Histograms = Family<Controller, Histogram, fn() -> Histogram>;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    scheduling: Histograms,
    /// The name of earlier releases, which people's boards still have.
    scheduling_alias: Histogram,
    queue_depth: Family<Run, Gauge>,
    unfinished: Family<Run, Float>,
    unschedulable: Family<Controller, Gauge>,
    by_zone: Family<InZone, Gauge>,
    unpriced: Family<OfPool, Counter>,
    unsound: Counter,
    refused: Counter,
    ignored: Gauge,
    decision: Histogram,
    created: Family<Created, Counter>,
    nodes: Gauge,
    synced: Gauge,
    unsynced: Float,
    pub(crate) batch_size: Histogram,
    pub(crate) decided_to_created: Histogram,
}

fn run(id: u64) -> Run {
    Run { controller: CONTROLLER, scheduling_id: id.to_string() }
}

fn histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS)
}

impl Metrics {
    pub(crate) fn new(registry: &runtime::Metrics) -> Self {
        let family: fn() -> Histogram = histogram;
        let m = Self {
            scheduling: Family::new_with_constructor(family),
            scheduling_alias: histogram(),
            queue_depth: Family::default(),
            unfinished: Family::default(),
            unschedulable: Family::default(),
            by_zone: Family::default(),
            unpriced: Family::default(),
            unsound: Counter::default(),
            refused: Counter::default(),
            ignored: Gauge::default(),
            decision: histogram(),
            created: Family::default(),
            nodes: Gauge::default(),
            synced: Gauge::default(),
            unsynced: Float::default(),
            batch_size: Histogram::new([
                1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0,
            ]),
            decided_to_created: histogram(),
        };
        let r = registry;
        r.register(
            "karpenter_scheduler_scheduling_duration_seconds",
            "Time to decide where pending pods go",
            m.scheduling.clone(),
        );
        r.register(
            "karpenter_provisioner_scheduling_duration_seconds",
            "The same under its former name",
            m.scheduling_alias.clone(),
        );
        r.register("karpenter_scheduler_queue_depth", "Pods being decided about", m.queue_depth.clone());
        r.register(
            "karpenter_scheduler_unfinished_work_seconds",
            "Age of the decision under way",
            m.unfinished.clone(),
        );
        r.register(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods that no node could be found or made for",
            m.unschedulable.clone(),
        );
        r.register(
            "karpenter_scheduler_pending_pods_by_effective_zone_count",
            "Pods being decided about by the only zone they can run in; flexible: several, none: no zone that is sold",
            m.by_zone.clone(),
        );
        r.register(
            "karpenter_nodepools_cost_tracker_errors_total",
            "Nodes whose price is not known, by NodePool",
            m.unpriced.clone(),
        );
        r.register(
            "karpenter_provisioner_unsound_plans_total",
            "Plans that broke a rule and were not carried out",
            m.unsound.clone(),
        );
        r.register(
            "karpenter_provisioner_scheduler_refusals_total",
            "Pods that kube-scheduler refused on a ready node that was made for them",
            m.refused.clone(),
        );
        r.register(
            "karpenter_scheduler_ignored_pods_count",
            "Pending pods that are not decided about",
            m.ignored.clone(),
        );
        r.register(
            "karpenter_pods_scheduling_decision_duration_seconds",
            "From a pod's first sight to the first decision about it",
            m.decision.clone(),
        );
        r.register(
            "karpenter_nodeclaims_created_total",
            "NodeClaims created, by reason and pool",
            m.created.clone(),
        );
        r.register("karpenter_cluster_state_node_count", "Nodes in the cluster's state", m.nodes.clone());
        r.register(
            "karpenter_cluster_state_synced",
            "1 when the cluster's state is complete",
            m.synced.clone(),
        );
        r.register(
            "karpenter_cluster_state_unsynced_time_seconds",
            "How long the cluster's state has been incomplete",
            m.unsynced.clone(),
        );
        r.register(
            "karpenter_provisioner_batch_size",
            "Pods and nodes that one window gathered",
            m.batch_size.clone(),
        );
        r.register(
            "karpenter_provisioner_window_to_created_seconds",
            "From the end of a window to the last NodeClaim created",
            m.decided_to_created.clone(),
        );
        m
    }

    pub(crate) fn cluster_state(&self, nodes: usize, synced: bool, unsynced: f64) {
        self.nodes.set(i64::try_from(nodes).unwrap_or(i64::MAX));
        self.synced.set(i64::from(synced));
        self.unsynced.set(if synced { 0.0 } else { unsynced });
    }

    /// A decision begins; `id` tells it from others.
    pub(crate) fn begin(&self, id: u64, pods: usize) {
        self.queue_depth.clear();
        self.queue_depth.get_or_create(&run(id)).set(i64::try_from(pods).unwrap_or(i64::MAX));
        self.unfinished.get_or_create(&run(id)).set(0.0);
    }

    pub(crate) fn decided(&self, id: u64, seconds: f64, unschedulable: usize, ignored: usize) {
        let labels = Controller { controller: CONTROLLER };
        self.scheduling.get_or_create(&labels).observe(seconds);
        self.scheduling_alias.observe(seconds);
        self.queue_depth.get_or_create(&run(id)).set(0);
        self.unfinished.remove(&run(id));
        self.unschedulable.get_or_create(&labels).set(i64::try_from(unschedulable).unwrap_or(i64::MAX));
        self.ignored.set(i64::try_from(ignored).unwrap_or(i64::MAX));
    }

    /// Pods of the last decision by zone.
    pub(crate) fn zones(&self, pods: &BTreeMap<String, usize>) {
        self.by_zone.clear();
        for (zone, count) in pods {
            let labels = InZone { controller: CONTROLLER, zone: zone.clone() };
            self.by_zone.get_or_create(&labels).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn unsound(&self, plans: usize) {
        self.unsound.inc_by(plans as u64);
    }

    /// Pods that kube-scheduler refused on a node that was made for them.
    pub(crate) fn refused(&self, pods: u64) {
        self.refused.inc_by(pods);
    }

    /// A node of the pool was launched, and nothing tells what it costs.
    pub(crate) fn unpriced(&self, nodepool: &str) {
        self.unpriced.get_or_create(&OfPool { nodepool: nodepool.to_owned() }).inc();
    }

    /// The first decision about a pod.
    pub(crate) fn first_decision(&self, seconds: f64) {
        self.decision.observe(seconds.max(0.0));
    }

    pub(crate) fn created(&self, reason: &'static str, nodepool: &str, relaxed: bool) {
        let labels = Created {
            reason,
            nodepool: nodepool.to_owned(),
            min_values_relaxed: if relaxed { "true" } else { "false" },
        };
        self.created.get_or_create(&labels).inc();
    }
}

//! Every metric of disruption, with the reference's names, labels and buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;

pub(crate) use runtime::metrics::Disrupted;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Evaluation {
    pub(crate) reason: &'static str,
    pub(crate) consolidation_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Decided {
    pub(crate) decision: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) consolidation_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct DecidedFor {
    pub(crate) nodepool: String,
    pub(crate) decision: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) consolidation_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Reason {
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Type {
    pub(crate) consolidation_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct PoolReason {
    pub(crate) nodepool: String,
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Unhealthy {
    pub(crate) condition: String,
    pub(crate) nodepool: String,
    pub(crate) capacity_type: String,
    pub(crate) image_id: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Move {
    pub(crate) decision: &'static str,
    pub(crate) nodepool: String,
    pub(crate) policy: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Cause {
    pub(crate) cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Outcome {
    pub(crate) outcome: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(crate) evaluation: Histograms<Evaluation>,
    pub(crate) decisions: Family<Decided, Counter>,
    pub(crate) decisions_by_pool: Family<DecidedFor, Counter>,
    pub(crate) eligible: Family<Reason, Gauge>,
    pub(crate) timeouts: Family<Type, Counter>,
    pub(crate) failed_validations: Family<Type, Counter>,
    pub(crate) queue_failures: Family<Decided, Counter>,
    pub(crate) allowed: Family<PoolReason, Gauge>,
    pub(crate) consuming: Family<PoolReason, Gauge>,
    pub(crate) disrupted: Family<Disrupted, Counter>,
    pub(crate) unhealthy: Family<Unhealthy, Counter>,
    pub(crate) scores: Histograms<Move>,
    pub(crate) moves: Family<Move, Counter>,
    /// Ours: what-ifs asked of the provisioner.
    pub(crate) probes: Counter,
    /// Ours: how long one look for nodes to remove took, what-ifs included, validation waits not.
    pub(crate) look: Histogram,
    /// Ours: from the end of the validation wait to the first taint.
    pub(crate) taint_delay: Histogram,
    /// Ours: commands that were taken back after their nodes were tainted.
    pub(crate) rolled_back: Family<Cause, Counter>,
    /// Ours: replacements of commands that were carried out, and those that were launched for nothing.
    pub(crate) replacements: Family<Outcome, Counter>,
    /// Ours: savings that commands promised, and the part of them that was not realised, in dollars per hour.
    pub(crate) promised_savings: Counter<f64, AtomicU64>,
    pub(crate) missed_savings: Counter<f64, AtomicU64>,
    /// Ours: nodes bought for pods that a command had moved.
    pub(crate) extra_nodes: Counter,
    /// Ours: when a look for nodes to remove last came to its end.
    pub(crate) passes: PassAge,
}

/// When a look last came to its end, in seconds of the Unix epoch; 0 where this replica does not lead. The age is worked out when
/// a scraper asks, so that it grows also while nothing moves.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassAge(Arc<AtomicI64>);

impl PassAge {
    pub(crate) fn completed(&self, now: Timestamp) {
        self.0.store(now.as_second(), Ordering::Relaxed);
    }

    pub(crate) fn follows(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn seconds(&self, now: Timestamp) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            0 => 0,
            at => now.as_second().saturating_sub(at).max(0),
        }
    }
}

impl Collector for PassAge {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let seconds = ConstGauge::new(self.seconds(Timestamp::now()));
        let name = "karpenter_disruption_seconds_since_last_pass";
        let help = "Seconds since the leader last looked through the whole cluster for nodes to remove";
        seconds.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}

/// The reference's buckets for durations.
const DURATIONS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];
const SCORES: [f64; 8] = [0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];

impl Metrics {
    pub(crate) fn register(registry: &runtime::Metrics) -> Self {
        let metrics = Self {
            evaluation: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            decisions: Family::default(),
            decisions_by_pool: Family::default(),
            eligible: Family::default(),
            timeouts: Family::default(),
            failed_validations: Family::default(),
            queue_failures: Family::default(),
            allowed: Family::default(),
            consuming: Family::default(),
            disrupted: Family::default(),
            unhealthy: Family::default(),
            scores: Family::new_with_constructor(|| Histogram::new(SCORES)),
            moves: Family::default(),
            probes: Counter::default(),
            look: Histogram::new(DURATIONS),
            taint_delay: Histogram::new([0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]),
            rolled_back: Family::default(),
            replacements: Family::default(),
            promised_savings: Counter::default(),
            missed_savings: Counter::default(),
            extra_nodes: Counter::default(),
            passes: PassAge::default(),
        };
        let m = &metrics;
        // No search is cut off here; the series exist for dashboards that expect them.
        for consolidation_type in ["multi", "single"] {
            let _ = m.timeouts.get_or_create(&Type { consolidation_type });
        }
        registry.register(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            "Time to decide about nodes to disrupt, the wait before the second look included",
            m.evaluation.clone(),
        );
        registry.register(
            "karpenter_voluntary_disruption_decisions_total",
            "Decisions to disrupt nodes",
            m.decisions.clone(),
        );
        registry.register(
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            "Decisions to disrupt nodes, once for each NodePool concerned",
            m.decisions_by_pool.clone(),
        );
        registry.register(
            "karpenter_voluntary_disruption_eligible_nodes",
            "Nodes that may be disrupted, by reason",
            m.eligible.clone(),
        );
        registry.register(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Searches given up for want of time",
            m.timeouts.clone(),
        );
        registry.register(
            "karpenter_disruption_consolidation_timeouts_total",
            "The same under its former name",
            m.timeouts.clone(),
        );
        registry.register(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Nodes of decisions that did not hold at the second look",
            m.failed_validations.clone(),
        );
        registry.register(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Replacements that did not become ready, of commands that were taken back",
            m.queue_failures.clone(),
        );
        registry.register(
            "karpenter_nodepools_allowed_disruptions",
            "Nodes of a NodePool that may be disrupted now, by reason",
            m.allowed.clone(),
        );
        registry.register(
            "karpenter_nodepools_nodes_consuming_budgets",
            "Nodes of a NodePool that count against its budgets, by reason",
            m.consuming.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_disrupted_total",
            "NodeClaims deleted, by reason",
            m.disrupted.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_unhealthy_disrupted_total",
            "NodeClaims deleted because their node was unhealthy",
            m.unhealthy.clone(),
        );
        registry.register(
            "karpenter_consolidation_score",
            "Savings share over disturbance share of moves in pools with policy Balanced",
            m.scores.clone(),
        );
        registry.register(
            "karpenter_consolidation_moves_total",
            "Moves considered by consolidation",
            m.moves.clone(),
        );
        registry.register(
            "karpenter_disruption_probes_total",
            "Removals simulated by the provisioner for disruption",
            m.probes.clone(),
        );
        registry.register(
            "karpenter_disruption_look_duration_seconds",
            "One look for nodes to remove, simulations included",
            m.look.clone(),
        );
        registry.register(
            "karpenter_disruption_taint_delay_seconds",
            "From the end of the wait before the second look to the first taint",
            m.taint_delay.clone(),
        );
        registry.register(
            "karpenter_disruption_rolled_back_total",
            "Commands that were taken back after their nodes were tainted",
            m.rolled_back.clone(),
        );
        // Both exist from the start: an alert on a rate needs the 0 before the first 1.
        for outcome in ["used", "dropped"] {
            let _ = m.replacements.get_or_create(&Outcome { outcome });
        }
        registry.register(
            "karpenter_disruption_replacements_total",
            "Replacements of commands that were carried out (used), and those launched for commands that were taken back (dropped)",
            m.replacements.clone(),
        );
        registry.register(
            "karpenter_disruption_promised_savings_dollars_per_hour_total",
            "Savings that consolidation commands promised, of those whose pods run again",
            m.promised_savings.clone(),
        );
        registry.register(
            "karpenter_disruption_missed_savings_dollars_per_hour_total",
            "The part of the promised savings that was spent on nodes for moved pods that found no place",
            m.missed_savings.clone(),
        );
        registry.register(
            "karpenter_disruption_extra_nodes_total",
            "Nodes bought for pods that consolidation had moved",
            m.extra_nodes.clone(),
        );
        registry.register_collector(m.passes.clone());
        metrics
    }

    /// Counts a NodeClaim that is deleted by its exact reason and, as older boards expect it, under the group `consolidation`.
    pub(crate) fn disrupted(&self, labels: &Disrupted) {
        self.disrupted.get_or_create(labels).inc();
        if matches!(labels.reason, "empty" | "underutilized") {
            let group = Disrupted { reason: "consolidation", ..labels.clone() };
            self.disrupted.get_or_create(&group).inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_the_last_pass_grows_and_a_follower_has_none() {
        let (age, at) = (PassAge::default(), |second| Timestamp::from_second(second).unwrap());
        assert_eq!(age.seconds(at(1000)), 0);
        age.completed(at(1000));
        assert_eq!(age.seconds(at(1090)), 90);
        age.follows();
        assert_eq!(age.seconds(at(2000)), 0);
    }
}

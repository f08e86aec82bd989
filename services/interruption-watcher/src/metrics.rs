//! Every metric of interruption-watcher, with the reference's names, labels and buckets where it has them.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

pub(crate) use runtime::metrics::Disrupted;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct MessageType {
    pub(crate) message_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Category {
    pub(crate) category: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Reason {
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RuleName {
    pub(crate) rule: &'static str,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    pub(crate) received: Family<MessageType, Counter>,
    pub(crate) deleted: Counter,
    /// From the time that AWS gives in the message to the end of its handling.
    pub(crate) queue_duration: Histogram,
    pub(crate) unhealthy: Family<Category, Counter>,
    pub(crate) disrupted: Family<Disrupted, Counter>,
    /// Ours: handled without success and left in the queue.
    pub(crate) failed: Counter,
    /// Ours: of another account or region, by which of the two.
    pub(crate) refused: Family<Reason, Counter>,
    /// Ours: EC2 did not confirm the end of an instance, so that budgets hold.
    pub(crate) unconfirmed: Counter,
    /// Ours: removed after too many failures.
    pub(crate) poisoned: Counter,
    /// Ours: from receipt to the deletion being stored.
    pub(crate) handling: Histogram,
    /// Ours: tasks that poll the queue now.
    pub(crate) receivers: Gauge,
    /// Ours: 1 while the queue cannot be read, by reason.
    pub(crate) queue_problem: Family<Reason, Gauge>,
    /// Ours: 1 while a rule that should feed the queue does not.
    pub(crate) rule_missing: Family<RuleName, Gauge>,
    /// Ours: unavailable offerings that could not be reported to pricing-cache.
    pub(crate) reports_lost: Counter,
    /// Ours: polls of instance health that failed, by reason.
    pub(crate) health_errors: Family<Reason, Counter>,
}

/// The reference's buckets of durations, in seconds.
const DURATIONS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

/// Every value of `message_type`.
const MESSAGE_TYPES: [&str; 8] = [
    "spot_interrupted",
    "rebalance_recommendation",
    "scheduled_change",
    "instance_stopped",
    "instance_terminated",
    "capacity_reservation_interrupted",
    "no_op",
    "malformed",
];

impl Metrics {
    /// What was received since the start; kinds that did not come are left out.
    pub(crate) fn received_by_type(&self) -> Vec<(&'static str, u64)> {
        let count = |message_type| self.received.get_or_create(&MessageType { message_type }).get();
        MESSAGE_TYPES.into_iter().map(|kind| (kind, count(kind))).filter(|(_, count)| *count > 0).collect()
    }

    pub(crate) fn register(registry: &runtime::Metrics) -> Self {
        let metrics = Self {
            received: Family::default(),
            deleted: Counter::default(),
            queue_duration: Histogram::new(DURATIONS),
            unhealthy: Family::default(),
            disrupted: Family::default(),
            failed: Counter::default(),
            refused: Family::default(),
            unconfirmed: Counter::default(),
            poisoned: Counter::default(),
            handling: Histogram::new(DURATIONS),
            receivers: Gauge::default(),
            queue_problem: Family::default(),
            rule_missing: Family::default(),
            reports_lost: Counter::default(),
            health_errors: Family::default(),
        };
        let m = &metrics;
        registry.register(
            "karpenter_interruption_received_messages_total",
            "Messages received from the queue, by kind",
            m.received.clone(),
        );
        registry.register(
            "karpenter_interruption_deleted_messages_total",
            "Messages deleted from the queue",
            m.deleted.clone(),
        );
        registry.register(
            "karpenter_interruption_message_queue_duration_seconds",
            "Time from the event to the end of its handling",
            m.queue_duration.clone(),
        );
        registry.register(
            "karpenter_interruption_instance_status_unhealthy_total",
            "Nodes found unhealthy by polling instance status, counted once until they recover",
            m.unhealthy.clone(),
        );
        registry.register(
            "karpenter_nodeclaims_disrupted_total",
            "NodeClaims deleted, by reason",
            m.disrupted.clone(),
        );
        registry.register(
            "karpenter_interruption_failed_messages_total",
            "Messages that could not be handled and were returned to the queue",
            m.failed.clone(),
        );
        registry.register(
            "karpenter_interruption_refused_messages_total",
            "Messages ignored because they come from another account or region, by reason",
            m.refused.clone(),
        );
        registry.register(
            "karpenter_interruption_unconfirmed_messages_total",
            "Messages about an ending instance that EC2 did not confirm; the node is drained within PodDisruptionBudgets",
            m.unconfirmed.clone(),
        );
        registry.register(
            "karpenter_interruption_poisoned_messages_total",
            "Messages removed after handling them failed repeatedly",
            m.poisoned.clone(),
        );
        registry.register(
            "karpenter_interruption_handling_duration_seconds",
            "Time from receiving a message about a managed node to recording its removal",
            m.handling.clone(),
        );
        registry.register(
            "karpenter_interruption_receivers",
            "Tasks that currently poll the queue",
            m.receivers.clone(),
        );
        registry.register(
            "karpenter_interruption_queue_problem",
            "1 while the queue cannot be read, by reason",
            m.queue_problem.clone(),
        );
        registry.register(
            "karpenter_interruption_rule_missing",
            "1 while an EventBridge rule that should feed the queue does not",
            m.rule_missing.clone(),
        );
        registry.register(
            "karpenter_interruption_unreported_marks_total",
            "Unavailable offerings that could not be reported to pricing-cache",
            m.reports_lost.clone(),
        );
        registry.register(
            "karpenter_interruption_health_poll_errors_total",
            "Polls of instance status that failed, by reason",
            m.health_errors.clone(),
        );
        metrics
    }
}

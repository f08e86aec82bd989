//! The kinds whose conditions are followed.

use api::conditions::Condition;
use api::{EC2NodeClass, NodeClaim, NodePool};
use k8s_openapi::api::core::v1::Node;
use model::labels;
use prometheus_client::metrics::histogram::Histogram;
use runtime::{Leadership, Metrics};

use super::conditions::{Conditioned, General, Seen, Tracker, doubling};
use crate::metrics::DURATION_BUCKETS;

/// Makes the trackers, one a kind.
pub(crate) struct Conditions {
    metrics: Metrics,
    general: General,
    gauges: bool,
}

impl Conditions {
    pub(super) fn new(metrics: &Metrics, leadership: Leadership, gauges: bool) -> Self {
        Self { metrics: metrics.clone(), general: General::new(metrics, leadership), gauges }
    }

    /// To be called once for each kind.
    pub(crate) fn tracker<K: Conditioned>(&self) -> Tracker<K> {
        Tracker::new(&self.metrics, &self.general, self.gauges)
    }
}

fn of(list: Option<&[Condition]>) -> Vec<Seen> {
    let seen = |condition: &Condition| Seen {
        type_: condition.type_.clone(),
        status: condition.status.as_str().to_owned(),
        reason: condition.reason.clone(),
        since: condition.last_transition_time.0,
    };
    list.unwrap_or_default().iter().map(seen).collect()
}

impl Conditioned for NodeClaim {
    const WORD: &'static str = "nodeclaim";
    const BUCKETS: fn() -> Histogram = doubling;

    fn seen(&self) -> Vec<Seen> {
        of(self.status.as_ref().and_then(|s| s.conditions.as_deref()))
    }

    fn extras(&self) -> Vec<(&'static str, String)> {
        let pool = self.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        vec![
            ("karpenter_k8s_aws_ec2nodeclass", self.spec.node_class_ref.name.clone()),
            ("karpenter_sh_nodepool", pool.cloned().unwrap_or_default()),
        ]
    }
}

impl Conditioned for NodePool {
    const WORD: &'static str = "nodepool";
    const BUCKETS: fn() -> Histogram = doubling;

    fn seen(&self) -> Vec<Seen> {
        of(self.status.as_ref().and_then(|s| s.conditions.as_deref()))
    }

    fn extras(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Conditioned for EC2NodeClass {
    const WORD: &'static str = "ec2nodeclass";
    const BUCKETS: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS);

    fn seen(&self) -> Vec<Seen> {
        of(self.status.as_ref().and_then(|s| s.conditions.as_deref()))
    }

    fn extras(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Conditioned for Node {
    const WORD: &'static str = "node";
    const BUCKETS: fn() -> Histogram = doubling;

    fn seen(&self) -> Vec<Seen> {
        let list = self.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let seen = list.iter().map(|condition| Seen {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone().unwrap_or_default(),
            since: condition.last_transition_time.as_ref().map(|t| t.0).unwrap_or_default(),
        });
        seen.collect()
    }

    fn extras(&self) -> Vec<(&'static str, String)> {
        let label = |key: &str| {
            self.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default()
        };
        vec![
            ("karpenter_k8s_aws_ec2nodeclass", label(labels::EC2NODECLASS)),
            ("karpenter_sh_nodepool", label(labels::NODEPOOL)),
            ("karpenter_sh_initialized", label(labels::INITIALIZED)),
        ]
    }
}

//! What was decided about each pod that waits: first verdicts for the metric, last verdicts for questions. Pure bookkeeping.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use solver::{NewNode, Plan, PodRef};

use super::PodIds;
use crate::cluster::ClusterView;
use crate::metrics::Metrics;

/// A pod that waits.
#[derive(Clone, Debug)]
pub(crate) struct PodId {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

/// The last word about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// A node that exists or is on its way has room.
    Fits(Arc<str>),
    /// A claim was made for it.
    Made(Arc<str>),
    Unschedulable(Arc<str>),
    /// The solver found a place, and it must not be used now.
    Held(Arc<str>),
}

/// By UID.
pub(crate) type Verdicts = BTreeMap<Arc<str>, Verdict>;

#[derive(Default)]
pub(super) struct Decisions {
    verdicts: Verdicts,
}

impl Decisions {
    /// Takes in a plan, forgets pods that do not wait any more, and returns who the plan's pods are. Pods of nodes that go
    /// are among them too; they get no verdict, for they do not wait.
    pub(super) fn note(&mut self, view: &ClusterView, plan: &Plan, metrics: &Metrics) -> PodIds {
        let now = Timestamp::now();
        let mut ids = PodIds::new();
        let mut known: Verdicts = BTreeMap::new();
        let mut since = BTreeMap::new();
        for pod in view.pending.iter() {
            let key = PodRef { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) };
            let (namespace, name, uid) =
                (Arc::clone(&pod.namespace), Arc::clone(&pod.name), Arc::clone(&pod.uid));
            if let Some(verdict) = self.verdicts.remove(&uid) {
                known.insert(Arc::clone(&uid), verdict);
            }
            since.insert(key.clone(), pod.since);
            ids.insert(key, PodId { namespace, name, uid });
        }
        self.verdicts = known;
        let decided = |pod: &PodRef, verdict: Verdict, all: &mut Verdicts| {
            let (Some(id), Some(since)) = (ids.get(pod), since.get(pod)) else { return };
            if all.insert(Arc::clone(&id.uid), verdict).is_none() {
                metrics.first_decision(now.duration_since(*since).as_secs_f64());
            }
        };
        for node in &plan.existing {
            for pod in &node.pods {
                decided(pod, Verdict::Fits(Arc::clone(&node.node)), &mut self.verdicts);
            }
        }
        for pod in plan.new_nodes.iter().flat_map(|n| &n.pods) {
            decided(pod, Verdict::Made(Arc::from("")), &mut self.verdicts);
        }
        for left in &plan.unschedulable {
            let reason: Arc<str> = Arc::from(left.why.to_string());
            decided(&left.pod, Verdict::Unschedulable(reason), &mut self.verdicts);
        }
        for ((namespace, name), uid) in view.leaving.iter() {
            let (namespace, name, uid) = (Arc::clone(namespace), Arc::clone(name), Arc::clone(uid));
            let key = PodRef { namespace: Arc::clone(&namespace), name: Arc::clone(&name) };
            ids.insert(key, PodId { namespace, name, uid });
        }
        ids
    }

    pub(super) fn made(&mut self, node: &NewNode, claim: &str, pods: &PodIds) {
        let claim: Arc<str> = Arc::from(claim);
        self.set(node, &Verdict::Made(claim), pods);
    }

    pub(super) fn failed(&mut self, node: &NewNode, reason: &str, pods: &PodIds) {
        self.set(node, &Verdict::Unschedulable(Arc::from(reason)), pods);
    }

    pub(super) fn held<'a>(&mut self, pods: impl IntoIterator<Item = &'a PodId>, why: &Arc<str>) {
        for id in pods {
            self.verdicts.insert(Arc::clone(&id.uid), Verdict::Held(Arc::clone(why)));
        }
    }

    fn set(&mut self, node: &NewNode, verdict: &Verdict, pods: &PodIds) {
        for id in node.pods.iter().filter_map(|pod| pods.get(pod)) {
            if let Some(known) = self.verdicts.get_mut(&id.uid) {
                *known = verdict.clone();
            }
        }
    }

    pub(super) fn verdicts(&self) -> Verdicts {
        self.verdicts.clone()
    }
}

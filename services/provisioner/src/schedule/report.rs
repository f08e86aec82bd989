//! Tells people, in Events, what became of pods that wait: the reference's reasons, and our explanation of each.

use std::time::{Duration, Instant};

use api::NodePool;
use api::conditions::{self, ConditionStatus};
use api::convert;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use runtime::events::{Event, Recorder};
use solver::{Explanation, Plan, Rule};
use tracing::warn;

use super::PodIds;
use super::decisions::PodId;
use crate::cluster::ClusterView;

/// All `Nominated` events together, as in the reference: a scale-up of a thousand pods need not write a thousand of them.
const NOMINATED_PER_SECOND: f64 = 5.0;
const NOMINATED_BURST: f64 = 10.0;
const FAILED_AGAIN: Duration = Duration::from_secs(300);
/// How long pods may wait for a pool before they are told that there is none.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
const NO_TYPES_AGAIN: Duration = Duration::from_secs(60);

pub(super) struct Reporter {
    recorder: Recorder,
    tokens: f64,
    filled: Instant,
}

fn about(pod: &PodId) -> ObjectReference {
    runtime::events::pod(&pod.namespace, &pod.name, &pod.uid)
}

/// One Event for one failure, under the reason that Karpenter's present releases use.
pub(super) fn failure(pod: &PodId, why: &str, kind: &str) -> Event {
    let event = Event::warning(about(pod), "FailedScheduling", why);
    event.repeat_after(FAILED_AGAIN).distinct([kind.to_owned()])
}

impl Reporter {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, tokens: NOMINATED_BURST, filled: Instant::now() }
    }

    fn may_nominate(&mut self) -> bool {
        let now = Instant::now();
        let gained = now.duration_since(self.filled).as_secs_f64() * NOMINATED_PER_SECOND;
        self.tokens = (self.tokens + gained).min(NOMINATED_BURST);
        self.filled = now;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }

    /// Where pods should land.
    pub(super) fn nominated<'a>(&mut self, pods: impl Iterator<Item = &'a PodId>, name: &str, new: bool) {
        let what = if new { "nodeclaim" } else { "node" };
        for pod in pods {
            if self.may_nominate() {
                let message = format!("Pod should schedule on: {what}/{name}");
                self.recorder.publish(Event::normal(about(pod), "Nominated", message));
            }
        }
    }

    /// Pods for which nothing could be found or made; `kind` tells reasons apart, so that a new one is reported at once.
    pub(super) fn failed<'a>(&self, pods: impl Iterator<Item = &'a PodId>, why: &str, kind: &str) {
        for pod in pods {
            self.recorder.publish(failure(pod, why, kind));
        }
    }

    pub(super) fn unplaced(&mut self, view: &ClusterView, plan: &Plan, pods: &PodIds) {
        for node in &plan.existing {
            self.nominated(node.pods.iter().filter_map(|p| pods.get(p)), &node.node, false);
        }
        // Each refusal is told, and once.
        let refused = |p: &crate::cluster::PendingPod| {
            let key = solver::PodRef { namespace: p.namespace.clone(), name: p.name.clone() };
            Some((pods.get(&key)?, p.refused.clone()?))
        };
        // In its pause it is among those without a place, below.
        for (pod, why) in view.pending.iter().filter(|p| p.rejected.is_none()).filter_map(refused) {
            self.failed(std::iter::once(pod), &why, &format!("refused: {why}"));
        }
        let no_pools = no_pools(view);
        let now = Timestamp::now();
        let mut shown = 0;
        for left in &plan.unschedulable {
            let Some(pod) = pods.get(&left.pod) else { continue };
            let mut why = left.why.to_string();
            // Whoever keeps a pod off our nodes knows it.
            if left.why.rule == Rule::Validation && why.ends_with(convert::OPTED_OUT) {
                continue;
            }
            if left.why.rule == Rule::NoPools {
                // Pools and pods are often applied together: a pool that is about to be ready is no reason for alarm.
                let waits = view
                    .pending
                    .binary_search_by(|p| (&p.namespace, &p.name).cmp(&(&pod.namespace, &pod.name)));
                let since = waits.ok().and_then(|at| view.pending.get(at)).map_or(now, |p| p.since);
                if now.duration_since(since) < PATIENCE {
                    continue;
                }
                why.clone_from(&no_pools);
            }
            if shown < 5 {
                warn!(pod = %left.pod, why, "could not schedule pod");
                shown += 1;
            }
            self.failed(std::iter::once(pod), &why, &kind(&left.why));
        }
        for pool in view.snapshot.pools_without_types() {
            let Some(object) = view.pool_objects.get(&**pool) else { continue };
            let message = "NodePool requirements filtered out all compatible available instance types";
            let event = Event::warning(about_pool(object), "NoCompatibleInstanceTypes", message);
            self.recorder.publish(event.repeat_after(NO_TYPES_AGAIN));
        }
    }

    /// No NodeClaim is created, for the ones before failed to launch.
    pub(super) fn backoff(&self, pool: &NodePool, why: &str) {
        let event = Event::warning(about_pool(pool), "LaunchBackoff", why).repeat_after(FAILED_AGAIN);
        self.recorder.publish(event.distinct(["backoff".to_owned()]));
    }
}

fn about_pool(pool: &NodePool) -> ObjectReference {
    ObjectReference {
        api_version: Some("karpenter.sh/v1".to_owned()),
        kind: Some("NodePool".to_owned()),
        name: pool.metadata.name.clone(),
        uid: pool.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// What failed, without the figures, which change all the time.
fn kind(why: &Explanation) -> String {
    let pools = why.pools.iter().map(|miss| format!("{}={}", miss.pool, miss.rule.as_str()));
    std::iter::once(why.rule.as_str().to_owned()).chain(pools).collect::<Vec<_>>().join(" ")
}

/// Why there is nothing to make a node from.
fn no_pools(view: &ClusterView) -> String {
    let why = |(name, pool): (&String, &std::sync::Arc<NodePool>)| {
        let all = pool.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let failing = all.iter().find(|c| c.type_ != conditions::READY && c.status == ConditionStatus::False);
        match failing {
            _ if pool.spec.replicas.is_some() => format!("{name} is static"),
            Some(c) => format!("{name} is not ready ({}: {} {})", c.type_, c.reason, c.message),
            None if conditions::is_true(all, conditions::READY) => {
                format!("{name} offers no instance type yet")
            }
            None => format!("{name} is not ready yet"),
        }
    };
    let pools: Vec<String> = view.pool_objects.iter().map(why).collect();
    if pools.is_empty() {
        return "there is no NodePool to make a node from".to_owned();
    }
    format!("no NodePool can make nodes now: {}", pools.join("; "))
}

//! Pods as gauges, and how long they take to be bound and to start.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use model::labels;
use model::resources::Resources;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use runtime::summary::Summary;
use runtime::{Leadership, Metrics};

use super::gauges;
use crate::cluster::{ClusterHandle, NodeView, PodRow};
use crate::metrics::DURATION_BUCKETS;

/// Moments in the life of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) created: Option<Timestamp>,
    pub(crate) bound: Option<Timestamp>,
    pub(crate) ready: Option<Timestamp>,
}

impl Times {
    pub(crate) fn of(pod: &core::Pod) -> Self {
        let list = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let since = |type_: &str| {
            let holds = list.iter().find(|c| c.type_ == type_ && c.status == "True")?;
            holds.last_transition_time.as_ref().map(|t| t.0)
        };
        Self {
            created: pod.metadata.creation_timestamp.as_ref().map(|t| t.0),
            bound: since("PodScheduled"),
            ready: since("Ready"),
        }
    }
}

/// Told by whoever takes in pods. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PodMetrics {
    bound: Histogram,
    started: Summary,
    ours_bound: Histogram,
    ours_started: Histogram,
}

impl Default for PodMetrics {
    fn default() -> Self {
        let new = || Histogram::new(DURATION_BUCKETS);
        let started = Summary::new(
            "karpenter_pods_startup_duration_seconds",
            "From a pod's creation until it is ready",
            None,
        );
        Self { bound: new(), started, ours_bound: new(), ours_started: new() }
    }
}

impl PodMetrics {
    pub(crate) fn registered(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(
            "karpenter_pods_bound_duration_seconds",
            "From a pod's creation to its binding",
            own.bound.clone(),
        );
        metrics.register_collector(own.started.clone());
        metrics.register(
            "karpenter_pods_provisioning_bound_duration_seconds",
            "From the first sight of a pod without a place to its binding",
            own.ours_bound.clone(),
        );
        metrics.register(
            "karpenter_pods_provisioning_startup_duration_seconds",
            "From the first sight of a pod without a place until it is ready",
            own.ours_started.clone(),
        );
        own
    }

    /// A pod that was seen before went on. `waited` is since when it was ours to place, if it ever was.
    pub(crate) fn went_on(&self, before: Times, now: Times, waited: Option<Timestamp>) {
        let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
        let observe = |histogram: &Histogram, from: Option<Timestamp>, to: Timestamp| {
            if let Some(from) = from {
                histogram.observe(seconds(from, to));
            }
        };
        if let (None, Some(bound)) = (before.bound, now.bound) {
            observe(&self.bound, now.created, bound);
            observe(&self.ours_bound, waited, bound);
        }
        if let (None, Some(ready)) = (before.ready, now.ready) {
            if let Some(created) = now.created {
                self.started.observe("", seconds(created, ready));
            }
            observe(&self.ours_started, waited, ready);
        }
    }
}

/// Sum of the limits of containers, or of the largest init step, whichever is more.
pub(crate) fn limits(spec: &core::PodSpec) -> Resources {
    let of = |container: &core::Container| {
        let list = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        api::convert::quantities(list, &api::convert::At::Root).unwrap_or_default()
    };
    let mut total = Resources::new();
    spec.containers.iter().for_each(|container| total.add(&of(container)));
    let mut largest = Resources::new();
    for container in spec.init_containers.iter().flatten() {
        match container.restart_policy.as_deref() {
            Some("Always") => total.add(&of(container)),
            _ => largest.max(&of(container)),
        }
    }
    total.max(&largest);
    total
}

pub(super) struct Pods {
    cluster: ClusterHandle,
    leadership: Leadership,
}

impl fmt::Debug for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pods")
    }
}

impl Pods {
    pub(super) fn new(cluster: ClusterHandle, leadership: Leadership) -> Self {
        Self { cluster, leadership }
    }
}

fn state<'a>(row: &'a PodRow, node: Option<&'a Arc<NodeView>>) -> gauges::Labels<'a> {
    let label = |key: &str| node.and_then(|n| n.node.labels.get(key)).map_or("", String::as_str);
    let truth = |is: bool| if is { "true" } else { "false" };
    vec![
        ("name", &row.name),
        ("namespace", &row.namespace),
        ("owner", row.owner.as_deref().unwrap_or_default()),
        ("node", row.node.as_deref().unwrap_or_default()),
        ("scheduled", truth(row.node.is_some())),
        ("nodepool", label(labels::NODEPOOL)),
        ("zone", label(labels::ZONE)),
        ("arch", label(labels::ARCH)),
        ("capacity_type", label(labels::CAPACITY_TYPE)),
        ("instance_type", label(labels::INSTANCE_TYPE)),
        ("phase", row.phase),
        ("ready", truth(row.times.ready.is_some())),
        ("managed", truth(node.is_some_and(|n| n.node.managed()))),
        // For boards made for releases that had it.
        ("state", if row.node.is_some() { "bound" } else { "pending" }),
    ]
}

impl Collector for Pods {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Each series once, however many replicas there are.
        if !self.leadership.is_leader() {
            return Ok(());
        }
        let (view, rows) = (self.cluster.latest(), self.cluster.pod_rows());
        let now = Timestamp::now();
        let series = rows.iter().map(|row| {
            let node = row.shown_on.as_ref().and_then(|name| view.nodes.get(name));
            (state(row, node), 1.0)
        });
        gauges::write(
            &mut encoder,
            "karpenter_pods_state",
            "1 for each pod, with where and how it is",
            series,
        )?;
        let mut since = |name: &str, help: &str, from: fn(&PodRow) -> Option<Timestamp>| {
            let series = rows.iter().filter_map(|row| {
                let age = now.duration_since(from(row)?).as_secs_f64().max(0.0);
                Some((vec![("name", &*row.name), ("namespace", &*row.namespace)], age))
            });
            gauges::write(&mut encoder, name, help, series)
        };
        since("karpenter_pods_unbound_time_seconds", "Age of pods without a node", |row| {
            row.times.created.filter(|_| row.node.is_none())
        })?;
        since("karpenter_pods_unstarted_time_seconds", "Age of pods that never were ready", |row| {
            row.times.created.filter(|_| row.phase == "Pending")
        })?;
        since(
            "karpenter_pods_provisioning_unbound_time_seconds",
            "Since when a pod without a node is ours to place",
            |row| row.waited.filter(|_| row.node.is_none()),
        )?;
        since(
            "karpenter_pods_provisioning_unstarted_time_seconds",
            "Since when a pod that was ours to place has not been ready",
            |row| row.waited.filter(|_| row.phase == "Pending"),
        )?;
        since(
            "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
            "Since when a pod waits for the first decision about it",
            |row| row.waited.filter(|_| row.node.is_none() && row.undecided),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_are_those_of_all_containers_or_of_the_largest_init_step() {
        let spec: core::PodSpec = serde_json::from_value(json!({
            "containers": [
                {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                {"name": "b", "resources": {"limits": {"cpu": "500m"}}},
            ],
            "initContainers": [
                {"name": "step", "resources": {"limits": {"memory": "4Gi"}}},
                {"name": "sidecar", "restartPolicy": "Always", "resources": {"limits": {"cpu": "250m"}}},
            ],
        }))
        .unwrap();
        let found = limits(&spec);
        assert_eq!(found.get("cpu"), "1750m".parse().unwrap());
        assert_eq!(found.get("memory"), "4Gi".parse().unwrap());
    }

    #[test]
    fn a_pod_is_timed_when_it_is_bound_and_when_it_starts_once_each() {
        let metrics = Metrics::new(runtime::Service::Provisioner);
        let own = PodMetrics::registered(&metrics);
        let at = |second: i64| Timestamp::from_second(second).ok();
        let created = Times { created: at(100), ..Times::default() };
        let bound = Times { bound: at(107), ..created };
        let ready = Times { ready: at(110), ..bound };
        own.went_on(created, bound, at(101));
        own.went_on(bound, ready, at(101));
        own.went_on(ready, ready, at(101));
        let text = metrics.prometheus_text();
        for line in [
            "karpenter_pods_bound_duration_seconds_sum 7.0",
            "karpenter_pods_startup_duration_seconds_sum 10.0",
            "karpenter_pods_provisioning_bound_duration_seconds_sum 6.0",
            "karpenter_pods_provisioning_startup_duration_seconds_count 1",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}

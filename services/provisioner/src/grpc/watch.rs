//! The cluster as a stream: everything once, then what is different in each view that the cluster's actor publishes. One
//! follower remembers by pointer what it has told, so an unchanged node costs a comparison.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use model::labels;
use model::node::NodeState;
use model::pod::Pod;
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use runtime::Leadership;
use tokio::sync::watch;
use tonic::Status;

use super::{snapshot, wire};
use crate::catalog::{CatalogHandle, Offer};
use crate::cluster::{ClusterView, NodeView};
use crate::deps::Deps;
use crate::schedule::{Decided, VerdictsHandle};

/// Nodes of one step: with a hundred pods each they stay far below what a message may hold.
const NODES_A_STEP: usize = 250;
/// Changes within this time are told as one.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Follower {
    views: watch::Receiver<Arc<ClusterView>>,
    verdicts: VerdictsHandle,
    catalog: CatalogHandle,
    leadership: Leadership,
    replica: Arc<str>,
    told: Told,
    due: VecDeque<pb::WatchClusterResponse>,
}

impl Follower {
    pub(super) fn new(deps: &Deps, verdicts: VerdictsHandle, with_pods: bool) -> Self {
        let mut views = deps.cluster.subscribe();
        views.mark_changed();
        Self {
            views,
            verdicts,
            catalog: deps.catalog.clone(),
            leadership: deps.leadership.clone(),
            replica: Arc::clone(&deps.replica),
            told: Told { with_pods, ..Told::default() },
            due: VecDeque::new(),
        }
    }

    pub(super) fn stream(self) -> impl Stream<Item = Result<pb::WatchClusterResponse, Status>> + Send {
        futures::stream::unfold(self, |mut follower| async move {
            let step = follower.next().await?;
            Some((Ok(step), follower))
        })
    }

    /// `None` when the process ends.
    async fn next(&mut self) -> Option<pb::WatchClusterResponse> {
        loop {
            if let Some(step) = self.due.pop_front() {
                return Some(step);
            }
            if self.told.begun {
                tokio::time::sleep(PAUSE).await;
            }
            // Who leads may have changed during the pause.
            if !self.told.begun || self.leadership.is_leader() == self.told.leader {
                tokio::select! {
                    changed = self.views.changed() => changed.ok()?,
                    changed = self.verdicts.changed() => changed.ok()?,
                    _ = self.leadership.changed() => {}
                }
            }
            let view = Arc::clone(&self.views.borrow_and_update());
            // Nothing is told of a half-filled view.
            if !view.synced {
                continue;
            }
            let decided = Arc::clone(&self.verdicts.borrow_and_update());
            let leader = self.leadership.is_leader();
            self.due = self.told.differences(&view, &decided, &self.catalog.latest(), leader, &self.replica);
        }
    }
}

/// A node as it was last sent: its view, price, whether it holds buffers and whether a pod is nominated to it.
type Sent = (Arc<NodeView>, (i64, bool, bool));

/// What one watcher has been sent.
#[derive(Default)]
struct Told {
    with_pods: bool,
    begun: bool,
    leader: bool,
    nodes: BTreeMap<Arc<str>, Sent>,
    /// By UID.
    pending: BTreeMap<String, pb::PendingPod>,
}

impl Told {
    fn differences(
        &mut self,
        view: &ClusterView,
        decided: &Decided,
        offer: &Offer,
        leader: bool,
        replica: &str,
    ) -> VecDeque<pb::WatchClusterResponse> {
        let around = snapshot::Nodes::of(view, decided, offer);
        let mut nodes = Vec::new();
        for (name, node) in view.nodes.iter() {
            let now = around.around(name, node);
            let same = |(known, then): &(Arc<NodeView>, _)| Arc::ptr_eq(known, node) && *then == now;
            if !self.nodes.get(name).is_some_and(same) {
                self.nodes.insert(Arc::clone(name), (Arc::clone(node), now));
                nodes.push(watched(node, around.summary(name, node), self.with_pods));
            }
        }
        let removed_nodes: Vec<String> = self
            .nodes
            .extract_if(.., |name, _| !view.nodes.contains_key(name))
            .map(|(name, _)| name.to_string())
            .collect();
        let now: BTreeMap<String, pb::PendingPod> = view
            .pending
            .iter()
            .map(|pod| (pod.uid.to_string(), snapshot::pending(pod, &decided.verdicts)))
            .collect();
        let is_new = |(uid, pod): &(&String, &pb::PendingPod)| self.pending.get(*uid) != Some(*pod);
        let pending: Vec<_> = now.iter().filter(is_new).map(|(_, pod)| pod.clone()).collect();
        let removed_pending: Vec<_> =
            self.pending.keys().filter(|uid| !now.contains_key(*uid)).cloned().collect();
        self.pending = now;
        let full = !std::mem::replace(&mut self.begun, true);
        let other_leader = std::mem::replace(&mut self.leader, leader) != leader;
        let nothing = nodes.is_empty()
            && removed_nodes.is_empty()
            && pending.is_empty()
            && removed_pending.is_empty()
            && !other_leader;
        if nothing && !full {
            return VecDeque::new();
        }
        let step = || pb::WatchClusterResponse {
            snapshot: Some(wire::version(view, replica)),
            leader,
            more: true,
            ..pb::WatchClusterResponse::default()
        };
        let mut steps = VecDeque::from([pb::WatchClusterResponse {
            removed_nodes,
            removed_pending,
            pending,
            full,
            ..step()
        }]);
        let mut rest = nodes.into_iter().peekable();
        while rest.peek().is_some() {
            steps.push_back(pb::WatchClusterResponse {
                nodes: rest.by_ref().take(NODES_A_STEP).collect(),
                ..step()
            });
        }
        if let Some(last) = steps.back_mut() {
            last.more = false;
        }
        steps
    }
}

fn watched(view: &NodeView, summary: pb::NodeSummary, with_pods: bool) -> pb::WatchedNode {
    let node = &view.node;
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    let capacity_type = match node.labels.get(labels::CAPACITY_TYPE).map(String::as_str) {
        Some(labels::SPOT) => types::CapacityType::Spot,
        Some(labels::ON_DEMAND) => types::CapacityType::OnDemand,
        Some(labels::RESERVED) => types::CapacityType::Reserved,
        _ => types::CapacityType::Unspecified,
    };
    let pods = |all: &[Arc<Pod>]| match with_pods {
        true => all.iter().map(|pod| watched_pod(pod)).collect(),
        false => Vec::new(),
    };
    pb::WatchedNode {
        summary: Some(summary),
        created: view.created.map(wire::timestamp),
        labelled: Some(types::Offering {
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            zone_id: label(labels::ZONE_ID),
            capacity_type: capacity_type.into(),
            ..types::Offering::default()
        }),
        taints: node.taints.iter().map(ToString::to_string).collect(),
        waits_for: waits_for(view),
        pods: pods(&view.pods),
        nominated: pods(&view.nominated),
        conditions: conditions(view),
    }
}

/// The node controller taints a node for each of these conditions while it holds (Kubernetes: TaintNodesByCondition).
const TROUBLES: [(&str, &str); 4] = [
    ("node.kubernetes.io/memory-pressure", "MemoryPressure"),
    ("node.kubernetes.io/disk-pressure", "DiskPressure"),
    ("node.kubernetes.io/pid-pressure", "PIDPressure"),
    ("node.kubernetes.io/network-unavailable", "NetworkUnavailable"),
];

/// Conditions that the view knows: the claim's steps, and those of the Node by its taints.
fn conditions(view: &NodeView) -> Vec<types::Condition> {
    let node = &view.node;
    let condition = |name: &str, status: &str, taint: &str| types::Condition {
        r#type: name.to_owned(),
        status: status.to_owned(),
        reason: taint.to_owned(),
    };
    let mut all = Vec::new();
    if node.managed() {
        let steps =
            [("Launched", view.launched), ("Registered", node.registered), ("Initialized", node.initialized)];
        all.extend(steps.map(|(name, done)| condition(name, if done { "True" } else { "Unknown" }, "")));
    }
    if view.object.is_none() {
        return all;
    }
    let tainted = |key: &str| node.taints.iter().any(|taint| taint.key == key);
    all.push(match () {
        () if tainted(labels::UNREACHABLE_TAINT) => condition("Ready", "Unknown", labels::UNREACHABLE_TAINT),
        () if tainted(labels::NOT_READY_TAINT) => condition("Ready", "False", labels::NOT_READY_TAINT),
        () => condition("Ready", "True", ""),
    });
    let troubles = TROUBLES.iter().filter(|(taint, _)| tainted(taint));
    all.extend(troubles.map(|(taint, name)| condition(name, "True", taint)));
    all
}

fn watched_pod(pod: &Pod) -> pb::WatchedPod {
    pb::WatchedPod {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        requests: Some(wire::resources(&pod.spec.requests)),
        priority: pod.spec.priority,
        daemon: pod.daemon,
        do_not_disrupt: pod.do_not_disrupt,
        terminating: pod.terminating,
    }
}

/// The next step of a node of ours on its way to take pods. What a node that goes waits for is known to termination.
fn waits_for(view: &NodeView) -> String {
    let node = &view.node;
    if !node.managed() || node.initialized || node.state == NodeState::Deleting {
        return String::new();
    }
    if !view.launched {
        return "EC2 to give an instance".to_owned();
    }
    if !node.registered {
        return "the instance to join the cluster".to_owned();
    }
    let startup = |taint: &&model::taint::Taint| {
        taint.is_ephemeral() || node.startup_taints.iter().any(|own| own.is_same_as(taint))
    };
    let taints: Vec<String> = node.taints.iter().filter(startup).map(ToString::to_string).collect();
    match taints.is_empty() {
        true => "the node to be ready with all resources it was launched for".to_owned(),
        false => format!("taints to be taken off: {}", taints.join(", ")),
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;

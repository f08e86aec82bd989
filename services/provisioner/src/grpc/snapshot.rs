//! What this replica believes about the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::catalog::InstanceType;
use model::labels;
use model::node::{Node, NodeState};
use proto::provisioner::v1 as pb;
use proto::types::v1 as types;

use super::wire;
use crate::catalog::Offer;
use crate::cluster::{ClusterView, NodeView};
use crate::schedule::{Decided, Verdict, Verdicts};

pub(super) fn answer(
    view: &ClusterView,
    decided: &Decided,
    offer: &Offer,
    leader: bool,
    replica: &str,
    asked: &pb::GetSnapshotRequest,
) -> pb::GetSnapshotResponse {
    let prices =
        || view.snapshot.node_ids().map(|id| (view.snapshot.node_name(id), view.snapshot.node_price(id)));
    let ours = |name: &str| view.nodes.get(name).is_some_and(|n| n.node.managed());
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut answer = pb::GetSnapshotResponse {
        snapshot: Some(wire::version(view, replica)),
        synced: view.synced,
        leader,
        nodes: count(view.nodes.values().filter(|n| n.object.is_some()).count()),
        bound_pods: view.bound_pods,
        pending_pods: count(view.pending.len()),
        in_flight_claims: count(
            view.nodes.values().filter(|n| n.node.managed() && n.object.is_none()).count(),
        ),
        micro_usd_per_hour: prices()
            .filter(|(name, _)| ours(name))
            .filter_map(|(_, p)| p)
            .map(|p| p.get())
            .sum(),
        node_summaries: Vec::new(),
        pending: Vec::new(),
        node_classes: Vec::new(),
    };
    if asked.with_nodes {
        answer.node_classes = offer.types.iter().map(|(name, types)| node_class(name, types)).collect();
        let nodes = Nodes::of(view, decided, offer);
        answer.node_summaries = view.nodes.iter().map(|(name, node)| nodes.summary(name, node)).collect();
    }
    if asked.with_pending {
        answer.pending = view.pending.iter().map(|pod| pending(pod, &decided.verdicts)).collect();
    }
    answer
}

/// What a summary of a node says beside the node itself.
pub(super) struct Nodes<'a> {
    decided: &'a Decided,
    offer: &'a Offer,
    prices: BTreeMap<&'a Arc<str>, i64>,
    /// Made for pods that the scheduler has not bound yet: as good as taken.
    nominated: BTreeSet<&'a Arc<str>>,
}

impl<'a> Nodes<'a> {
    pub(super) fn of(view: &'a ClusterView, decided: &'a Decided, offer: &'a Offer) -> Self {
        let priced = |id| Some((view.snapshot.node_name(id), view.snapshot.node_price(id)?.get()));
        Self {
            decided,
            offer,
            prices: view.snapshot.node_ids().filter_map(priced).collect(),
            nominated: view.pending.iter().filter_map(|pod| pod.nominated.as_ref()).collect(),
        }
    }

    /// The part that may change while the node stays as it is: price, placeholders, pods that are sent there.
    pub(super) fn around(&self, name: &Arc<str>, node: &NodeView) -> (i64, bool, bool) {
        let held = self.decided.held.contains(node.node.claim.as_ref().unwrap_or(name));
        (self.prices.get(name).copied().unwrap_or(0), held, self.nominated.contains(name))
    }

    pub(super) fn summary(&self, name: &Arc<str>, node: &NodeView) -> pb::NodeSummary {
        let (price, held, nominated) = self.around(name, node);
        let mut summary = summary(node, price, held);
        summary.nominated |= nominated;
        summary.type_known = type_known(&node.node, self.offer);
        summary
    }
}

/// Every type that a class offers carries the group that it would be launched into.
fn node_class(name: &str, types: &[InstanceType]) -> pb::NodeClassSummary {
    let group = types.first().and_then(|kind| kind.requirements.get(labels::PLACEMENT_GROUP_ID));
    let id = group.filter(|group| !group.is_complement()).and_then(|group| group.values().first());
    pb::NodeClassSummary {
        name: name.to_owned(),
        placement_group_id: id.map(ToString::to_string).unwrap_or_default(),
    }
}

fn summary(view: &NodeView, micro_usd_per_hour: i64, holds_buffers: bool) -> pb::NodeSummary {
    let node = &view.node;
    let offering = node.price_key().filter(|_| node.managed()).map(|key| types::Offering {
        instance_type: key.instance_type.to_owned(),
        zone: key.zone.to_owned(),
        zone_id: node.labels.get(labels::ZONE_ID).cloned().unwrap_or_default(),
        capacity_type: wire::capacity_type(key.capacity_type).into(),
        micro_usd_per_hour,
        available: true,
        reservation_id: key.reservation.unwrap_or_default().to_owned(),
        reservation_capacity: 0,
    });
    pb::NodeSummary {
        name: node.name.to_string(),
        node_claim: node.claim.as_deref().unwrap_or_default().to_owned(),
        node_pool: node.pool.as_deref().unwrap_or_default().to_owned(),
        offering,
        allocatable: Some(wire::resources(&node.allocatable)),
        requested: Some(wire::resources(&view.requested)),
        pods: u32::try_from(view.pods.len()).unwrap_or(u32::MAX),
        phase: phase(view).to_owned(),
        nominated: node.nominated,
        holds_buffers,
        type_known: None,
    }
}

/// A class lists all types of the catalogue that it could launch, also those that have no price now.
fn type_known(node: &Node, offer: &Offer) -> Option<bool> {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let types = offer.types.get(label(labels::EC2NODECLASS)?).filter(|types| !types.is_empty())?;
    let own = label(labels::INSTANCE_TYPE)?;
    Some(types.iter().any(|kind| *kind.name == *own))
}

fn phase(view: &NodeView) -> &'static str {
    match view {
        _ if view.node.state == NodeState::Deleting => "deleting",
        _ if view.node.initialized => "initialised",
        _ if view.node.registered => "registered",
        _ if view.launched => "launched",
        _ => "created",
    }
}

pub(super) fn pending(pod: &crate::cluster::PendingPod, verdicts: &Verdicts) -> pb::PendingPod {
    let (nominated, reason) = match (&pod.nominated, &pod.rejected, verdicts.get(&pod.uid)) {
        (Some(node), _, _) => (node.to_string(), String::new()),
        (None, Some(why), _) => (String::new(), why.to_string()),
        (None, None, Some(Verdict::Fits(node) | Verdict::Made(node))) => (node.to_string(), String::new()),
        (None, None, Some(Verdict::Unschedulable(why) | Verdict::Held(why))) => {
            (String::new(), why.to_string())
        }
        (None, None, None) => (String::new(), String::new()),
    };
    pb::PendingPod {
        pod: Some(types::PodRef {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
        }),
        since: Some(wire::timestamp(pod.since)),
        nominated,
        reason,
    }
}

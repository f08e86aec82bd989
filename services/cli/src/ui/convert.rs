//! From the services' messages to what the page shows. Pure.

use model::quantity::Quantity;
use proto::disruption::v1 as disruption;
use proto::pricingcache::v1 as pricing;
use proto::provisioner::v1 as provisioner;
use proto::types::v1 as types;

use super::picture::{CandidatesStep, ClusterStep, Event};
use super::shown::{
    Budget, Candidate, Condition, DAEMON, DO_NOT_DISRUPT, Node, Pending, Pod, TERMINATING, Unavailable,
};

const MIB: i64 = 1 << 20;

pub(super) fn seconds(at: Option<&prost_types::Timestamp>) -> Option<i64> {
    at.map(|at| at.seconds)
}

pub(super) fn capacity_type(kind: types::CapacityType) -> &'static str {
    match kind {
        types::CapacityType::Unspecified => "",
        types::CapacityType::OnDemand => model::labels::ON_DEMAND,
        types::CapacityType::Spot => model::labels::SPOT,
        types::CapacityType::Reserved => model::labels::RESERVED,
    }
}

pub(super) fn pod_name(pod: Option<&types::PodRef>) -> String {
    pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)).unwrap_or_default()
}

/// CPU in thousandths, memory in MiB. What is no quantity counts as nothing: the page shows, it does not decide.
pub(super) fn amounts(resources: Option<&types::Resources>) -> [i64; 2] {
    let amount = |name: &str| -> Option<Quantity> { resources?.quantities.get(name)?.parse().ok() };
    [
        amount("cpu").map_or(0, Quantity::milli_ceil),
        amount("memory").map_or(0, |memory| memory.value_ceil().div_euclid(MIB)),
    ]
}

pub(super) fn cluster(reply: provisioner::WatchClusterResponse, now: i64) -> Event {
    let at = reply.snapshot.as_ref().and_then(|snapshot| seconds(snapshot.at.as_ref())).unwrap_or(now);
    Event::Cluster(ClusterStep {
        full: reply.full,
        more: reply.more,
        at,
        nodes: reply.nodes.into_iter().filter_map(node).collect(),
        removed_nodes: reply.removed_nodes,
        pending: reply.pending.into_iter().filter_map(pending).collect(),
        removed_pending: reply.removed_pending,
    })
}

fn node(reply: provisioner::WatchedNode) -> Option<(String, Node)> {
    let summary = reply.summary?;
    let labelled = reply.labelled.unwrap_or_default();
    let bought = summary.offering.unwrap_or_else(|| labelled.clone());
    let ([cpu, mem], [all_cpu, all_mem]) =
        (amounts(summary.requested.as_ref()), amounts(summary.allocatable.as_ref()));
    let pods = |all: Vec<provisioner::WatchedPod>| all.into_iter().map(pod).collect();
    let node = Node {
        claim: summary.node_claim,
        pool: summary.node_pool,
        cap: capacity_type(bought.capacity_type()).to_owned(),
        kind: bought.instance_type,
        zone: if bought.zone.is_empty() { labelled.zone } else { bought.zone },
        price: bought.micro_usd_per_hour,
        cpu: [cpu, all_cpu],
        mem: [mem, all_mem],
        phase: summary.phase,
        created: seconds(reply.created.as_ref()),
        waits: reply.waits_for,
        taints: reply.taints,
        conditions: conditions(reply.conditions),
        pods: pods(reply.pods),
        meant: pods(reply.nominated),
        nominated: summary.nominated,
        buffers: summary.holds_buffers,
    };
    Some((summary.name, node))
}

fn conditions(all: Vec<types::Condition>) -> Vec<Condition> {
    all.into_iter().map(|each| (each.r#type, each.status, each.reason)).collect()
}

fn pod(reply: provisioner::WatchedPod) -> Pod {
    let [cpu, mem] = amounts(reply.requests.as_ref());
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    let flags = flag(reply.daemon, DAEMON)
        | flag(reply.do_not_disrupt, DO_NOT_DISRUPT)
        | flag(reply.terminating, TERMINATING);
    Pod(reply.namespace, reply.name, cpu, mem, reply.priority, flags)
}

fn pending(reply: provisioner::PendingPod) -> Option<(String, Pending)> {
    let pod = reply.pod?;
    let since = seconds(reply.since.as_ref());
    let shown = Pending {
        namespace: pod.namespace,
        name: pod.name,
        since,
        nominated: reply.nominated,
        reason: reply.reason,
    };
    Some((pod.uid, shown))
}

pub(super) fn candidates(reply: disruption::WatchCandidatesResponse) -> Event {
    let candidate = |each: disruption::Candidate| {
        let blockers = each.blockers.into_iter().map(|b| (b.rule, b.detail, b.remedy)).collect();
        let saving = each.saving_micro_usd_per_hour;
        let conditions = conditions(each.conditions);
        (each.node, Candidate { disruptable: each.disruptable, blockers, saving, conditions })
    };
    let budget = |each: disruption::BudgetState| Budget {
        pool: each.node_pool,
        reason: each.reason,
        allowed: each.allowed,
        used: each.in_use,
        problem: each.problem,
    };
    Event::Candidates(CandidatesStep {
        full: reply.full,
        different: reply.candidates.into_iter().map(candidate).collect(),
        removed: reply.removed_nodes,
        budgets: reply.budgets.into_iter().map(budget).collect(),
    })
}

pub(super) fn unavailable(mark: &pricing::Unavailable) -> Unavailable {
    Unavailable {
        cap: capacity_type(mark.capacity_type()),
        until: seconds(mark.until.as_ref()),
        kind: mark.instance_type.clone(),
        zone: mark.zone.clone(),
        reason: mark.reason.clone(),
    }
}

//! The view model: the cluster as rows, filtered and sorted, with every text fit for a terminal. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::node_state::{Removals, State};
use super::printable::printable;
use crate::ui::picture::Picture;
use crate::ui::shown::{Drain, Node};

/// Micro-dollars per hour; CPU in thousandths of a core, memory in MiB, each as requested and allocatable; times in seconds
/// since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) pool: String,
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) capacity_type: String,
    /// 0 when it is not known.
    pub(super) price: i64,
    pub(super) cpu: [i64; 2],
    pub(super) memory: [i64; 2],
    pub(super) created: Option<i64>,
    pub(super) state: State,
    pub(super) waits: String,
    /// As the services know it: `name` may have characters replaced.
    pub(super) key: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRow {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) since: Option<i64>,
    pub(super) reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DrainRow {
    pub(super) key: String,
    pub(super) node: String,
    pub(super) reason: String,
    pub(super) progress: String,
    pub(super) since: Option<i64>,
    pub(super) blocked_by: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) now: i64,
    pub(super) by_capacity_type: Vec<(String, i64)>,
    pub(super) nodes: usize,
    /// Nodes without a price, which the sums leave out.
    pub(super) unpriced: usize,
    /// When, and micro-dollars per hour from then on.
    pub(super) history: Vec<(i64, i64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) nodes: Vec<NodeRow>,
    pub(super) pending: Vec<PodRow>,
    pub(super) drains: Vec<DrainRow>,
    /// Of all nodes of the NodePool, whatever the filter shows.
    pub(super) cost: Cost,
    /// Services that are not connected, with the reason.
    pub(super) lost: Vec<String>,
    /// The provisioner has sent its first full state.
    pub(super) seen: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Cost,
    Cpu,
    Memory,
    Age,
    Name,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Cost => Self::Cpu,
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Age,
            Self::Age => Self::Name,
            Self::Name => Self::Cost,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Age => "age",
            Self::Name => "name",
        }
    }
}

/// Requested share of allocatable in percent; `None` while nothing is allocatable.
pub(super) fn percent([requested, allocatable]: [i64; 2]) -> Option<u64> {
    let share = i128::from(requested.max(0)) * 100 / i128::from(allocatable.max(1));
    (allocatable > 0).then(|| u64::try_from(share).unwrap_or(u64::MAX))
}

impl View {
    /// `pool` is a NodePool, or empty for all; `filter` is text that a row must have in any column, in any case.
    pub(super) fn new(picture: &Picture, pool: &str, filter: &str, sort: Sort) -> Self {
        let filter = filter.to_lowercase();
        let matches = |cells: &[&str]| {
            filter.is_empty() || cells.iter().any(|cell| cell.to_lowercase().contains(&filter))
        };
        let removals = Removals::new(picture);
        let ours: Vec<(&String, &Node)> = picture
            .nodes
            .iter()
            .map(|(name, node)| (name, &**node))
            .filter(|(_, node)| node.is_ours() && (pool.is_empty() || node.pool == pool))
            .collect();
        let mut nodes: Vec<NodeRow> =
            ours.iter().map(|(name, node)| node_row(name, node, &removals)).collect();
        nodes.retain(|row| {
            let state = row.state.label();
            let NodeRow { name, pool, instance_type, zone, capacity_type, waits, .. } = row;
            matches(&[name, pool, instance_type, zone, capacity_type, state, waits])
        });
        sort_nodes(&mut nodes, sort);
        let mut pending: Vec<PodRow> = picture.pending.iter().map(|(uid, pod)| pod_row(uid, pod)).collect();
        pending.retain(|row| matches(&[&row.name, &row.reason]));
        pending.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        let of_pool = |claim: &str, drain: &Drain| {
            let known = |(name, node): &(&String, &Node)| node.claim == claim || **name == drain.node;
            pool.is_empty() || ours.iter().any(known)
        };
        let mut drains: Vec<DrainRow> = picture
            .drains
            .iter()
            .filter(|(claim, drain)| of_pool(claim, drain))
            .map(|(claim, drain)| drain_row(claim, drain))
            .collect();
        drains.retain(|row| matches(&[&row.node, &row.reason, &row.progress, &row.blocked_by]));
        drains.sort_by(|a, b| (a.since, &a.node).cmp(&(b.since, &b.node)));
        let services = picture.services.iter().filter(|(_, service)| service.state != "live");
        let lost = services.map(|(name, service)| match service.detail.as_str() {
            "" => format!("{name}: {}", service.state),
            detail => format!("{name}: {}, {}", service.state, printable(detail)),
        });
        let lost = lost.collect();
        Self { nodes, pending, drains, cost: cost(picture, pool, &ours), lost, seen: picture.seen }
    }
}

fn node_row(name: &str, node: &Node, removals: &Removals<'_>) -> NodeRow {
    let (state, waits) = removals.state(name, node);
    NodeRow {
        name: printable(name),
        pool: printable(&node.pool),
        instance_type: printable(&node.kind),
        zone: printable(&node.zone),
        capacity_type: printable(&node.cap),
        price: node.price,
        cpu: node.cpu,
        memory: node.mem,
        created: node.created,
        state,
        waits: printable(&waits),
        key: name.to_owned(),
    }
}

fn pod_row(uid: &str, pod: &crate::ui::shown::Pending) -> PodRow {
    let reason = match (pod.reason.as_str(), pod.nominated.as_str()) {
        ("", "") => "not evaluated yet".to_owned(),
        ("", node) => format!("nominated for node {node}, which is not ready yet"),
        (reason, _) => reason.to_owned(),
    };
    PodRow {
        key: uid.to_owned(),
        name: printable(&format!("{}/{}", pod.namespace, pod.name)),
        since: pod.since,
        reason: printable(&reason),
    }
}

fn drain_row(claim: &str, drain: &Drain) -> DrainRow {
    let waits = drain.waiting.iter().map(|(kind, pod, detail)| match pod.as_str() {
        "" => format!("[{kind}] {detail}"),
        pod => format!("[{kind}] {pod}: {detail}"),
    });
    DrainRow {
        key: claim.to_owned(),
        node: printable(if drain.node.is_empty() { claim } else { &drain.node }),
        reason: printable(&drain.reason),
        progress: format!("{}/{} {}", drain.gone, drain.total, drain.phase),
        since: drain.since,
        blocked_by: printable(&waits.collect::<Vec<_>>().join("; ")),
    }
}

/// The largest, the oldest or the first in the alphabet is at the top; equal rows are ordered by name.
fn sort_nodes(rows: &mut [NodeRow], sort: Sort) {
    let size = |row: &NodeRow| match sort {
        Sort::Cost => i128::from(row.price),
        Sort::Cpu => percent(row.cpu).map_or(-1, i128::from),
        Sort::Memory => percent(row.memory).map_or(-1, i128::from),
        Sort::Age => -row.created.map_or(i128::MAX, i128::from),
        Sort::Name => 0,
    };
    rows.sort_by(|a, b| (Reverse(size(a)), &a.key).cmp(&(Reverse(size(b)), &b.key)));
}

fn cost(picture: &Picture, pool: &str, ours: &[(&String, &Node)]) -> Cost {
    let mut by: BTreeMap<String, i64> = BTreeMap::new();
    for (_, node) in ours {
        let capacity_type = if node.cap.is_empty() { "unknown".to_owned() } else { printable(&node.cap) };
        *by.entry(capacity_type).or_default() += node.price;
    }
    let of_pool = |own: &str| pool.is_empty() || own == pool;
    let sum = |by: &[(String, String, i64)]| by.iter().filter(|(own, ..)| of_pool(own)).map(|b| b.2).sum();
    Cost {
        now: by.values().sum(),
        by_capacity_type: by.into_iter().collect(),
        nodes: ours.len(),
        unpriced: ours.iter().filter(|(_, node)| node.price == 0).count(),
        history: picture.history.iter().map(|sample| (sample.at, sum(&sample.by))).collect(),
    }
}

/// The cost in as many equal spans of the time watched as there are columns: of each, the value at its end.
pub(super) fn columns_over_time(history: &[(i64, i64)], now: i64, columns: usize) -> Vec<u64> {
    let Some(&(begin, _)) = history.first() else { return Vec::new() };
    let span = (now - begin).max(1);
    let value_at = |at: i64| {
        let next = history.partition_point(|(from, _)| *from <= at);
        history.get(next.saturating_sub(1)).map_or(0, |(_, cost)| u64::try_from(*cost).unwrap_or(0))
    };
    let end = |column: usize| {
        let (column, columns) = (i64::try_from(column + 1).unwrap_or(1), i64::try_from(columns).unwrap_or(1));
        begin + span * column / columns
    };
    (0..columns).map(|column| value_at(end(column))).collect()
}

//! Nodes as gauges: what each has, what its pods ask for, and how old it is.

use std::fmt;

use jiff::Timestamp;
use model::labels;
use model::node::NodeState;
use model::quantity::Quantity;
use model::resources::Resources;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use runtime::Leadership;

use super::gauges;
use crate::cluster::{ClusterHandle, NodeView};

pub(super) struct Nodes {
    cluster: ClusterHandle,
    leadership: Leadership,
    /// Names of labels for [`labels::WELL_KNOWN`], in its order.
    names: Vec<String>,
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nodes")
    }
}

impl Nodes {
    pub(super) fn new(cluster: ClusterHandle, leadership: Leadership) -> Self {
        Self { cluster, leadership, names: labels::WELL_KNOWN.iter().map(|key| label_name(key)).collect() }
    }

    fn labels<'a>(&'a self, view: &'a NodeView) -> gauges::Labels<'a> {
        let node = &view.node;
        let value = |key: &&str| node.labels.get(*key).map_or("", String::as_str);
        let mut all: gauges::Labels<'a> =
            self.names.iter().map(String::as_str).zip(labels::WELL_KNOWN.iter().map(value)).collect();
        all.push(("node_name", view.object.as_deref().unwrap_or_default()));
        all.push(("phase", phase(view)));
        all.push(("managed", if node.managed() { "true" } else { "false" }));
        all
    }
}

/// The last part of a key, as Prometheus takes it.
fn label_name(key: &str) -> String {
    key.rsplit('/').next().unwrap_or(key).replace(['-', '.'], "_")
}

fn phase(view: &NodeView) -> &'static str {
    match view.node.state {
        NodeState::Deleting => "Terminating",
        NodeState::Ready => "Running",
        NodeState::InFlight => "Pending",
    }
}

/// What people see of an amount: cores, bytes, numbers.
pub(super) fn units(amount: Quantity) -> f64 {
    amount.nano() as f64 / 1e9
}

type Amounts = fn(&NodeView) -> Resources;

const BY_RESOURCE: [(&str, &str, Amounts); 6] = [
    ("karpenter_nodes_allocatable", "What pods may use, by resource", |n| n.node.allocatable.clone()),
    ("karpenter_nodes_total_pod_requests", "What pods other than daemons ask for", |n| {
        let mut own = n.requested.clone();
        own.sub(&n.of_daemons.requested);
        own
    }),
    ("karpenter_nodes_total_pod_limits", "Limits of pods other than daemons", |n| {
        let mut own = n.limits.clone();
        own.sub(&n.of_daemons.limits);
        own
    }),
    ("karpenter_nodes_total_daemon_requests", "What daemons ask for", |n| n.of_daemons.requested.clone()),
    ("karpenter_nodes_total_daemon_limits", "Limits of daemons", |n| n.of_daemons.limits.clone()),
    ("karpenter_nodes_system_overhead", "What the system keeps for itself", |n| {
        let mut kept = n.node.capacity.clone();
        kept.sub(&n.node.allocatable);
        kept
    }),
];

impl Collector for Nodes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Each series once, however many replicas there are.
        if !self.leadership.is_leader() {
            return Ok(());
        }
        let view = self.cluster.latest();
        let joined = || view.nodes.values().filter(|n| n.object.is_some());
        for (name, help, amounts) in BY_RESOURCE {
            let of: Vec<(&NodeView, Resources)> = joined().map(|n| (&**n, amounts(n))).collect();
            let series = of.iter().flat_map(|(node, amounts)| {
                amounts.iter().map(move |(resource, amount)| {
                    let mut labels = self.labels(node);
                    labels.push((gauges::RESOURCE, resource));
                    (labels, units(amount))
                })
            });
            gauges::write(&mut encoder, name, help, series)?;
        }
        let now = Timestamp::now();
        gauges::write(
            &mut encoder,
            "karpenter_nodes_current_lifetime_seconds",
            "Age of a node",
            joined().filter_map(|n| {
                let age = now.duration_since(n.created?).as_secs_f64();
                Some((self.labels(n), age.max(0.0)))
            }),
        )?;
        gauges::write(
            &mut encoder,
            "karpenter_nodes_total",
            "Nodes there are, by NodePool; empty for nodes that are not ours",
            count(joined().map(|n| n.node.pool.as_deref().unwrap_or_default())),
        )?;
        let ours = || view.nodes.values().filter(|n| n.node.managed());
        gauges::write(
            &mut encoder,
            "karpenter_nodeclaims_instance_type",
            "1 for each NodeClaim, with its instance type",
            ours().map(|n| {
                let label = |key: &str| n.node.labels.get(key).map_or("", String::as_str);
                let labels = vec![
                    ("nodeclaim", n.node.claim.as_deref().unwrap_or_default()),
                    ("nodepool", n.node.pool.as_deref().unwrap_or_default()),
                    ("instance_type", label(labels::INSTANCE_TYPE)),
                    ("capacity_type", label(labels::CAPACITY_TYPE)),
                    ("zone", label(labels::ZONE)),
                ];
                (labels, 1.0)
            }),
        )
    }
}

fn count<'a>(pools: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (gauges::Labels<'a>, f64)> {
    let mut all = std::collections::BTreeMap::<&str, f64>::new();
    pools.for_each(|pool| *all.entry(pool).or_default() += 1.0);
    all.into_iter().map(|(pool, number)| (vec![("nodepool", pool)], number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_names_are_the_last_part_of_the_key() {
        assert_eq!(label_name(labels::ZONE), "zone");
        assert_eq!(label_name(labels::INSTANCE_TYPE), "instance_type");
        assert_eq!(label_name("node.kubernetes.io/windows-build"), "windows_build");
        let mut names: Vec<String> = labels::WELL_KNOWN.iter().map(|key| label_name(key)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "two keys come to the same name");
    }
}

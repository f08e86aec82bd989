//! What pools cost, and how much of the cluster is in use.

use std::collections::BTreeMap;
use std::fmt;

use model::resources::Resources;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use runtime::Leadership;

use super::gauges;
use super::nodes::units;
use crate::cluster::ClusterHandle;

pub(super) struct Pools {
    cluster: ClusterHandle,
    leadership: Leadership,
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pools")
    }
}

impl Pools {
    pub(super) fn new(cluster: ClusterHandle, leadership: Leadership) -> Self {
        Self { cluster, leadership }
    }
}

impl Collector for Pools {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Each series once, however many replicas there are.
        if !self.leadership.is_leader() {
            return Ok(());
        }
        let view = self.cluster.latest();
        let mut cost: BTreeMap<&str, f64> =
            view.pool_objects.keys().map(|pool| (pool.as_str(), 0.0)).collect();
        let (mut room, mut asked) = (Resources::new(), Resources::new());
        for node in view.nodes.values().filter(|n| n.launched) {
            let priced = || view.snapshot.node_price(view.snapshot.node_id(&node.node.name)?);
            if let Some(sum) = node.node.pool.as_deref().and_then(|pool| cost.get_mut(pool))
                && let Some(price) = priced()
            {
                *sum += price.to_f64();
            }
            if node.object.is_some() {
                room.add(&node.node.allocatable);
                asked.add(&node.requested);
            }
        }
        gauges::write(
            &mut encoder,
            "karpenter_nodepools_cost_total",
            "Price of all nodes of a NodePool, in dollars an hour",
            cost.into_iter().map(|(pool, price)| (vec![("nodepool", pool)], price)),
        )?;
        let used = room.iter().filter(|(_, room)| !room.is_zero()).map(|(resource, room)| {
            (vec![(gauges::RESOURCE, resource)], 100.0 * units(asked.get(resource)) / units(room))
        });
        gauges::write(
            &mut encoder,
            "karpenter_cluster_utilization_percent",
            "What pods ask for, of what nodes have",
            used,
        )
    }
}

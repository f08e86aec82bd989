//! Limits and use of pools as gauges, with the reference's names.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use api::NodePool;
use model::quantity::Quantity;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use runtime::Metrics;

use crate::observe::resource_type;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PoolResource {
    resource_type: String,
    nodepool: String,
}

type Gauges = Family<PoolResource, Gauge<f64, AtomicU64>>;

pub(super) struct PoolMetrics {
    limit: Gauges,
    usage: Gauges,
    /// Resources shown for each pool, so that what is no longer there is taken out.
    shown: BTreeMap<String, [Vec<String>; 2]>,
}

impl PoolMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let own = Self { limit: Gauges::default(), usage: Gauges::default(), shown: BTreeMap::new() };
        metrics.register("karpenter_nodepools_limit", "Limits of a NodePool, by resource", own.limit.clone());
        metrics.register(
            "karpenter_nodepools_usage",
            "What the nodes of a NodePool have, by resource",
            own.usage.clone(),
        );
        own
    }

    pub(super) fn show(&mut self, pool: &NodePool) {
        let name = pool.metadata.name.clone().unwrap_or_default();
        self.forget(&name);
        let limits = pool.spec.limits.as_ref();
        let usage = pool.status.as_ref().and_then(|status| status.resources.as_ref());
        let mut shown = [Vec::new(), Vec::new()];
        for (index, (family, list)) in [(&self.limit, limits), (&self.usage, usage)].into_iter().enumerate() {
            for (resource, amount) in list.into_iter().flatten() {
                let Ok(amount) = amount.text().parse::<Quantity>() else { continue };
                let resource_type = resource_type(resource).into_owned();
                let labels = PoolResource { resource_type: resource_type.clone(), nodepool: name.clone() };
                family.get_or_create(&labels).set(amount.nano() as f64 / 1e9);
                shown[index].push(resource_type);
            }
        }
        self.shown.insert(name, shown);
    }

    pub(super) fn forget(&mut self, pool: &str) {
        let Some(shown) = self.shown.remove(pool) else { return };
        for (family, resources) in [&self.limit, &self.usage].into_iter().zip(shown) {
            for resource in resources {
                family.remove(&PoolResource { resource_type: resource, nodepool: pool.to_owned() });
            }
        }
    }
}

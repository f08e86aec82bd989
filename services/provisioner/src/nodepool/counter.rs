//! What the nodes of a pool have together, as its status shows it.

use api::amount::{Amount, ResourceList};
use model::quantity::Quantity;
use model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS};

use crate::cluster::PoolUsage;

/// Always with these five, zero where there is nothing.
pub(super) fn resources(usage: Option<&PoolUsage>) -> ResourceList {
    let known =
        [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].into_iter().map(|name| (name.to_owned(), Quantity::ZERO));
    let found = usage.into_iter().flat_map(|usage| usage.launched.iter());
    let mut all: std::collections::BTreeMap<String, Quantity> = known.collect();
    all.extend(found.map(|(name, amount)| (name.to_owned(), amount)));
    all.insert(NODES.to_owned(), Quantity::from_units(i64::from(usage.map_or(0, |usage| usage.nodes))));
    all.into_iter().map(|(name, amount)| (name, Amount::Text(amount.to_string()))).collect()
}

//! What a planned node may cost, at worst, and which of its types stay below a ceiling. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use consolidation::{choose_launch, worst_price};
use model::catalog::CapacityType;
use model::labels;
use model::pool::NodePool;
use model::price::MicroDollars;
use model::requirement::Requirement;
use solver::NewNode;

/// Leaves only types with which all nodes together cost less than `ceiling`, whatever offering each gets: every node may cost
/// what its cheapest type does at worst, and an equal share of what is saved beyond that. Nodes that could still become spot or
/// on-demand are pinned to spot. A node that no type is left for, or too few for its `minValues`, keeps none.
pub(super) fn below(nodes: &mut [NewNode], ceiling: MicroDollars, pools: &[NodePool]) {
    let worst_of = |node: &NewNode| -> Vec<(Arc<str>, MicroDollars)> {
        let Some(pool) = pools.iter().find(|p| p.name == node.pool) else { return Vec::new() };
        let kind = |name: &Arc<str>| pool.instance_types.iter().find(|t| t.name == *name);
        node.instance_types
            .iter()
            .filter_map(|name| Some((Arc::clone(name), worst_price(kind(name)?, &node.requirements))))
            .collect()
    };
    let prices: Vec<_> = nodes.iter().map(worst_of).collect();
    let least =
        |of: &[(Arc<str>, MicroDollars)]| of.iter().map(|(_, p)| *p).min().unwrap_or(MicroDollars::MAX);
    let together: MicroDollars = prices.iter().map(|of| least(of)).sum();
    let spare = ceiling - together;
    let share = MicroDollars::new((spare.get() - 1) / i64::try_from(nodes.len()).unwrap_or(i64::MAX).max(1));
    for (node, of) in nodes.iter_mut().zip(&prices) {
        let most = least(of) + share;
        let mut kept: Vec<Arc<str>> = of
            .iter()
            .filter(|(_, p)| together < ceiling && *p <= most)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        if let Some(pool) = pools.iter().find(|p| p.name == node.pool)
            && lacks_values(node, &kept, pool)
        {
            kept.clear();
        }
        node.instance_types = kept.into();
        pin_spot(node, pools);
        if let Some(pool) = pools.iter().find(|p| p.name == node.pool) {
            choose_launch(node, pool);
        }
    }
}

fn lacks_values(node: &NewNode, kept: &[Arc<str>], pool: &NodePool) -> bool {
    node.requirements.min_values().any(|(key, wanted)| {
        let mut values: BTreeSet<&String> = BTreeSet::new();
        for kind in pool.instance_types.iter().filter(|t| kept.contains(&t.name)) {
            let listed = kind.requirements.get(key).filter(|r| !r.is_complement());
            values.extend(listed.into_iter().flat_map(Requirement::values));
        }
        values.len() < wanted as usize
    })
}

/// What each type that is left may cost at worst.
pub(super) fn worst_prices(node: &NewNode, pools: &[NodePool]) -> Vec<MicroDollars> {
    let pool = pools.iter().find(|p| p.name == node.pool);
    let kind = |name: &Arc<str>| pool.and_then(|p| p.instance_types.iter().find(|t| t.name == *name));
    let price = |name| kind(name).map_or(MicroDollars::MAX, |kind| worst_price(kind, &node.requirements));
    node.instance_types.iter().map(price).collect()
}

/// An on-demand launch might be dearer than what it replaces. Types that cannot be had as spot go.
fn pin_spot(node: &mut NewNode, pools: &[NodePool]) {
    let capacity = node.requirements.get(labels::CAPACITY_TYPE);
    let allows = |kind: CapacityType| capacity.is_none_or(|r| r.contains(kind.as_str()));
    if allows(CapacityType::Spot) && allows(CapacityType::OnDemand) {
        let mut requirements = (*node.requirements).clone();
        requirements.replace(Requirement::is(labels::CAPACITY_TYPE, labels::SPOT));
        node.requirements = Arc::new(requirements);
        let prices = worst_prices(node, pools);
        let open = node.instance_types.iter().zip(prices).filter(|(_, price)| *price < MicroDollars::MAX);
        node.instance_types = open.map(|(name, _)| Arc::clone(name)).collect();
    }
}

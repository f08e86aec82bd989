//! What a planned node may cost, at worst, and which of its types stay below a ceiling. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::pool::NodePool;
use model::price::MicroDollars;
use model::requirement::Requirement;
use model::requirements::Requirements;
use solver::{Launch, NewNode};

/// Offerings of a type that a launch under these requirements could get.
fn open<'a>(kind: &'a InstanceType, requirements: &'a Requirements) -> impl Iterator<Item = &'a Offering> {
    let allows = move |key: &str, value: &str| requirements.get(key).is_none_or(|r| r.contains(value));
    kind.offerings.iter().filter(move |o| {
        o.is_open()
            && allows(labels::ZONE, &o.zone)
            && allows(labels::CAPACITY_TYPE, o.capacity_type.as_str())
            && o.zone_id.as_ref().is_none_or(|id| allows(labels::ZONE_ID, id))
            && o.reservation.as_ref().is_none_or(|r| allows(labels::CAPACITY_RESERVATION_ID, &r.id))
    })
}

/// The dearest offering of the capacity type that a launch would prefer.
fn worst(kind: &InstanceType, requirements: &Requirements) -> MicroDollars {
    let of = |kind: &InstanceType, capacity_type| {
        open(kind, requirements).filter(|o| o.capacity_type == capacity_type).map(|o| o.price).max()
    };
    CapacityType::ALL.into_iter().find_map(|c| of(kind, c)).unwrap_or(MicroDollars::MAX)
}

/// Leaves only types with which all nodes together cost less than `ceiling`, whatever offering each gets: every node may cost
/// what its cheapest type does at worst, and an equal share of what is saved beyond that. Nodes that could still become spot or
/// on-demand are pinned to spot. A node that no type is left for, or too few for its `minValues`, keeps none.
pub(super) fn below(nodes: &mut [NewNode], ceiling: MicroDollars, pools: &[NodePool]) {
    let worst_of = |node: &NewNode| -> Vec<(Arc<str>, MicroDollars)> {
        let Some(pool) = pools.iter().find(|p| p.name == node.pool) else { return Vec::new() };
        let kind = |name: &Arc<str>| pool.instance_types.iter().find(|t| t.name == *name);
        node.instance_types
            .iter()
            .filter_map(|name| Some((Arc::clone(name), worst(kind(name)?, &node.requirements))))
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
            choose(node, pool);
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
    let price = |name| kind(name).map_or(MicroDollars::MAX, |kind| worst(kind, &node.requirements));
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

/// The launch that the node is priced at, among what is left.
fn choose(node: &mut NewNode, pool: &NodePool) {
    let kinds = pool.instance_types.iter().filter(|t| node.instance_types.contains(&t.name));
    let found = kinds
        .flat_map(|kind| open(kind, &node.requirements).map(move |o| (kind, o)))
        .min_by_key(|(kind, o)| (o.capacity_type, o.price, Arc::clone(&kind.name), Arc::clone(&o.zone)));
    if let Some((kind, offering)) = found {
        node.launch = Launch {
            instance_type: Arc::clone(&kind.name),
            zone: Arc::clone(&offering.zone),
            capacity_type: offering.capacity_type,
            reservation: offering.reservation.as_ref().map(|r| Arc::clone(&r.id)),
            price: offering.price,
        };
    }
}

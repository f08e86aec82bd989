//! What new nodes would be launched as, and at what price at worst.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::node::Node;
use model::pool::{ClusterInput, NodePool};
use model::price::MicroDollars;
use model::requirement::Requirement;
use model::requirements::Requirements;
use policy::consolidation::{MinValues, Replacement, TypeOption};
use solver::{Launch, NewNode};

/// A type of a pool by name.
pub(super) fn options_of<'a>(pool: &'a NodePool, instance_type: &str) -> Option<&'a InstanceType> {
    pool.instance_types.iter().find(|kind| *kind.name == *instance_type)
}

/// The price a node's labels stand for; also that of an offering that can no longer be bought.
pub(super) fn price_in(input: &ClusterInput, node: &Node) -> Option<MicroDollars> {
    let key = node.price_key()?;
    let pools = input.pools.iter();
    let own = pools.clone().filter(|p| node.pool.as_ref() == Some(&p.name));
    let kind = own.chain(pools).find_map(|p| options_of(p, key.instance_type))?;
    let offering =
        kind.offerings.iter().find(|o| *o.zone == *key.zone && o.capacity_type == key.capacity_type)?;
    Some(offering.price)
}

/// From this many names on, an index of the pool's types costs less than looking for each of them.
const MANY_NAMES: usize = 8;

/// The pool's types with these names, in their order; `None` for a name that the pool does not have.
pub(super) fn kinds_of<'a>(pool: &'a NodePool, names: &[Arc<str>]) -> Vec<Option<&'a InstanceType>> {
    if names.len() < MANY_NAMES {
        return names.iter().map(|name| options_of(pool, name)).collect();
    }
    let by_name: BTreeMap<&str, &InstanceType> =
        pool.instance_types.iter().map(|kind| (&*kind.name, kind)).collect();
    names.iter().map(|name| by_name.get(&**name).copied()).collect()
}

/// What requirements say about the offerings that a launch could get.
struct Allowed<'a> {
    zone: Option<&'a Requirement>,
    zone_id: Option<&'a Requirement>,
    capacity_type: Option<&'a Requirement>,
    reservation: Option<&'a Requirement>,
}

impl<'a> Allowed<'a> {
    fn by(requirements: &'a Requirements) -> Self {
        Self {
            zone: requirements.get(labels::ZONE),
            zone_id: requirements.get(labels::ZONE_ID),
            capacity_type: requirements.get(labels::CAPACITY_TYPE),
            reservation: requirements.get(labels::CAPACITY_RESERVATION_ID),
        }
    }

    fn open<'k>(&self, kind: &'k InstanceType) -> impl Iterator<Item = &'k Offering> {
        let allows = |asked: Option<&Requirement>, value: &str| asked.is_none_or(|r| r.contains(value));
        kind.offerings.iter().filter(move |o| {
            o.is_open()
                && allows(self.zone, &o.zone)
                && allows(self.capacity_type, o.capacity_type.as_str())
                && o.zone_id.as_ref().is_none_or(|id| allows(self.zone_id, id))
                && o.reservation.as_ref().is_none_or(|r| allows(self.reservation, &r.id))
        })
    }

    /// What a launch may cost: the dearest offering of the capacity type that it would prefer.
    fn worst_price(&self, kind: &InstanceType) -> MicroDollars {
        let mut worst: Option<(CapacityType, MicroDollars)> = None;
        for offering in self.open(kind) {
            let this = (offering.capacity_type, offering.price);
            worst = Some(match worst {
                Some(known) if known.0 < this.0 || (known.0 == this.0 && known.1 >= this.1) => known,
                _ => this,
            });
        }
        worst.map_or(MicroDollars::MAX, |(_, price)| price)
    }
}

/// A new node as the consolidation rules look at it.
pub(super) fn replacement_of(node: &NewNode, pools: &[NodePool]) -> Replacement {
    let pool = pool_of(node, pools);
    let capacity = node.requirements.get(labels::CAPACITY_TYPE);
    let allows = |capacity_type: CapacityType| capacity.is_none_or(|r| r.contains(capacity_type.as_str()));
    let spot = allows(CapacityType::Spot);
    let option = |(name, worst): (&Arc<str>, MicroDollars)| TypeOption {
        name: Arc::clone(name),
        worst_price: worst,
        worst_spot_price: spot.then_some(worst),
    };
    Replacement {
        types: node.instance_types.iter().zip(worst_prices(node, pools)).map(option).collect(),
        allows_spot: spot,
        allows_on_demand: allows(CapacityType::OnDemand),
        min_values: pool.map(|pool| min_values(node, pool)).unwrap_or_default(),
    }
}

fn pool_of<'a>(node: &NewNode, pools: &'a [NodePool]) -> Option<&'a NodePool> {
    pools.iter().find(|pool| pool.name == node.pool)
}

/// What each type that is left may cost at worst.
pub fn worst_prices(node: &NewNode, pools: &[NodePool]) -> Vec<MicroDollars> {
    let Some(pool) = pool_of(node, pools) else {
        return vec![MicroDollars::MAX; node.instance_types.len()];
    };
    let allowed = Allowed::by(&node.requirements);
    let price =
        |kind: Option<&InstanceType>| kind.map_or(MicroDollars::MAX, |kind| allowed.worst_price(kind));
    kinds_of(pool, &node.instance_types).into_iter().map(price).collect()
}

/// Leaves only types with which all nodes together cost less than `ceiling`, whatever offering each gets: every node may cost
/// what its cheapest type does at worst, and an equal share of what is saved beyond that. Nodes that could still become spot or
/// on-demand are pinned to spot. A node that no type is left for keeps none.
pub(super) fn keep_below(nodes: &mut [NewNode], ceiling: MicroDollars, pools: &[NodePool]) {
    let prices: Vec<Vec<MicroDollars>> = nodes.iter().map(|node| worst_prices(node, pools)).collect();
    let least = |of: &[MicroDollars]| of.iter().min().copied().unwrap_or(MicroDollars::MAX);
    let together: MicroDollars = prices.iter().map(|of| least(of)).sum();
    let spare = ceiling - together;
    let share = MicroDollars::new((spare.get() - 1) / i64::try_from(nodes.len()).unwrap_or(i64::MAX).max(1));
    for (node, of) in nodes.iter_mut().zip(&prices) {
        let most = least(of) + share;
        let kept = node.instance_types.iter().zip(of);
        node.instance_types = kept
            .filter(|(_, price)| together < ceiling && **price <= most)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        pin_spot(node, pools);
        if let Some(pool) = pool_of(node, pools) {
            choose_launch(node, pool);
        }
    }
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

/// The minimums of flexibility that a new node's types must meet together.
pub fn min_values(node: &NewNode, pool: &NodePool) -> Vec<MinValues> {
    if node.requirements.min_values().next().is_none() {
        return Vec::new();
    }
    let kinds: Vec<&InstanceType> = kinds_of(pool, &node.instance_types).into_iter().flatten().collect();
    let demand = |(key, wanted): (&str, u32)| MinValues {
        key: key.to_owned(),
        wanted: wanted as usize,
        values: kinds.iter().map(|kind| values_of(kind, key)).collect(),
    };
    node.requirements.min_values().map(demand).collect()
}

fn values_of(kind: &InstanceType, key: &str) -> BTreeSet<String> {
    match kind.requirements.get(key) {
        Some(requirement) if !requirement.is_complement() => requirement.values().clone(),
        _ => BTreeSet::new(),
    }
}

/// The launch that a node is priced at, among the types that are left to it.
pub(super) fn choose_launch(node: &mut NewNode, pool: &NodePool) {
    let allowed = Allowed::by(&node.requirements);
    let kinds = kinds_of(pool, &node.instance_types).into_iter().flatten();
    let found = kinds
        .flat_map(|kind| allowed.open(kind).map(move |o| (kind, o)).collect::<Vec<_>>())
        .min_by(|a, b| preference(a).cmp(&preference(b)));
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

fn preference<'a>(
    (kind, o): &(&'a InstanceType, &'a Offering),
) -> (CapacityType, MicroDollars, &'a str, &'a str) {
    (o.capacity_type, o.price, &kind.name, &o.zone)
}

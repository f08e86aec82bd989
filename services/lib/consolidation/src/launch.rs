//! What new nodes would be launched as, and at what price at worst.

use std::collections::BTreeSet;
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

/// Offerings of a type that a launch under these requirements could get.
fn open<'a>(kind: &'a InstanceType, requirements: &'a Requirements) -> impl Iterator<Item = &'a Offering> {
    kind.offerings.iter().filter(move |o| {
        let allows = |key: &str, value: &str| requirements.get(key).is_none_or(|r| r.contains(value));
        o.is_open()
            && allows(labels::ZONE, &o.zone)
            && allows(labels::CAPACITY_TYPE, o.capacity_type.as_str())
            && o.zone_id.as_ref().is_none_or(|id| allows(labels::ZONE_ID, id))
            && o.reservation.as_ref().is_none_or(|r| allows(labels::CAPACITY_RESERVATION_ID, &r.id))
    })
}

/// What a launch may cost: the dearest offering of the capacity type that it would prefer.
pub fn worst_price(kind: &InstanceType, requirements: &Requirements) -> MicroDollars {
    let of = |capacity_type| {
        open(kind, requirements).filter(move |o| o.capacity_type == capacity_type).map(|o| o.price).max()
    };
    CapacityType::ALL.into_iter().find_map(of).unwrap_or(MicroDollars::MAX)
}

/// A new node as the consolidation rules look at it.
pub(super) fn replacement_of(node: &NewNode, input: &ClusterInput) -> Replacement {
    let pool = input.pools.iter().find(|p| p.name == node.pool);
    let kinds: Vec<&InstanceType> =
        node.instance_types.iter().filter_map(|name| options_of(pool?, name)).collect();
    let requirements = &*node.requirements;
    let capacity = requirements.get(labels::CAPACITY_TYPE);
    let allows = |capacity_type: CapacityType| capacity.is_none_or(|r| r.contains(capacity_type.as_str()));
    let types = kinds
        .iter()
        .map(|kind| TypeOption {
            name: Arc::clone(&kind.name),
            worst_price: worst_price(kind, requirements),
            worst_spot_price: open(kind, requirements)
                .filter(|o| o.capacity_type == CapacityType::Spot)
                .map(|o| o.price)
                .max(),
        })
        .collect();
    let min_values = requirements
        .min_values()
        .map(|(key, wanted)| MinValues {
            key: key.to_owned(),
            wanted: wanted as usize,
            values: kinds.iter().map(|kind| values_of(kind, key)).collect(),
        })
        .collect();
    Replacement {
        types,
        allows_spot: allows(CapacityType::Spot),
        allows_on_demand: allows(CapacityType::OnDemand),
        min_values,
    }
}

fn values_of(kind: &InstanceType, key: &str) -> BTreeSet<String> {
    match kind.requirements.get(key) {
        Some(requirement) if !requirement.is_complement() => requirement.values().clone(),
        _ => BTreeSet::new(),
    }
}

/// Keeps only some types of a new node, by index, and chooses its launch again.
pub(super) fn narrow(node: &mut NewNode, types: &[usize], pin_spot: bool, input: &ClusterInput) {
    node.instance_types = types.iter().map(|&t| Arc::clone(&node.instance_types[t])).collect();
    if pin_spot {
        let mut requirements = (*node.requirements).clone();
        requirements.replace(Requirement::is(labels::CAPACITY_TYPE, labels::SPOT));
        node.requirements = Arc::new(requirements);
    }
    if let Some(pool) = input.pools.iter().find(|p| p.name == node.pool) {
        choose_launch(node, pool);
    }
}

/// The launch that a node is priced at, among the types that are left to it.
pub fn choose_launch(node: &mut NewNode, pool: &NodePool) {
    let kinds = pool.instance_types.iter().filter(|kind| node.instance_types.contains(&kind.name));
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

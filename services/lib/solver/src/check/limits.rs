//! Pools stay within their limits even if every new node becomes the largest of its types.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::InstanceType;
use model::labels;
use model::node::{Node, NodeState};
use model::pool::NodePool;
use model::quantity::Quantity;
use model::resources::NODES;

use super::labels::{Labels, Outcome};
use super::outcomes::Outcomes;
use super::resources::capacity;
use super::sites::{Cluster, Kind, Site};
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for pool in &cluster.input.pools {
        let grown: Vec<&Site<'_>> =
            cluster.new_nodes().filter(|(_, _, of)| of.name == pool.name).map(|(site, _, _)| site).collect();
        for (resource, limit) in pool.limits.iter() {
            let mut known: BTreeMap<*const (), Quantity> = BTreeMap::new();
            let mut most = |site: &&Site<'_>| {
                let outcomes = &site.outcomes;
                *known.entry(outcomes.id()).or_insert_with(|| largest(outcomes, resource))
            };
            let added: Quantity = grown.iter().map(&mut most).sum();
            let before: Quantity = nodes_of(cluster, pool).map(|node| amount(node, resource)).sum();
            if !added.is_zero() && before + added > limit {
                found.push(Violation::LimitExceeded {
                    pool: Arc::clone(&pool.name),
                    resource: resource.to_owned(),
                    used: before + added,
                    limit,
                });
            }
        }
    }
}

/// Nodes of the pool that stay.
fn nodes_of<'a>(cluster: &Cluster<'a>, pool: &NodePool) -> impl Iterator<Item = &'a Node> {
    let stays = |site: &Site<'_>| matches!(site.kind, Kind::Existing { goes: false, .. });
    let nodes = cluster.nodes().filter(move |(site, _)| stays(site)).map(|(_, node)| node);
    nodes.filter(|node| is_of(node, pool))
}

fn is_of(node: &Node, pool: &NodePool) -> bool {
    let label = node.labels.get(labels::NODEPOOL).map(String::as_str);
    node.pool.as_deref().or(label) == Some(&*pool.name)
}

/// What the nodes of today leave of each limit of the pool.
pub(super) fn left_before<'a>(cluster: &Cluster<'a>, pool: &'a NodePool) -> Vec<(&'a str, Quantity)> {
    let today = || cluster.input.nodes.iter().filter(|node| node.state != NodeState::Deleting);
    let used = |resource: &str| -> Quantity {
        today().filter(|node| is_of(node, pool)).map(|node| amount(node, resource)).sum()
    };
    pool.limits.iter().map(|(resource, limit)| (resource, limit - used(resource))).collect()
}

/// Whether one more node of the type stays within what is left, whichever of its capacities it comes with.
pub(super) fn admit(left: &[(&str, Quantity)], instance: &InstanceType) -> bool {
    left.iter().all(|(resource, left)| {
        let amounts = instance.offerings.iter().map(|offering| match *resource {
            NODES => Quantity::from_units(1),
            resource => capacity(instance, offering).get(resource),
        });
        amounts.max().is_none_or(|most| most <= *left)
    })
}

fn amount(node: &Node, resource: &str) -> Quantity {
    if resource == NODES { Quantity::from_units(1) } else { node.capacity.get(resource) }
}

fn largest(outcomes: &Outcomes<'_>, resource: &str) -> Quantity {
    let of = |outcome: &Outcome<'_>| {
        if resource == NODES {
            Quantity::from_units(1)
        } else {
            capacity(outcome.instance, outcome.offering).get(resource)
        }
    };
    let amounts = outcomes.all.iter().filter_map(|labels| match labels {
        Labels::Outcome(outcome) => Some(of(outcome)),
        Labels::Node(_) => None,
    });
    amounts.max().unwrap_or(Quantity::ZERO)
}

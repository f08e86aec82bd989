//! Pods and daemons fit the node, whichever of its types it becomes.

use model::catalog::{InstanceType, Offering};
use model::pod::Pod;
use model::pool::{ClusterInput, NodePool};
use model::quantity::Quantity;
use model::resources::{HUGE_PAGES_PREFIX, MEMORY, Resources};
use model::taint::Taint;

use super::daemons;
use super::labels::{Labels, Outcome};
use super::sites::{Cluster, Site};
use super::violation::Violation;
use crate::plan::NewNode;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for (site, node, pool) in cluster.new_nodes() {
        check_new(cluster, site, node, pool, found);
    }
    for (site, node) in cluster.nodes().filter(|(site, _)| !site.new.is_empty()) {
        let taints: Vec<&Taint> = node.scheduling_taints().collect();
        let due = daemons::on(&cluster.input.daemon_sets, &Labels::Node(node), &taints);
        let mut missing = daemons::sum(due.into_iter());
        missing.sub(&daemons::sum(site.bound.iter().filter(|pod| pod.daemon).map(|pod| &*pod.spec)));
        let mut free = node.allocatable.clone();
        free.sub_all(&daemons::sum(site.bound.iter().map(|pod| &*pod.spec)));
        free.sub_all(&positive(&missing));
        let wanted = daemons::sum(site.new.iter().map(|pod| &*pod.spec));
        report(site, String::new(), &wanted, &free, found);
    }
}

/// A type must hold everything in at least one way of launching it; ways that do not hold it are no outcomes, unless there
/// is none else.
fn check_new(
    cluster: &Cluster<'_>,
    site: &Site<'_>,
    node: &NewNode,
    pool: &NodePool,
    found: &mut Vec<Violation>,
) {
    let pods = wanted(&site.new);
    let types = if site.roomy { &[][..] } else { &node.instance_types[..] };
    for name in types {
        let Some(outcome) = site.outcomes.of_type(name).next() else { continue };
        let (wanted, free) = needs(&pods, &overhead(cluster.input, pool, outcome), outcome);
        report(site, Labels::Outcome(outcome).to_string(), &wanted, &free, found);
    }
    let mut most = site.outcomes.most_overhead.clone();
    // Stated is the least overhead of all types that would do, also of those that are not listed for being too many.
    most.add(&pods);
    if !pods.fits(&node.requests) || !node.requests.fits(&most) {
        found.push(Violation::WrongRequests {
            at: site.place.clone(),
            stated: node.requests.to_string(),
            pods: pods.to_string(),
            most: most.to_string(),
        });
    }
}

/// What the pods ask for together.
pub(super) fn wanted(pods: &[&Pod]) -> Resources {
    daemons::sum(pods.iter().map(|pod| &*pod.spec))
}

/// What the outcome leaves for pods: allocatable less daemons; negative where it does not even hold those.
pub(super) fn room(outcome: Outcome<'_>, overhead: &Resources) -> Resources {
    let mut room = allocatable(outcome.instance, outcome.offering);
    room.sub_all(overhead);
    room
}

/// What is wanted, and what there is.
fn needs(pods: &Resources, overhead: &Resources, outcome: Outcome<'_>) -> (Resources, Resources) {
    let mut wanted = pods.clone();
    wanted.add(overhead);
    (wanted, allocatable(outcome.instance, outcome.offering))
}

/// What daemons take.
pub(super) fn overhead(input: &ClusterInput, pool: &NodePool, outcome: Outcome<'_>) -> Resources {
    let taints: Vec<&Taint> = pool.taints.iter().collect();
    let labels = Labels::Outcome(outcome);
    daemons::sum(daemons::on(&input.daemon_sets, &labels, &taints).into_iter())
}

/// Capacity less overhead, less what huge pages take out of the memory.
fn allocatable(instance: &InstanceType, offering: &Offering) -> Resources {
    let mut free = capacity(instance, offering);
    let pages: Vec<Quantity> = free
        .iter()
        .filter(|(name, _)| name.starts_with(HUGE_PAGES_PREFIX))
        .map(|(_, amount)| amount)
        .collect();
    free.sub(&replaced(&instance.overhead, &offering.overhead_override));
    for amount in pages {
        let left = (free.get(MEMORY) - amount).max(Quantity::ZERO);
        free.insert(MEMORY, left);
    }
    free
}

pub(super) fn capacity(instance: &InstanceType, offering: &Offering) -> Resources {
    replaced(&instance.capacity, &offering.capacity_override)
}

fn replaced(own: &Resources, by: &Resources) -> Resources {
    let mut out = own.clone();
    for (name, amount) in by.iter() {
        out.insert(name, amount);
    }
    out
}

fn positive(resources: &Resources) -> Resources {
    resources.iter().map(|(name, amount)| (name, amount.max(Quantity::ZERO))).collect()
}

fn report(
    site: &Site<'_>,
    outcome: String,
    wanted: &Resources,
    free: &Resources,
    found: &mut Vec<Violation>,
) {
    for resource in wanted.exceeding(free) {
        found.push(Violation::DoesNotFit {
            at: site.place.clone(),
            outcome: outcome.clone(),
            resource: resource.to_owned(),
            wanted: wanted.get(resource),
            available: free.get(resource),
        });
    }
}

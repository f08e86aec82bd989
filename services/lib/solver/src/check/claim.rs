//! A new node belongs to a pool that may grow, lists types of that pool that can be launched, and is no wider than the pool.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::labels;
use model::pool::NodePool;
use model::requirements::Requirements;

use super::labels::within;
use super::sites::{Cluster, Kind, Site};
use super::violation::Violation;
use crate::plan::NewNode;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for site in &cluster.sites {
        if let Kind::New { node, pool: None } = site.kind {
            found.push(Violation::UnknownPool { at: site.place.clone() });
            check_list(site, node, found);
        }
    }
    // Nodes with the same list, or the same requirements, need be looked at once.
    let mut lists: BTreeSet<(*const Arc<str>, *const ())> = BTreeSet::new();
    let mut narrow: BTreeSet<(&str, *const Requirements)> = BTreeSet::new();
    for (site, node, pool) in cluster.new_nodes() {
        let at = || site.place.clone();
        if pool.fixed_size {
            found.push(Violation::FixedSizePool { at: at() });
        }
        if node.pods.is_empty() || lists.insert((node.instance_types.as_ptr(), site.outcomes.id())) {
            check_list(site, node, found);
            check_types(site, node, pool, found);
        }
        if !narrow.insert((&pool.name, Arc::as_ptr(&node.requirements))) {
            continue;
        }
        // Types are listed by name, so a requirement on the name has nothing to repeat.
        for asked in pool.requirements.iter().filter(|r| r.key() != labels::INSTANCE_TYPE) {
            if node.requirements.get(asked.key()).is_none_or(|have| !within(have, asked)) {
                found.push(Violation::WiderThanPool { at: at(), requirement: asked.to_string() });
            }
        }
    }
}

fn check_types(site: &Site<'_>, node: &NewNode, pool: &NodePool, found: &mut Vec<Violation>) {
    for name in node.instance_types.iter().filter(|name| site.outcomes.of_type(name).next().is_none()) {
        let (at, instance_type) = (site.place.clone(), name.clone());
        found.push(match pool.instance_types.iter().any(|t| t.name == *name) {
            true => Violation::TypeCannotLaunch { at, instance_type },
            false => Violation::UnknownType { at, instance_type },
        });
    }
}

fn check_list(site: &Site<'_>, node: &NewNode, found: &mut Vec<Violation>) {
    if node.pods.is_empty() {
        found.push(Violation::NodeWithoutPods { at: site.place.clone() });
    }
    if node.instance_types.is_empty() {
        found.push(Violation::NoTypes { at: site.place.clone() });
    }
    let mut seen = BTreeSet::new();
    for name in node.instance_types.iter().filter(|name| !seen.insert((*name).clone())) {
        found.push(Violation::TypeTwice { at: site.place.clone(), instance_type: name.clone() });
    }
}

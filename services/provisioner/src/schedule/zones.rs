//! Pods that wait, by the one zone that they can run in: what a zone's outage would hold up. Node selectors, required node
//! affinity and volumes decide; where other pods happen to run does not. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::labels;
use model::pod::{Pod, PodSpec};
use model::pool::NodePool;
use model::requirements::Requirements;
use rustc_hash::FxHashMap;

use crate::cluster::ClusterView;

/// Two zones or more.
const FLEXIBLE: &str = "flexible";
/// Zones are asked for, and none of them is sold.
const NONE: &str = "none";

pub(super) fn of(view: &ClusterView) -> BTreeMap<String, usize> {
    let waiting = view.pending.iter().filter(|waiting| waiting.nominated.is_none());
    let mut pending = waiting.map(|waiting| &*waiting.pod).filter(|pod| !pod.buffer).peekable();
    if pending.peek().is_none() {
        return BTreeMap::new();
    }
    let sold = sold(&view.usable_pools);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    // Replicas share their spec; pods with volumes are judged one by one.
    let mut known: FxHashMap<*const PodSpec, String> = FxHashMap::default();
    for pod in pending {
        let zone = if pod.volumes.is_empty() {
            known.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| effective(pod, &sold)).clone()
        } else {
            effective(pod, &sold)
        };
        *counts.entry(zone).or_default() += 1;
    }
    counts
}

/// Zones in which any type can be bought or has been.
fn sold(pools: &[NodePool]) -> BTreeSet<Arc<str>> {
    let mut zones = BTreeSet::new();
    let mut seen: Vec<*const Vec<_>> = Vec::new();
    for pool in pools {
        // Pools of one class share their types.
        let types = Arc::as_ptr(&pool.instance_types);
        if seen.contains(&types) {
            continue;
        }
        seen.push(types);
        for offering in pool.instance_types.iter().flat_map(|t| &t.offerings) {
            if !zones.contains(&offering.zone) {
                zones.insert(Arc::clone(&offering.zone));
            }
        }
    }
    zones
}

fn effective(pod: &Pod, sold: &BTreeSet<Arc<str>>) -> String {
    let spec = &pod.spec;
    let constrained = spec.node_selector.contains_key(labels::ZONE)
        || names_zone(&spec.required_node_affinity)
        || pod.volumes.iter().any(|volume| names_zone(&volume.alternatives));
    if !constrained {
        return FLEXIBLE.to_owned();
    }
    let one_of = |terms: &[Requirements], zone: &str| {
        let allows = |term: &Requirements| term.get(labels::ZONE).is_none_or(|r| r.contains(zone));
        terms.is_empty() || terms.iter().any(allows)
    };
    let allowed = |zone: &str| {
        spec.node_selector.get(labels::ZONE).is_none_or(|own| own == zone)
            && one_of(&spec.required_node_affinity, zone)
            && pod.volumes.iter().all(|volume| one_of(&volume.alternatives, zone))
    };
    let mut left = sold.iter().filter(|zone| allowed(zone));
    match (left.next(), left.next()) {
        (None, _) => NONE.to_owned(),
        (Some(only), None) => only.to_string(),
        _ => FLEXIBLE.to_owned(),
    }
}

fn names_zone(terms: &[Requirements]) -> bool {
    terms.iter().any(|term| term.get(labels::ZONE).is_some())
}

#[cfg(test)]
mod tests {
    use model::pod::Volume;
    use model::requirement::{Operator, Requirement};

    use super::*;

    fn in_zones(zones: &[&str]) -> Requirements {
        let mut all = Requirements::default();
        let values: Vec<String> = zones.iter().map(|z| (*z).to_owned()).collect();
        all.add(Requirement::new(labels::ZONE, Operator::In, values, None));
        all
    }

    fn zone_of(spec: PodSpec, volumes: &[&[&str]]) -> String {
        let volume = |zones: &&[&str]| Volume {
            claim: Arc::from("default/data"),
            driver: None,
            alternatives: vec![in_zones(zones)],
        };
        let mut pod = Pod::pending("default", "web", Arc::new(spec));
        pod.volumes = volumes.iter().map(volume).collect();
        effective(&pod, &["a", "b", "c"].into_iter().map(Arc::from).collect())
    }

    // Cases: SCH-B.13-5
    #[test]
    fn a_pod_counts_for_the_only_zone_that_selectors_affinity_and_volumes_leave() {
        assert_eq!(zone_of(PodSpec::default(), &[]), "flexible");
        let affinity =
            |zones: &[&str]| PodSpec { required_node_affinity: vec![in_zones(zones)], ..PodSpec::default() };
        assert_eq!(zone_of(affinity(&["b"]), &[]), "b");
        assert_eq!(zone_of(affinity(&["a", "b"]), &[]), "flexible");
        assert_eq!(zone_of(affinity(&["a", "b"]), &[&["b", "c"]]), "b");
        assert_eq!(zone_of(affinity(&["a"]), &[&["c"]]), "none");
        assert_eq!(zone_of(affinity(&["elsewhere"]), &[]), "none");
        let selector = [(labels::ZONE.to_owned(), "c".to_owned())].into();
        assert_eq!(zone_of(PodSpec { node_selector: selector, ..PodSpec::default() }, &[]), "c");
    }
}

//! Every pod that needs a place is in the plan exactly once, and no other pod is.

use std::collections::BTreeMap;

use super::sites::{Cluster, Origin};
use super::violation::Violation;
use crate::plan::Plan;

pub(super) fn check(cluster: &Cluster<'_>, plan: &Plan, found: &mut Vec<Violation>) {
    let on_new = plan.new_nodes.iter().flat_map(|node| &node.pods);
    let placed = on_new.chain(plan.existing.iter().flat_map(|node| &node.pods));
    let left = plan.unschedulable.iter().map(|u| &u.pod).chain(&plan.unreached);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for pod in placed.clone().chain(left) {
        *seen.entry(pod.to_string()).or_default() += 1;
    }
    for pod in cluster.to_place.keys().filter(|pod| !seen.contains_key(*pod)) {
        found.push(Violation::PodForgotten { pod: pod.clone() });
    }
    for (pod, times) in seen {
        if !cluster.to_place.contains_key(&pod) {
            found.push(Violation::PodNotAsked { pod });
        } else if times > 1 {
            found.push(Violation::PodTwice { pod });
        }
    }
    for pod in placed {
        let Some((asked, origin)) = cluster.to_place.get(&pod.to_string()) else { continue };
        let why = match &asked.rejected {
            Some(why) if *origin == Origin::Pending => why.clone(),
            _ if asked.spec.uses_resource_claims => "it refers to a resource claim".to_owned(),
            _ => continue,
        };
        found.push(Violation::RefusedPodPlaced { pod: pod.to_string(), why });
    }
}

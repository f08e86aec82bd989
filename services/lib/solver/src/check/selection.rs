//! Node selectors and required node affinity hold, whatever the node becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pod::{Pod, PodSpec};

use super::labels::Labels;
use super::sites::Cluster;
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    // Pods of one specification on nodes of the same outcomes have the same answer.
    let mut known: BTreeMap<(*const (), *const PodSpec), Option<Labels<'_>>> = BTreeMap::new();
    let selects =
        |pod: &&Pod| !pod.spec.node_selector.is_empty() || !pod.spec.required_node_affinity.is_empty();
    for site in &cluster.sites {
        for pod in site.distinct_new().into_iter().filter(selects) {
            let wrong = known
                .entry((site.outcomes.id(), Arc::as_ptr(&pod.spec)))
                .or_insert_with(|| site.outcomes.all.iter().find(|l| !l.satisfy_pod(&pod.spec)).copied());
            if let Some(labels) = wrong {
                found.push(Violation::NotSelected {
                    pod: pod.key(),
                    at: site.place.clone(),
                    outcome: labels.to_string(),
                });
            }
        }
    }
}

//! Node selectors and required node affinity hold, whatever the node becomes.

use super::sites::Cluster;
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for site in &cluster.sites {
        let selects = |pod: &&&model::pod::Pod| {
            !pod.spec.node_selector.is_empty() || !pod.spec.required_node_affinity.is_empty()
        };
        for pod in site.distinct_new().iter().filter(selects) {
            if let Some(labels) = site.outcomes.iter().find(|labels| !labels.satisfy_pod(&pod.spec)) {
                found.push(Violation::NotSelected {
                    pod: pod.key(),
                    at: site.place.clone(),
                    outcome: labels.to_string(),
                });
            }
        }
    }
}

//! Node selectors and required node affinity hold, whatever the node becomes.

use super::sites::Cluster;
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for site in &cluster.sites {
        for pod in site.distinct_new() {
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

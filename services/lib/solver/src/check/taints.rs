//! Pods tolerate the taints of their node. Soft taints (`PreferNoSchedule`) are preferences; startup taints of a new node are
//! gone before pods arrive.

use model::pod::PodSpec;
use model::taint::{Effect, Taint};

use super::sites::Cluster;
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for site in &cluster.sites {
        let taints = site.taints();
        for pod in site.distinct_new() {
            if let Some(taint) = first_hard(&pod.spec, taints.iter().copied()) {
                found.push(Violation::Untolerated {
                    pod: pod.key(),
                    at: site.place.clone(),
                    taint: taint.to_string(),
                });
            }
        }
    }
}

fn first_hard<'t>(pod: &PodSpec, taints: impl Iterator<Item = &'t Taint>) -> Option<&'t Taint> {
    let mut hard = taints.filter(|taint| taint.effect != Effect::PreferNoSchedule);
    hard.find(|taint| !taint.is_tolerated_by(&pod.tolerations))
}

/// Whether the pod tolerates every taint that is not soft.
pub(super) fn bears_hard<'t>(pod: &PodSpec, taints: impl Iterator<Item = &'t Taint>) -> bool {
    first_hard(pod, taints).is_none()
}

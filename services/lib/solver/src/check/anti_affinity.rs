//! Required pod anti-affinity, in both directions: no pod shares a domain with one that it, or that selects it, keeps away
//! from, in any outcome.

use std::collections::BTreeSet;

use super::domains::Domains;
use super::selectors::Selected;
use super::sites::Cluster;
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, domains: &Domains, found: &mut Vec<Violation>) {
    let pods: Vec<_> = cluster.counted().collect();
    let mut reported = BTreeSet::new();
    for (pod, site, new) in &pods {
        for term in &pod.spec.anti_affinity {
            let selected = Selected::by_term(cluster.input, pod, term);
            let key = &term.topology_key;
            let met = pods.iter().find(|(other, there, other_new)| {
                (*new || *other_new)
                    && !std::ptr::eq(*other, *pod)
                    && selected.has(other)
                    && domains.at(key, *site).may_meet(domains.at(key, *there))
            });
            let Some((other, there, _)) = met else { continue };
            // Two pods that keep away from each other are one mistake.
            if reported.contains(&(other.key(), pod.key())) {
                continue;
            }
            reported.insert((pod.key(), other.key()));
            found.push(Violation::AntiAffinityBroken {
                pod: pod.key(),
                at: cluster.sites[*site].place.clone(),
                other: other.key(),
                other_at: cluster.sites[*there].place.clone(),
                key: key.clone(),
            });
        }
    }
}

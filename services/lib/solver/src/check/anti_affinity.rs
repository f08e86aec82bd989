//! Required pod anti-affinity, in both directions: no pod shares a domain with one that it, or that selects it, keeps away
//! from, in any outcome.

use std::collections::{BTreeMap, BTreeSet};

use model::labels;
use model::pod::Pod;

use super::domains::Domains;
use super::selectors::Selected;
use super::sites::{Cluster, Counted};
use super::violation::Violation;

/// The pods that one selection has, by site.
struct Known<'a> {
    selected: Selected,
    by_site: BTreeMap<usize, Vec<(&'a Pod, bool)>>,
}

pub(super) fn check(cluster: &Cluster<'_>, domains: &Domains, found: &mut Vec<Violation>) {
    let mut known: Vec<Known<'_>> = Vec::new();
    // By sample and term.
    let mut index_of: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut reported = BTreeSet::new();
    for Counted { pod, sample, site, new } in cluster.counted() {
        if !pod.spec.anti_affinity.is_empty() && !cluster.in_time() {
            return;
        }
        for (number, term) in pod.spec.anti_affinity.iter().enumerate() {
            let index = *index_of.entry((*sample, number)).or_insert_with(|| {
                let selected = Selected::by_term(cluster.input, pod, term);
                known.iter().position(|k| k.selected == selected).unwrap_or_else(|| {
                    known.push(Known { by_site: by_site(cluster, &selected), selected });
                    known.len() - 1
                })
            });
            let key = &term.topology_key;
            // No two nodes share a host name.
            let sites =
                if labels::normalize(key) == labels::HOSTNAME { *site..site + 1 } else { 0..usize::MAX };
            let met = known[index]
                .by_site
                .range(sites)
                .filter(|(there, _)| domains.at(key, *site).may_meet(domains.at(key, **there)))
                .find_map(|(there, others)| {
                    let meets = |(other, other_new): &&(&Pod, bool)| {
                        (*new || *other_new) && !std::ptr::eq(*other, *pod)
                    };
                    others.iter().find(meets).map(|(other, _)| (*other, *there))
                });
            let Some((other, there)) = met else { continue };
            // Two pods that keep away from each other are one mistake.
            if reported.contains(&(other.key(), pod.key())) {
                continue;
            }
            reported.insert((pod.key(), other.key()));
            found.push(Violation::AntiAffinityBroken {
                pod: pod.key(),
                at: cluster.sites[*site].place.clone(),
                other: other.key(),
                other_at: cluster.sites[there].place.clone(),
                key: key.clone(),
            });
        }
    }
}

fn by_site<'a>(cluster: &Cluster<'a>, selected: &Selected) -> BTreeMap<usize, Vec<(&'a Pod, bool)>> {
    let among = selected.among(cluster);
    let mut by_site: BTreeMap<usize, Vec<(&'a Pod, bool)>> = BTreeMap::new();
    for other in cluster.counted().filter(|other| among[other.sample]) {
        by_site.entry(other.site).or_default().push((other.pod, other.new));
    }
    by_site
}

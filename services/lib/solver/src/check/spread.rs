//! Hard topology spread: no pod lands in a domain that is ahead of the emptiest one by more than the allowed skew.
//!
//! Kubernetes looks at the counts when a pod arrives. A plan has no order, so a pod is judged as if it came when that suits it:
//! after everything in other domains, and after the pods of its own domain that state the same constraint, since one of them
//! is the last.

use std::collections::BTreeMap;

use model::labels;
use model::pod::{Pod, TopologySpread, WhenUnsatisfiable};
use model::taint::{Effect, Toleration};

use super::domains::Domains;
use super::selectors::Selected;
use super::sites::{Cluster, Counted, Kind, Site};
use super::spread_domains::{Participants, least};
use super::violation::Violation;

/// Pods of the plan that state the same constraint and see the same nodes.
struct Group<'a> {
    constraint: &'a TopologySpread,
    selected: Selected,
    /// They put up with soft taints that they do not tolerate.
    relaxed: bool,
    /// Pod and site.
    owners: Vec<(&'a Pod, usize)>,
}

impl<'a> Group<'a> {
    /// Stating a constraint twice changes nothing.
    fn add(&mut self, pod: &'a Pod, site: usize) {
        if !self.owners.last().is_some_and(|(last, _)| std::ptr::eq(*last, pod)) {
            self.owners.push((pod, site));
        }
    }
}

pub(super) fn check(cluster: &Cluster<'_>, domains: &Domains, found: &mut Vec<Violation>) {
    for group in groups(cluster) {
        if !cluster.in_time() {
            return;
        }
        check_group(cluster, domains, &group, found);
    }
}

fn groups<'a>(cluster: &Cluster<'a>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    // By sample, relaxation and constraint: pods of one sample are in the same groups.
    let mut known: BTreeMap<(usize, bool, usize), usize> = BTreeMap::new();
    for Counted { pod, sample, site, .. } in cluster.placed().copied() {
        let hard = |s: &(usize, &TopologySpread)| s.1.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        for (number, constraint) in pod.spec.topology_spread.iter().enumerate().filter(hard) {
            let relaxed = bears_more_than_it_says(pod, &cluster.sites[site]);
            if let Some(group) = known.get(&(sample, relaxed, number)) {
                groups[*group].add(pod, site);
                continue;
            }
            let selected = Selected::by_spread(pod, constraint);
            let same = |group: &Group<'_>| {
                let (first, _) = group.owners[0];
                group.selected == selected
                    && group.relaxed == relaxed
                    && group.constraint == constraint
                    && first.spec.node_selector == pod.spec.node_selector
                    && first.spec.required_node_affinity == pod.spec.required_node_affinity
                    && first.spec.tolerations == pod.spec.tolerations
            };
            let index = groups.iter().position(same).unwrap_or_else(|| {
                groups.push(Group { constraint, selected, relaxed, owners: Vec::new() });
                groups.len() - 1
            });
            groups[index].add(pod, site);
            known.insert((sample, relaxed, number), index);
        }
    }
    groups
}

/// A pod that was placed in spite of a soft taint counts as if it tolerated soft taints.
fn bears_more_than_it_says(pod: &Pod, site: &Site<'_>) -> bool {
    let taints = site.taints();
    taints.iter().any(|t| t.effect == Effect::PreferNoSchedule && !t.is_tolerated_by(&pod.spec.tolerations))
}

/// Kubernetes itself never minds soft taints, the reference minds them until a pod has to put up with them, and a plan does not
/// say which pods had to: pods that are fine by either reading are.
fn check_group(cluster: &Cluster<'_>, domains: &Domains, group: &Group<'_>, found: &mut Vec<Violation>) {
    let wrong = wrong_if(cluster, domains, group, group.relaxed);
    if group.relaxed || (!wrong.is_empty() && !wrong_if(cluster, domains, group, true).is_empty()) {
        found.extend(wrong);
    }
}

/// What is wrong if the pods do (not) put up with soft taints.
fn wrong_if(cluster: &Cluster<'_>, domains: &Domains, group: &Group<'_>, relaxed: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    let (key, constraint) = (&group.constraint.topology_key, group.constraint);
    let mut owner = (*group.owners[0].0.spec).clone();
    if relaxed {
        owner.tolerations.push(Toleration::of_every_soft_taint());
    }
    let owner = &owner;
    let participants = Participants::of(cluster, constraint, owner);
    let counts = participants.counts(domains, constraint, &group.selected);
    let known = participants.domains(constraint, owner);
    let least = least(constraint, owner, &known, &counts);
    let mut alike: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, site) in group.owners.iter().filter(|(pod, _)| group.selected.has(pod)) {
        if let Some(domain) = domains.at(key, *site).certain() {
            *alike.entry(domain).or_default() += 1;
        }
    }
    let mut reported = Vec::new();
    let over_hosts = labels::normalize(key) == labels::HOSTNAME;
    for (pod, site) in &group.owners {
        let at = || cluster.sites[*site].place.clone();
        // A new node is an empty domain, and pods that must move stay as far apart as if there were one.
        let on_existing = matches!(cluster.sites[*site].kind, Kind::Existing { .. });
        let least = if over_hosts && !(on_existing && pod.node.is_none()) { 0 } else { least };
        let Some(domain) = domains.at(key, *site).certain() else {
            found.push(Violation::SpreadUndecided { pod: pod.key(), at: at(), key: key.clone() });
            continue;
        };
        let before = counts.before.get(domain).copied().unwrap_or(0);
        let count = before + alike.get(domain).copied().unwrap_or(0);
        if count > least + constraint.max_skew as usize && !reported.contains(&domain) {
            reported.push(domain);
            found.push(Violation::SpreadSkewed {
                pod: pod.key(),
                at: at(),
                key: labels::normalize(key).to_owned(),
                domain: domain.to_owned(),
                count,
                least,
                max_skew: constraint.max_skew,
            });
        }
    }
    found
}

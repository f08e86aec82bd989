//! Which domains take part in a spread, as a pod sees it, and how many pods they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::catalog::{CapacityType, Offering};
use model::labels;
use model::pod::{NodeInclusionPolicy, PodSpec, TopologySpread};
use model::pool::NodePool;
use model::requirement::Requirement;
use model::taint::{Effect, Taint};
use rustc_hash::FxHashMap;

use super::domains::Domains;
use super::labels::{Labels, Outcome, Selection, template_labels, terms};
use super::limits;
use super::resources;
use super::selectors::Selected;
use super::sites::{Cluster, Kind, Site};

/// Pods that count, by domain.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// On nodes before the plan.
    pub(super) before: BTreeMap<String, usize>,
    /// With the plan's pods whose domain is certain.
    pub(super) after: BTreeMap<String, usize>,
}

/// Whether pods of a node can count at all, by the constraint's policies on node affinity and taints. Asked once for all
/// nodes that share their outcomes: hundreds of new nodes do, and each may have thousands of outcomes.
pub(super) struct Participants<'c, 'a> {
    cluster: &'c Cluster<'a>,
    /// By site.
    takes_part: Vec<bool>,
}

impl<'c, 'a> Participants<'c, 'a> {
    pub(super) fn of(cluster: &'c Cluster<'a>, constraint: &TopologySpread, owner: &PodSpec) -> Self {
        let selection = Selection::of(owner);
        let honors_affinity = constraint.node_affinity_policy == NodeInclusionPolicy::Honor;
        let honors_taints = constraint.node_taints_policy == NodeInclusionPolicy::Honor;
        let takes_part = |site: &Site<'_>| {
            (!honors_affinity || selection.may_have(&site.outcomes.all))
                && (!honors_taints || bears_all(owner, site.taints().into_iter()))
        };
        let mut known: FxHashMap<*const (), bool> = FxHashMap::default();
        let of = |site: &Site<'_>| *known.entry(site.outcomes.id()).or_insert_with(|| takes_part(site));
        Self { cluster, takes_part: cluster.sites.iter().map(of).collect() }
    }

    pub(super) fn counts(
        &self,
        domains: &Domains,
        constraint: &TopologySpread,
        selected: &Selected,
    ) -> Counts {
        let mut counts = Counts::default();
        let among = selected.among(self.cluster);
        let mut by_site: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for pod in self.cluster.counted().filter(|pod| self.takes_part[pod.site] && among[pod.sample]) {
            let (before, after) = by_site.entry(pod.site).or_default();
            *before += usize::from(!pod.new);
            *after += 1;
        }
        for (site, (before, after)) in by_site {
            let Some(domain) = domains.at(&constraint.topology_key, site).certain() else { continue };
            *counts.before.entry(domain.to_owned()).or_default() += before;
            *counts.after.entry(domain.to_owned()).or_default() += after;
        }
        counts
    }

    /// Every domain that exists or that some pool could make, and that takes part.
    pub(super) fn domains(&self, constraint: &TopologySpread, owner: &PodSpec) -> BTreeSet<String> {
        let (cluster, key) = (self.cluster, labels::normalize(&constraint.topology_key));
        let mut out = BTreeSet::new();
        for (site, takes_part) in cluster.sites.iter().zip(&self.takes_part) {
            if let Kind::Existing { node, goes: false } = site.kind
                && node.registered
                && *takes_part
            {
                let value = Labels::Node(node).get(key);
                out.extend(value.and_then(|value| value.single().map(str::to_owned)));
            }
        }
        let honors_taints = constraint.node_taints_policy == NodeInclusionPolicy::Honor;
        for pool in cluster.input.pools.iter().filter(|pool| !pool.fixed_size) {
            if bears_hard(owner, pool) && (!honors_taints || bears_all(owner, pool.taints.iter())) {
                let reserved = |value: &String| key == labels::CAPACITY_TYPE && value == labels::RESERVED;
                let values = known_of_pool(cluster, pool, key);
                let usable = |value: &&String| cluster.use_reserved || !reserved(value);
                let missing: BTreeSet<&String> =
                    values.iter().filter(usable).filter(|value| !out.contains(*value)).collect();
                let reached = reached(cluster, pool, key, owner, &missing);
                out.extend(reached);
            }
        }
        out
    }
}

/// Those of the values that a new node of the pool which the pod may use can have. No pod waits for a domain that only other
/// pods could open, or that no limit leaves room for.
fn reached(
    cluster: &Cluster<'_>,
    pool: &NodePool,
    key: &str,
    owner: &PodSpec,
    values: &BTreeSet<&String>,
) -> Vec<String> {
    let mut found = Vec::new();
    if values.is_empty() {
        return found;
    }
    let selection = Selection::of(owner);
    let left = limits::left_before(cluster, pool);
    let mut missing = values.clone();
    for instance in pool.instance_types.iter().filter(|instance| limits::admit(&left, instance)) {
        let usable = |o: &&Offering| {
            o.is_open() && (cluster.use_reserved || o.capacity_type != CapacityType::Reserved)
        };
        for offering in instance.offerings.iter().filter(usable) {
            if missing.is_empty() {
                return found;
            }
            let way = Outcome { pool, claim: &pool.requirements, instance, offering, input: cluster.input };
            let way = [Labels::Outcome(way)];
            let here = way[0].get(key);
            let here: Vec<&String> = missing
                .iter()
                .copied()
                .filter(|value| here.as_ref().is_some_and(|here| here.contains(value)))
                .collect();
            let Labels::Outcome(own) = way[0] else { continue };
            let allowed = || own.allows_type() && own.allows_offering();
            // Daemons may take more than the type has.
            let has_room = || {
                let overhead = resources::overhead(cluster.input, pool, own);
                resources::room(own, &overhead).iter().all(|(_, left)| !left.is_negative())
            };
            if !here.is_empty() && allowed() && selection.may_have(&way) && has_room() {
                here.iter().for_each(|value| {
                    missing.remove(value);
                });
                found.extend(here.into_iter().cloned());
            }
        }
    }
    found
}

fn bears_hard(owner: &PodSpec, pool: &NodePool) -> bool {
    let mut hard = pool.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    hard.all(|taint| taint.is_tolerated_by(&owner.tolerations))
}

/// Where taints matter for spreading, soft ones do too, as in the reference.
fn bears_all<'t>(owner: &PodSpec, mut taints: impl Iterator<Item = &'t Taint>) -> bool {
    taints.all(|taint| taint.is_tolerated_by(&owner.tolerations))
}

fn known_of_pool(cluster: &Cluster<'_>, pool: &NodePool, key: &str) -> Rc<BTreeSet<String>> {
    let mut known = cluster.of_pools.borrow_mut();
    let slot = known.entry((Arc::clone(&pool.name), key.to_owned()));
    Rc::clone(slot.or_insert_with(|| Rc::new(of_pool(pool, key))))
}

/// Values that nodes of the pool can have. What makes a node one of this pool, its name and class, is no domain to spread
/// new nodes over.
fn of_pool(pool: &NodePool, key: &str) -> BTreeSet<String> {
    if key == labels::NODEPOOL || pool.node_class_label.as_ref().is_some_and(|(class, _)| class == key) {
        return BTreeSet::new();
    }
    let mut template = pool.requirements.clone();
    template.extend(template_labels(pool).map(|(key, value)| Requirement::is(key, value)));
    let listed = |value: Requirement| {
        if value.is_complement() { BTreeSet::new() } else { value.values().clone() }
    };
    let mut out = BTreeSet::new();
    for instance in pool.instance_types.iter().filter(|t| t.requirements.overlaps(&template)) {
        let value = match (template.get(key), instance.requirements.get(key)) {
            (Some(a), Some(b)) => a.intersect(b),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => continue,
        };
        out.extend(listed(value));
    }
    out
}

/// The least count among the domains that the pod itself may go to, under each of its OR-ed node-affinity terms; a constraint
/// with too few domains for its `minDomains` has a least of zero.
pub(super) fn least(
    constraint: &TopologySpread,
    owner: &PodSpec,
    known: &BTreeSet<String>,
    counts: &Counts,
) -> usize {
    let key = labels::normalize(&constraint.topology_key);
    let under = |term: model::requirements::Requirements| {
        let mine = term.get_or_exists(key);
        let mut allowed = known.iter().filter(|domain| mine.contains(domain)).peekable();
        allowed.peek()?;
        let held: Vec<usize> = allowed.map(|d| counts.after.get(d).copied().unwrap_or(0)).collect();
        let enough = constraint.min_domains.is_none_or(|least| held.len() >= least as usize);
        if enough { held.into_iter().min() } else { Some(0) }
    };
    terms(owner).into_iter().filter_map(under).max().unwrap_or(0)
}

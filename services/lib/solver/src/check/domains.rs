//! In which domains of a topology key a node can end up.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use model::catalog::Offering;
use model::labels;

use super::labels::Labels;
use super::sites::{Cluster, Site};
use super::violation::Place;

/// What is known about one node and one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Domain {
    pub(super) possible: BTreeSet<String>,
    /// In some outcome it has no such label.
    may_lack: bool,
    /// In some outcome the value cannot be foreseen.
    open: bool,
}

impl Domain {
    fn of(site: &Site<'_>, key: &str) -> Self {
        let mut out = Self::default();
        if let (Place::New { index, .. }, labels::HOSTNAME) = (&site.place, key) {
            out.possible.insert(format!("new node {index}"));
            return out;
        }
        let few = matches!(key, labels::ZONE | labels::CAPACITY_TYPE);
        let mut seen: Vec<&Offering> = Vec::new();
        for labels in &site.outcomes.all {
            if let (Labels::Outcome(outcome), true) = (labels, few) {
                // What only the offering decides need not be asked of every type.
                let alike = |known: &&Offering| {
                    known.zone == outcome.offering.zone
                        && known.capacity_type == outcome.offering.capacity_type
                };
                if seen.iter().any(alike) {
                    continue;
                }
                seen.push(outcome.offering);
            }
            match labels.get(key) {
                None => out.may_lack = true,
                Some(value) if value.is_complement() => out.open = true,
                Some(value) => out.possible.extend(value.values().iter().cloned()),
            }
        }
        out
    }

    /// The only domain that it can be in.
    pub(super) fn certain(&self) -> Option<&str> {
        let first = self.possible.first()?;
        (self.possible.len() == 1 && !self.may_lack && !self.open).then_some(first)
    }

    /// It will be in some domain, whichever.
    pub(super) fn exists(&self) -> bool {
        !self.may_lack && (self.open || !self.possible.is_empty())
    }

    pub(super) fn may_meet(&self, other: &Self) -> bool {
        let some = |d: &Self| d.open || !d.possible.is_empty();
        some(self) && some(other) && (self.open || other.open || !self.possible.is_disjoint(&other.possible))
    }
}

/// By key that some hard constraint uses, and site.
pub(super) struct Domains(BTreeMap<String, Vec<Rc<Domain>>>);

impl Domains {
    pub(super) fn of(cluster: &Cluster<'_>) -> Self {
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        for pod in &cluster.samples {
            keys.extend(pod.spec.topology_spread.iter().map(|s| s.topology_key.as_str()));
            keys.extend(pod.spec.affinity.iter().map(|t| t.topology_key.as_str()));
            keys.extend(pod.spec.anti_affinity.iter().map(|t| t.topology_key.as_str()));
        }
        Self(keys.into_iter().map(|key| (key.to_owned(), of_key(cluster, labels::normalize(key)))).collect())
    }

    /// `key` must be one of a pod of the cluster.
    pub(super) fn at(&self, key: &str, site: usize) -> &Domain {
        &self.0[key][site]
    }
}

/// By site. Sites with the same outcomes are alike in everything but the name.
fn of_key(cluster: &Cluster<'_>, key: &str) -> Vec<Rc<Domain>> {
    let mut known: BTreeMap<*const (), Rc<Domain>> = BTreeMap::new();
    let of = |site: &Site<'_>| {
        if key == labels::HOSTNAME {
            return Rc::new(Domain::of(site, key));
        }
        let slot = known.entry(site.outcomes.id()).or_insert_with(|| Rc::new(Domain::of(site, key)));
        Rc::clone(slot)
    };
    cluster.sites.iter().map(of).collect()
}

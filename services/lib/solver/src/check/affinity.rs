//! Required pod affinity: for each of its terms, a pod shares the term's domain with a pod that all of its terms select, or is
//! the first of its kind.
//!
//! Pods arrive one by one, so that two pods cannot vouch for each other: a pod is admitted once all it asks for is there.

use std::collections::{BTreeMap, BTreeSet};

use model::labels;
use model::pod::{Pod, PodAffinityTerm};

use super::domains::Domains;
use super::selectors::Selected;
use super::sites::{Cluster, Counted};
use super::violation::Violation;

/// A distinct wish for company: a topology key, whom it selects, and how many of those have been admitted where.
struct Wish {
    key: String,
    selected: Selected,
    /// By sample of the cluster: whether it is selected.
    among: Vec<bool>,
    by_domain: BTreeMap<String, usize>,
    by_site: BTreeMap<usize, usize>,
    /// Sites of those whose presence rules out being the first: they ran before, or came as the first themselves.
    taken: BTreeSet<usize>,
}

/// A pod of the plan that asks for company.
struct Guest<'a> {
    pod: &'a Pod,
    sample: usize,
    site: usize,
    /// Indices of wishes.
    asks: Vec<usize>,
    admitted: bool,
}

struct Party<'c, 'a> {
    cluster: &'c Cluster<'a>,
    domains: &'c Domains,
    wishes: Vec<Wish>,
    guests: Vec<Guest<'a>>,
}

pub(super) fn check(cluster: &Cluster<'_>, domains: &Domains, found: &mut Vec<Violation>) {
    let mut party = Party { cluster, domains, wishes: Vec::new(), guests: Vec::new() };
    let mut known: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for Counted { pod, sample, site, .. } in cluster.placed().copied() {
        if !pod.spec.affinity.is_empty() {
            let asks = known
                .entry(sample)
                .or_insert_with(|| pod.spec.affinity.iter().map(|term| party.wish(pod, term)).collect());
            party.guests.push(Guest { pod, sample, site, asks: asks.clone(), admitted: false });
        }
    }
    if party.guests.is_empty() {
        return;
    }
    for Counted { pod, sample, site, new } in cluster.counted().copied() {
        if !new || pod.spec.affinity.is_empty() {
            party.welcome(sample, site, !new);
        }
    }
    // What others vouch for goes first: being the first of one's kind is open to one domain only.
    while party.admit_joining() || party.admit_first() {
        if !cluster.in_time() {
            return;
        }
    }
    for guest in party.guests.iter().filter(|guest| !guest.admitted) {
        let unmet = guest.asks.iter().find(|ask| !party.shares(guest, **ask));
        let key = unmet.or_else(|| guest.asks.first()).map_or("", |ask| &party.wishes[*ask].key);
        found.push(Violation::AffinityUnmet {
            pod: guest.pod.key(),
            at: cluster.sites[guest.site].place.clone(),
            key: key.to_owned(),
        });
    }
}

impl Party<'_, '_> {
    fn wish(&mut self, pod: &Pod, term: &PodAffinityTerm) -> usize {
        let selected = Selected::by_affinity(self.cluster.input, pod);
        let same = |wish: &Wish| wish.key == term.topology_key && wish.selected == selected;
        self.wishes.iter().position(same).unwrap_or_else(|| {
            self.wishes.push(Wish {
                key: term.topology_key.clone(),
                among: selected.among(self.cluster),
                selected,
                by_domain: BTreeMap::new(),
                by_site: BTreeMap::new(),
                taken: BTreeSet::new(),
            });
            self.wishes.len() - 1
        })
    }

    /// Counts a pod that is there now for all who wish for it.
    fn welcome(&mut self, sample: usize, site: usize, rules_out_firsts: bool) {
        for wish in self.wishes.iter_mut().filter(|wish| wish.among[sample]) {
            *wish.by_site.entry(site).or_default() += 1;
            if let Some(domain) = self.domains.at(&wish.key, site).certain() {
                *wish.by_domain.entry(domain.to_owned()).or_default() += 1;
            }
            if rules_out_firsts {
                wish.taken.insert(site);
            }
        }
    }

    fn admit(&mut self, index: usize, first: bool) {
        self.guests[index].admitted = true;
        let (sample, site) = (self.guests[index].sample, self.guests[index].site);
        self.welcome(sample, site, first);
    }

    /// Admits everybody who has company now; says whether anybody did.
    fn admit_joining(&mut self) -> bool {
        let mut some = false;
        for index in 0..self.guests.len() {
            let guest = &self.guests[index];
            if !guest.admitted && guest.asks.iter().all(|ask| self.shares(guest, *ask)) {
                self.admit(index, false);
                some = true;
            }
        }
        some
    }

    /// Admits one pod that needs to be the first of its kind; says whether there was one.
    fn admit_first(&mut self) -> bool {
        let may = |guest: &Guest<'_>| {
            let met = |ask: &usize| self.shares(guest, *ask) || self.is_first(guest, *ask);
            !guest.admitted && guest.asks.iter().all(met)
        };
        // Who needs company on its very node goes first: others can still join it from afar, and not the other way round.
        let near = |guest: &Guest<'_>| {
            let host = |ask: &usize| labels::normalize(&self.wishes[*ask].key) == labels::HOSTNAME;
            guest.asks.iter().any(host) && may(guest)
        };
        let found = self.guests.iter().position(near).or_else(|| self.guests.iter().position(may));
        let Some(index) = found else { return false };
        self.admit(index, true);
        true
    }

    /// Some admitted pod that the wish selects is certain to be in the same domain, in every outcome. The guest is not admitted
    /// itself, so that it is not counted as its own company.
    fn shares(&self, guest: &Guest<'_>, ask: usize) -> bool {
        let wish = &self.wishes[ask];
        let mine = self.domains.at(&wish.key, guest.site);
        let held = |domain: &String| wish.by_domain.contains_key(domain);
        mine.exists()
            && (wish.by_site.contains_key(&guest.site)
                || (!mine.possible.is_empty() && mine.possible.iter().all(held)))
    }

    /// It selects itself, and no pod that it selects is anywhere in the cluster yet, not even where it may not go itself: so
    /// the scheduler has it. All but those that need to be first themselves can come later.
    fn is_first(&self, guest: &Guest<'_>, ask: usize) -> bool {
        let wish = &self.wishes[ask];
        let somewhere = |site: &usize| self.domains.at(&wish.key, *site).exists();
        wish.selected.has(guest.pod) && somewhere(&guest.site) && !wish.taken.iter().any(somewhere)
    }
}

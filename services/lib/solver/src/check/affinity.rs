//! Required pod affinity: a pod shares its domain with a pod that each of its terms selects, or is the first of its kind.
//!
//! Pods arrive one by one, so that two pods cannot vouch for each other: a pod is admitted once all it asks for is there.

use model::labels;
use model::pod::{Pod, PodAffinityTerm};

use super::domains::Domains;
use super::labels::terms;
use super::selectors::Selected;
use super::sites::Cluster;
use super::violation::Violation;

/// A term, and whom it selects.
type Ask<'a> = (&'a PodAffinityTerm, Selected);

/// A pod, where it is, and what it asks for.
struct Guest<'a> {
    pod: &'a Pod,
    site: usize,
    new: bool,
    asks: Vec<Ask<'a>>,
    admitted: bool,
    /// Admitted as the first of its kind.
    first: bool,
}

pub(super) fn check(cluster: &Cluster<'_>, domains: &Domains, found: &mut Vec<Violation>) {
    let mut guests: Vec<Guest<'_>> =
        cluster.counted().map(|(pod, site, new)| guest(cluster, pod, site, new)).collect();
    if guests.iter().all(|guest| guest.admitted) {
        return;
    }
    // What others vouch for goes first: being the first of one's kind is open to one domain only.
    while admit_joining(&mut guests, domains) || admit_first(&mut guests, domains) {}
    for guest in guests.iter().filter(|guest| !guest.admitted) {
        let unmet = guest.asks.iter().find(|ask| !shares(&guests, guest, ask, domains));
        let key = unmet.or_else(|| guest.asks.first()).map_or("", |(term, _)| &term.topology_key);
        found.push(Violation::AffinityUnmet {
            pod: guest.pod.key(),
            at: cluster.sites[guest.site].place.clone(),
            key: key.to_owned(),
        });
    }
}

fn guest<'a>(cluster: &Cluster<'a>, pod: &'a Pod, site: usize, new: bool) -> Guest<'a> {
    let terms = if new { &pod.spec.affinity[..] } else { &[] };
    let asks: Vec<_> = terms.iter().map(|term| (term, Selected::by_term(cluster.input, pod, term))).collect();
    let admitted = asks.is_empty();
    Guest { pod, site, new, asks, admitted, first: false }
}

/// Admits everybody who has company now; says whether anybody did.
fn admit_joining(guests: &mut [Guest<'_>], domains: &Domains) -> bool {
    let mut some = false;
    for index in 0..guests.len() {
        let guest = &guests[index];
        if !guest.admitted && guest.asks.iter().all(|ask| shares(guests, guest, ask, domains)) {
            guests[index].admitted = true;
            some = true;
        }
    }
    some
}

/// Admits one pod that needs to be the first of its kind; says whether there was one.
fn admit_first(guests: &mut [Guest<'_>], domains: &Domains) -> bool {
    let may = |guest: &Guest<'_>| {
        let met =
            |ask: &Ask<'_>| shares(guests, guest, ask, domains) || is_first(guests, guest, ask, domains);
        !guest.admitted && guest.asks.iter().all(met)
    };
    let Some(index) = guests.iter().position(may) else { return false };
    (guests[index].admitted, guests[index].first) = (true, true);
    true
}

/// Some admitted pod that the term selects is certain to be in the same domain, in every outcome.
fn shares(all: &[Guest<'_>], guest: &Guest<'_>, (term, selected): &Ask<'_>, domains: &Domains) -> bool {
    let mine = domains.at(&term.topology_key, guest.site);
    let others: Vec<&Guest<'_>> = all
        .iter()
        .filter(|other| other.admitted && !std::ptr::eq(other.pod, guest.pod) && selected.has(other.pod))
        .collect();
    let same_node = || others.iter().any(|other| other.site == guest.site);
    let held = |domain: &String| {
        others.iter().any(|o| domains.at(&term.topology_key, o.site).certain() == Some(domain.as_str()))
    };
    mine.exists() && (same_node() || (!mine.possible.is_empty() && mine.possible.iter().all(held)))
}

/// It selects itself, and no pod that it could join is there yet. All but those that need to be first themselves can come
/// later.
fn is_first(all: &[Guest<'_>], guest: &Guest<'_>, (term, selected): &Ask<'_>, domains: &Domains) -> bool {
    let key = labels::normalize(&term.topology_key);
    let in_reach = |other: &Guest<'_>| {
        let there = domains.at(&term.topology_key, other.site);
        terms(&guest.pod.spec).iter().any(|mine| {
            let mine = mine.get_or_exists(key);
            there.possible.iter().any(|domain| mine.contains(domain))
        })
    };
    let taken = |other: &Guest<'_>| (!other.new || other.first) && selected.has(other.pod) && in_reach(other);
    selected.has(guest.pod) && domains.at(&term.topology_key, guest.site).exists() && !all.iter().any(taken)
}

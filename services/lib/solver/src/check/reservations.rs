//! No capacity reservation is promised to more nodes than it has instances, even if every node that may use it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::Reservation;

use super::labels::Labels;
use super::sites::{Cluster, Site};
use super::violation::Violation;

pub(super) fn check(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for (id, capacity) in capacities(cluster) {
        let may_use = |site: &&Site<'_>| {
            site.outcomes.all.iter().any(|labels| match labels {
                Labels::Outcome(o) => o.offering.reservation.as_ref().is_some_and(|r| r.id == id),
                Labels::Node(_) => false,
            })
        };
        let nodes = cluster.sites.iter().filter(may_use).count();
        if nodes > capacity as usize {
            found.push(Violation::ReservationOvercommitted { reservation: id, nodes, capacity });
        }
    }
}

/// By id; where offerings disagree the least is true.
fn capacities(cluster: &Cluster<'_>) -> BTreeMap<Arc<str>, u32> {
    let types = cluster.input.pools.iter().flat_map(|pool| pool.instance_types.iter());
    let mut out: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for Reservation { id, capacity, .. } in
        types.flat_map(|t| &t.offerings).filter_map(|o| o.reservation.as_ref())
    {
        out.entry(Arc::clone(id)).and_modify(|least| *least = (*least).min(*capacity)).or_insert(*capacity);
    }
    out
}

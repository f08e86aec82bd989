//! Free addresses of subnets: what EC2 said last, less what launches since then are expected to take. Decides which subnet of
//! a zone the next node goes to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud::nodeclass::Subnet;

/// Cheap to clone; clones share the figures.
#[derive(Clone, Default)]
pub struct Addresses {
    subnets: Arc<Mutex<BTreeMap<String, Figure>>>,
}

#[derive(Clone, Copy, Default)]
struct Figure {
    free: u32,
    /// Grows with each describe: what was set aside before it is part of what EC2 counts now.
    described: u64,
}

/// One subnet for each zone, with what was set aside in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Zone name to subnet id.
    pub by_zone: BTreeMap<String, String>,
    set_aside: Vec<(String, u32, u64)>,
}

impl Addresses {
    /// EC2 has counted.
    pub fn described(&self, found: &[Subnet]) {
        let mut subnets = self.lock();
        for subnet in found {
            let figure = subnets.entry(subnet.id.clone()).or_default();
            *figure = Figure { free: subnet.free_addresses, described: figure.described + 1 };
        }
    }

    /// The roomiest subnet of each zone; the first of equals. `subnets` are (id, zone) in order of preference; `expected` is
    /// how many addresses a node in a zone is expected to take.
    pub fn choose<'a>(
        &self,
        subnets: impl IntoIterator<Item = (&'a str, &'a str)>,
        expected: &BTreeMap<String, u32>,
    ) -> Chosen {
        let mut figures = self.lock();
        let mut best: BTreeMap<&str, (u32, &str)> = BTreeMap::new();
        for (id, zone) in subnets {
            let free = figures.get(id).map_or(0, |figure| figure.free);
            let known = best.entry(zone).or_insert((free, id));
            if free > known.0 {
                *known = (free, id);
            }
        }
        let mut chosen = Chosen::default();
        for (zone, (_, id)) in best {
            let take = expected.get(zone).copied().unwrap_or(0);
            if let Some(figure) = figures.get_mut(id) {
                let taken = take.min(figure.free);
                figure.free -= taken;
                chosen.set_aside.push((id.to_owned(), taken, figure.described));
            }
            chosen.by_zone.insert(zone.to_owned(), id.to_owned());
        }
        chosen
    }

    /// The launch is over: what was set aside in subnets it did not use is free again.
    pub fn settle(&self, chosen: Chosen, used: &BTreeSet<&str>) {
        let mut figures = self.lock();
        for (id, taken, described) in chosen.set_aside {
            if used.contains(id.as_str()) {
                continue;
            }
            if let Some(figure) = figures.get_mut(&id).filter(|figure| figure.described == described) {
                figure.free += taken;
            }
        }
    }

    /// EC2 found no address in it.
    pub fn full(&self, id: &str) {
        let mut figures = self.lock();
        let figure = figures.entry(id.to_owned()).or_default();
        *figure = Figure { free: 0, described: figure.described + 1 };
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Figure>> {
        self.subnets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(id: &str, free_addresses: u32) -> Subnet {
        Subnet {
            id: id.to_owned(),
            zone: "a".to_owned(),
            zone_id: "az1".to_owned(),
            vpc_id: "vpc-1".to_owned(),
            free_addresses,
            tags: BTreeMap::new(),
        }
    }

    fn choose(addresses: &Addresses, pods: u32) -> (String, Chosen) {
        let expected = BTreeMap::from([("a".to_owned(), pods)]);
        let chosen = addresses.choose([("s1", "a"), ("s2", "a")], &expected);
        (chosen.by_zone["a"].clone(), chosen)
    }

    #[test]
    fn launches_in_flight_move_the_next_one_to_a_roomier_subnet() {
        let addresses = Addresses::default();
        addresses.described(&[subnet("s1", 100), subnet("s2", 90)]);
        assert_eq!(choose(&addresses, 20).0, "s1");
        assert_eq!(choose(&addresses, 20).0, "s2");
        assert_eq!(choose(&addresses, 20).0, "s1");
    }

    #[test]
    fn addresses_set_aside_and_not_used_come_back() {
        let addresses = Addresses::default();
        addresses.described(&[subnet("s1", 100), subnet("s2", 90)]);
        let (_, chosen) = choose(&addresses, 20);
        addresses.settle(chosen, &BTreeSet::new());
        let (id, chosen) = choose(&addresses, 20);
        assert_eq!(id, "s1");
        addresses.settle(chosen, &BTreeSet::from(["s1"]));
        assert_eq!(choose(&addresses, 20).0, "s2");
    }

    #[test]
    fn a_fresh_count_is_not_raised_by_what_was_set_aside_before_it() {
        let addresses = Addresses::default();
        addresses.described(&[subnet("s1", 100), subnet("s2", 10)]);
        let (_, chosen) = choose(&addresses, 95);
        addresses.described(&[subnet("s1", 11)]);
        addresses.settle(chosen, &BTreeSet::new());
        addresses.full("s2");
        let (_, chosen) = choose(&addresses, 11);
        assert_eq!(chosen.set_aside, [("s1".to_owned(), 11, 2)]);
    }

    #[test]
    fn a_full_subnet_is_chosen_only_where_there_is_no_other() {
        let addresses = Addresses::default();
        addresses.described(&[subnet("s1", 100), subnet("s2", 5)]);
        addresses.full("s1");
        assert_eq!(choose(&addresses, 1).0, "s2");
        let alone = addresses.choose([("s1", "a")], &BTreeMap::new());
        assert_eq!(alone.by_zone["a"], "s1");
    }
}

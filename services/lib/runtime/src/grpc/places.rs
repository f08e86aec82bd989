//! Room that addresses share, of which no single one may take all.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Places {
    most: usize,
    /// Of one address.
    share: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Places {
    pub(crate) fn new(most: usize, share: usize) -> Self {
        Self { most, share, taken: Arc::default() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` where there are too many already.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let own = taken.by_address.get(&address).copied().unwrap_or_default();
        if taken.all >= self.most || own >= self.share {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, own + 1);
        Some(Place { places: self.clone(), address })
    }
}

/// Free again when it is dropped.
pub(crate) struct Place {
    places: Places,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(own) = taken.by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_no_more_than_its_share_and_gives_it_back() {
        let places = Places::new(1024, 64);
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut held: Vec<Place> = std::iter::from_fn(|| places.take(greedy)).collect();
        assert_eq!(held.len(), 64);
        assert!(places.take(other).is_some(), "others are let in");
        held.pop();
        assert!(places.take(greedy).is_some());
        drop(held);
        assert!(places.taken().by_address.is_empty() && places.taken().all == 0);
    }

    #[test]
    fn all_addresses_together_have_a_limit() {
        let places = Places::new(1024, 64);
        let of = |number: u32| places.take(IpAddr::from(std::net::Ipv4Addr::from(number)));
        let held: Vec<Place> = (0..2000).filter_map(of).collect();
        assert_eq!(held.len(), 1024);
    }
}

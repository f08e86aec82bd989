//! What the status of a class has no room for and launches and the catalogue need all the same: its placement group, and how
//! much is left of its reservations. In memory; every replica finds it for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::nodeclass::PlacementGroup;
use cloud::reservation::Reservation;
use tokio::sync::watch;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    pub placement_group: Option<PlacementGroup>,
    /// Those of `status.capacityReservations`, with what is left of each.
    pub reservations: Vec<Reservation>,
}

/// By name of the class.
pub type ByClass = Arc<BTreeMap<String, Resolved>>;

/// Cheap to clone.
#[derive(Clone)]
pub struct ResolvedClasses {
    latest: Arc<watch::Sender<ByClass>>,
}

impl Default for ResolvedClasses {
    fn default() -> Self {
        Self { latest: Arc::new(watch::Sender::new(ByClass::default())) }
    }
}

impl ResolvedClasses {
    pub fn get(&self, class: &str) -> Option<Resolved> {
        self.latest.borrow().get(class).cloned()
    }

    /// Follows every change.
    pub fn subscribe(&self) -> watch::Receiver<ByClass> {
        self.latest.subscribe()
    }

    /// Only a real change is told.
    pub fn put(&self, class: &str, resolved: Resolved) {
        self.change(|all| {
            let known = all.get(class) == Some(&resolved);
            if !known {
                all.insert(class.to_owned(), resolved);
            }
            !known
        });
    }

    pub fn remove(&self, class: &str) {
        self.change(|all| all.remove(class).is_some());
    }

    /// An instance was launched into the reservation.
    pub fn reservation_taken(&self, id: &str) {
        self.reservation(id, |left| left.saturating_sub(1));
    }

    /// EC2 says that nothing is left of it.
    pub fn reservation_drained(&self, id: &str) {
        self.reservation(id, |_| 0);
    }

    fn reservation(&self, id: &str, left: impl Fn(u32) -> u32) {
        self.change(|all| {
            let mut changed = false;
            let of_id = all.values_mut().flat_map(|r| &mut r.reservations).filter(|r| r.id == id);
            for reservation in of_id {
                let now = left(reservation.available);
                changed |= now != reservation.available;
                reservation.available = now;
            }
            changed
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Resolved>) -> bool) {
        self.latest.send_if_modified(|all| change(Arc::make_mut(all)));
    }
}

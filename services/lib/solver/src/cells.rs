//! Cells: the distinct ways to launch something (zone, zone id, capacity type, reservation), common to all types.
//!
//! An offering is a type in a cell. Requirements on labels that differ between the offerings of a type become sets of
//! cells, all others sets of types; the two are independent, so their product is exactly the offerings that satisfy both.

use std::sync::Arc;

use model::catalog::{CapacityType, Offering};
use model::labels;
use model::requirement::Requirement;
use packing::Bits;
use rustc_hash::FxHashMap;

pub(crate) type CellId = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) zone: Arc<str>,
    pub(crate) zone_id: Option<Arc<str>>,
    pub(crate) capacity_type: CapacityType,
    /// Index into [`Cells::reservations`].
    pub(crate) reservation: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct ReservationData {
    pub(crate) id: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) interruptible: &'static str,
    /// The least that any offering reports.
    pub(crate) capacity: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    pub(crate) list: Vec<Cell>,
    index: FxHashMap<Cell, CellId>,
    pub(crate) reservations: Vec<ReservationData>,
    reservation_index: FxHashMap<Arc<str>, usize>,
}

/// Label keys that are decided by the cell, not by the type.
pub(crate) fn is_cell_key(key: &str) -> bool {
    matches!(
        key,
        labels::ZONE
            | labels::ZONE_ID
            | labels::CAPACITY_TYPE
            | labels::CAPACITY_RESERVATION_ID
            | labels::CAPACITY_RESERVATION_TYPE
            | labels::CAPACITY_RESERVATION_INTERRUPTIBLE
    )
}

impl Cells {
    pub(crate) fn add(&mut self, offering: &Offering) -> CellId {
        let reservation = offering.reservation.as_ref().map(|r| {
            let next = self.reservations.len();
            let index = *self.reservation_index.entry(Arc::clone(&r.id)).or_insert(next);
            if index == next {
                self.reservations.push(ReservationData {
                    id: Arc::clone(&r.id),
                    kind: Arc::clone(&r.kind),
                    interruptible: r.interruptible_label(),
                    capacity: r.capacity,
                });
            }
            let known = &mut self.reservations[index];
            known.capacity = known.capacity.min(r.capacity);
            index
        });
        let cell = Cell {
            zone: Arc::clone(&offering.zone),
            zone_id: offering.zone_id.clone(),
            capacity_type: offering.capacity_type,
            reservation,
        };
        if let Some(id) = self.index.get(&cell) {
            return *id;
        }
        let id = self.list.len();
        self.index.insert(cell.clone(), id);
        self.list.push(cell);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn label(&self, cell: CellId, key: &str) -> Option<&str> {
        let cell = &self.list[cell];
        let reservation = cell.reservation.map(|r| &self.reservations[r]);
        match key {
            labels::ZONE => Some(&cell.zone),
            labels::ZONE_ID => cell.zone_id.as_deref(),
            labels::CAPACITY_TYPE => Some(cell.capacity_type.as_str()),
            labels::CAPACITY_RESERVATION_ID => reservation.map(|r| &*r.id),
            labels::CAPACITY_RESERVATION_TYPE => reservation.map(|r| &*r.kind),
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE => reservation.map(|r| r.interruptible),
            _ => None,
        }
    }

    /// The cells that satisfy a requirement on one of their keys.
    pub(crate) fn satisfying(&self, requirement: &Requirement) -> Bits {
        let mut out = Bits::new(self.len());
        for cell in 0..self.len() {
            let ok = match self.label(cell, requirement.key()) {
                Some(value) => requirement.contains(value),
                None => requirement.allows_absence(),
            };
            if ok {
                out.set(cell);
            }
        }
        out
    }

    pub(crate) fn with_label(&self, key: &str, value: &str) -> Bits {
        let mut out = Bits::new(self.len());
        for cell in 0..self.len() {
            if self.label(cell, key) == Some(value) {
                out.set(cell);
            }
        }
        out
    }

    pub(crate) fn of_capacity_type(&self, wanted: CapacityType) -> Bits {
        let mut out = Bits::new(self.len());
        for (id, cell) in self.list.iter().enumerate() {
            if cell.capacity_type == wanted {
                out.set(id);
            }
        }
        out
    }
}

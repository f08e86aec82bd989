//! One version of the catalogue: immutable, cheap to copy, sharing with its predecessor whatever did not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::catalog::Entry;
use cloud::facts::Zone;
use cloud::reservation::{Reservation, ReservationState};
use cloud::unavailable::{Marks, Unavailable};

use crate::overlays::Overlay;

/// Memory in bytes by instance type and hash of the images.
pub(crate) type LearnedMemory = BTreeMap<(String, String), u64>;

#[derive(Clone, Debug)]
pub(crate) struct Catalogue {
    pub(crate) region: Arc<str>,
    /// By name; entries refer to them by index.
    pub(crate) zones: Arc<Vec<Zone>>,
    /// By name of the type.
    pub(crate) entries: Arc<Vec<Arc<Entry>>>,
    /// In force, by key.
    pub(crate) marks: Arc<BTreeMap<String, Unavailable>>,
    /// By id.
    pub(crate) reservations: Arc<Vec<(Reservation, ReservationState)>>,
    /// Most important first.
    pub(crate) overlays: Arc<Vec<Overlay>>,
    pub(crate) learned: Arc<LearnedMemory>,
}

impl Catalogue {
    /// Whether the difference to a newer one can be told at all: indexes of zones must mean the same in both, and there
    /// are no words for memory that is no longer known.
    pub(crate) fn is_comparable(&self, newer: &Self) -> bool {
        self.region == newer.region
            && self.zones.iter().map(|z| &z.name).eq(newer.zones.iter().map(|z| &z.name))
            && self.learned.keys().all(|key| newer.learned.contains_key(key))
    }

    /// Marks in the form that derivation asks for.
    pub(crate) fn marks(&self) -> Marks {
        self.marks.values().map(|mark| mark.scope.clone()).collect()
    }
}

/// `new` with every entry that equals its predecessor replaced by that very predecessor, so that unchanged entries are
/// recognised by their address and their memory is shared between versions.
pub(crate) fn shared_with(old: &[Arc<Entry>], new: Vec<Entry>) -> Vec<Arc<Entry>> {
    let mut old = old.iter().peekable();
    new.into_iter()
        .map(|mut entry| {
            while old.next_if(|o| o.facts.name < entry.facts.name).is_some() {}
            match old.peek() {
                Some(same) if same.facts.name == entry.facts.name => {
                    if same.facts == entry.facts {
                        entry.facts = Arc::clone(&same.facts);
                    }
                    if ***same == entry { Arc::clone(same) } else { Arc::new(entry) }
                }
                _ => Arc::new(entry),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use cloud::facts::TypeFacts;
    use model::price::MicroDollars;

    use super::*;

    fn entry(name: &str, price: i64) -> Entry {
        let facts = TypeFacts { name: name.into(), ..TypeFacts::default() };
        Entry {
            facts: Arc::new(facts),
            zones: vec![0],
            on_demand: Some(MicroDollars::new(price)),
            spot: vec![],
        }
    }

    #[test]
    fn unchanged_entries_are_the_same_object_and_changed_ones_share_their_facts() {
        let old = shared_with(&[], vec![entry("a", 1), entry("b", 2), entry("d", 4)]);
        let new = shared_with(&old, vec![entry("a", 1), entry("b", 3), entry("c", 3), entry("d", 4)]);
        assert!(Arc::ptr_eq(&old[0], &new[0]) && Arc::ptr_eq(&old[2], &new[3]));
        assert!(!Arc::ptr_eq(&old[1], &new[1]) && Arc::ptr_eq(&old[1].facts, &new[1].facts));
        assert_eq!(new[2].facts.name, "c");
    }
}

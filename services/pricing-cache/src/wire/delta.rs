//! The difference between two catalogues with the same zones: only what changed. A price of 0 says that there is none any
//! more.

use std::sync::Arc;

use cloud::catalog::Entry;
use model::price::MicroDollars;
use proto::pricingcache::v1 as pb;

use super::{parts, unavailable_offerings};
use crate::catalogue::Catalogue;

pub(crate) fn delta(old: &Catalogue, new: &Catalogue) -> pb::CatalogDelta {
    let mut delta = pb::CatalogDelta::default();
    if !Arc::ptr_eq(&old.entries, &new.entries) {
        types(old, new, &mut delta);
    }
    if !Arc::ptr_eq(&old.marks, &new.marks) {
        let fresh = new.marks.iter().filter(|(key, mark)| old.marks.get(*key) != Some(mark));
        delta.unavailable = fresh.map(|(_, mark)| unavailable_offerings::unavailable(mark)).collect();
        delta.available_again =
            old.marks.keys().filter(|key| !new.marks.contains_key(*key)).cloned().collect();
    }
    if old.reservations != new.reservations {
        delta.reservations_changed = true;
        delta.reservations = new.reservations.iter().map(parts::reservation).collect();
    }
    if old.overlays != new.overlays {
        delta.overlays_changed = true;
        delta.overlays = new.overlays.iter().map(parts::overlay).collect();
    }
    if old.zones != new.zones {
        delta.zones_changed = true;
        delta.zones = new.zones.iter().map(parts::zone).collect();
    }
    if !Arc::ptr_eq(&old.learned, &new.learned) {
        let fresh = new.learned.iter().filter(|(key, bytes)| old.learned.get(*key) != Some(bytes));
        delta.learned_memory = fresh.map(parts::learned).collect();
    }
    delta
}

/// Both lists are by name.
fn types(old: &Catalogue, new: &Catalogue, delta: &mut pb::CatalogDelta) {
    let mut before = old.entries.iter().peekable();
    for entry in new.entries.iter() {
        while let Some(gone) = before.next_if(|b| b.facts.name < entry.facts.name) {
            delta.removed_types.push(gone.facts.name.clone());
        }
        let same = before.next_if(|b| b.facts.name == entry.facts.name);
        if !same.is_some_and(|same| Arc::ptr_eq(same, entry)) {
            changed(same.map(Arc::as_ref), entry, new, delta);
        }
    }
    delta.removed_types.extend(before.map(|gone| gone.facts.name.clone()));
}

fn changed(before: Option<&Entry>, entry: &Entry, new: &Catalogue, delta: &mut pb::CatalogDelta) {
    let name = &entry.facts.name;
    if before.is_none_or(|b| b.facts != entry.facts || b.zones != entry.zones) {
        delta.changed_types.push(parts::facts(entry));
    }
    if before.and_then(|b| b.on_demand) != entry.on_demand {
        let micro_usd = entry.on_demand.map_or(0, MicroDollars::get);
        delta.on_demand.push(pb::OnDemandPrice { instance_type: name.clone(), micro_usd });
    }
    for (index, zone) in new.zones.iter().enumerate() {
        let price = entry.spot_price(index);
        if before.and_then(|b| b.spot_price(index)) != price {
            let micro_usd = price.map_or(0, MicroDollars::get);
            delta.spot.push(pb::SpotPrice {
                instance_type: name.clone(),
                zone: zone.name.clone(),
                micro_usd,
            });
        }
    }
}

//! The whole catalogue as one message. Prices are columns in the order of the types, which is what keeps it small.

use model::price::MicroDollars;
use proto::pricingcache::v1 as pb;

use super::{marks, parts};
use crate::catalogue::Catalogue;

pub(crate) fn snapshot(catalogue: &Catalogue) -> pb::CatalogSnapshot {
    let entries = &catalogue.entries;
    let spot = (0_u32..).zip(catalogue.zones.iter()).map(|(index, _)| pb::SpotPrices {
        zone: index,
        micro_usd: entries
            .iter()
            .map(|e| e.spot_price(index as usize).map_or(0, MicroDollars::get))
            .collect(),
    });
    pb::CatalogSnapshot {
        region: catalogue.region.to_string(),
        zones: catalogue.zones.iter().map(parts::zone).collect(),
        instance_types: entries.iter().map(|entry| parts::facts(entry)).collect(),
        on_demand_micro_usd: entries.iter().map(|e| e.on_demand.map_or(0, MicroDollars::get)).collect(),
        spot: spot.collect(),
        unavailable: catalogue.marks.values().map(marks::unavailable).collect(),
        reservations: catalogue.reservations.iter().map(parts::reservation).collect(),
        overlays: catalogue.overlays.iter().map(parts::overlay).collect(),
        learned_memory: catalogue.learned.iter().map(parts::learned).collect(),
    }
}

//! The whole catalogue as one message. Prices are columns in the order of the types, which is what keeps it small.

use std::sync::Arc;

use cloud::catalog::Entry;
use model::price::MicroDollars;
use prost::Message as _;
use prost::bytes::BufMut;
use proto::pricingcache::v1 as pb;

use super::{parts, unavailable_offerings};
use crate::catalogue::Catalogue;

/// Tag of `CatalogSnapshot.instance_types`.
const INSTANCE_TYPES: u32 = 3;

/// A snapshot that is about to be written: everything but the types, and how long those will be.
pub(super) struct Encoded {
    rest: pb::CatalogSnapshot,
    types: usize,
}

impl Encoded {
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        let one =
            |entry: &Arc<Entry>| prost::encoding::message::encoded_len(INSTANCE_TYPES, &parts::facts(entry));
        Self { rest: without_types(catalogue), types: catalogue.entries.iter().map(one).sum() }
    }

    pub(super) fn len(&self) -> usize {
        self.rest.encoded_len() + self.types
    }

    pub(super) fn write(&self, catalogue: &Catalogue, out: &mut impl BufMut) {
        self.rest.encode_raw(out);
        for entry in catalogue.entries.iter() {
            prost::encoding::message::encode(INSTANCE_TYPES, &parts::facts(entry), out);
        }
    }
}

fn without_types(catalogue: &Catalogue) -> pb::CatalogSnapshot {
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
        instance_types: Vec::new(),
        on_demand_micro_usd: entries.iter().map(|e| e.on_demand.map_or(0, MicroDollars::get)).collect(),
        spot: spot.collect(),
        unavailable: catalogue.marks.values().map(unavailable_offerings::unavailable).collect(),
        reservations: catalogue.reservations.iter().map(parts::reservation).collect(),
        overlays: catalogue.overlays.iter().map(parts::overlay).collect(),
        learned_memory: catalogue.learned.iter().map(parts::learned).collect(),
    }
}

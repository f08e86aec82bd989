//! Where and how a type can be bought under a node class, and for how much.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::{CapacityType, Offering, Reservation};
use model::price::MicroDollars;
use model::resources::Resources;

use super::inputs::{NodeClass, Region, Settings};
use crate::catalog::Entry;
use crate::reservation::ReservationState;
use crate::unavailable::Offered;

/// A reservation is paid for already: its price is on-demand's divided by this, so that it is always preferred.
const RESERVED_PRICE_DIVISOR: i64 = 10_000_000;

/// Zones of a node class: name, to its id and subnets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassZones(BTreeMap<String, ClassZone>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ClassZone {
    name: Arc<str>,
    id: Option<Arc<str>>,
    subnet_ids: Vec<String>,
}

impl ClassZones {
    pub fn of(class: &NodeClass) -> Self {
        let mut zones: BTreeMap<String, ClassZone> = BTreeMap::new();
        for subnet in &class.subnets {
            let zone = zones.entry(subnet.zone.clone()).or_insert_with(|| ClassZone {
                name: Arc::from(subnet.zone.as_str()),
                id: None,
                subnet_ids: Vec::new(),
            });
            if zone.id.is_none() {
                zone.id = subnet.zone_id.as_deref().map(Arc::from);
            }
            zone.subnet_ids.push(subnet.id.clone());
        }
        Self(zones)
    }
}

/// One offering for each zone of the class in which the type is sold, each way of buying, and each reservation. Those
/// without any price are left out; those that cannot be had now are there, not available.
pub(super) fn offerings(
    entry: &Entry,
    class: &NodeClass,
    zones: &ClassZones,
    region: &Region<'_>,
    settings: &Settings,
    compatible: bool,
) -> Vec<Offering> {
    let type_name = entry.facts.name.as_str();
    let group = class.placement_group.as_ref().map(|g| g.id.as_str());
    let overlay = region.overlay_prices.get(type_name).copied();
    let sold = |class_name: &str| entry.facts.usage_classes.iter().any(|c| c == class_name);
    let mut all = Vec::new();
    for (index, zone) in region.zones.iter().enumerate() {
        let Some(own) = zones.0.get(&zone.name) else { continue };
        if !entry.offered_in(index) {
            continue;
        }
        let offered = |capacity_type, reservation_id| Offered {
            instance_type: type_name,
            zone: &zone.name,
            capacity_type,
            reservation_id,
            placement_group_id: group,
            subnet_ids: &own.subnet_ids,
        };
        let offering = |capacity_type, price, available, reservation| Offering {
            zone: Arc::clone(&own.name),
            zone_id: own.id.clone(),
            capacity_type,
            price,
            available,
            reservation,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        };
        for (capacity_type, known) in
            [(CapacityType::OnDemand, entry.on_demand), (CapacityType::Spot, entry.spot_price(index))]
        {
            let Some(price) = known.or(overlay) else { continue };
            if sold(capacity_type.as_str()) {
                let marked = region.marks.is_unavailable(&offered(capacity_type, None));
                all.push(offering(capacity_type, price, compatible && !marked && !zone.shifted, None));
            }
        }
        if !settings.reserved_capacity {
            continue;
        }
        let held = class
            .reservations
            .iter()
            .filter(|r| r.instance_type == type_name && r.zone == zone.name && !r.has_ended(region.now));
        for reservation in held {
            let marked = region.marks.is_unavailable(&offered(CapacityType::Reserved, Some(&reservation.id)));
            let usable =
                reservation.available > 0 && reservation.state(region.now) != ReservationState::Expiring;
            all.push(offering(
                CapacityType::Reserved,
                reserved_price(entry.on_demand),
                compatible && usable && !marked && !zone.shifted,
                Some(Reservation {
                    id: Arc::from(reservation.id.as_str()),
                    capacity: reservation.available,
                    kind: Arc::from(reservation.kind.as_str()),
                    interruptible: reservation.interruptible,
                }),
            ));
        }
    }
    all
}

/// Rounded up, so that a known price never becomes free.
fn reserved_price(on_demand: Option<MicroDollars>) -> MicroDollars {
    let micro = on_demand.map_or(0, MicroDollars::get);
    MicroDollars::new(micro / RESERVED_PRICE_DIVISOR + i64::from(micro % RESERVED_PRICE_DIVISOR > 0))
}

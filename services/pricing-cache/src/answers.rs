//! Answers for people and tools: instance types that match a filter, and prices with where they come from.

use std::collections::{BTreeMap, BTreeSet};

use cloud::catalog::Entry;
use cloud::derive::{ClassZones, Family, NodeClass, Region, Settings, SubnetZone, instance_type};
use cloud::facts::Zone;
use cloud::unavailable::{Offered, Unavailable};
use jiff::Timestamp;
use model::catalog::{CapacityType, InstanceType, Offering};
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::requirements::Requirements;
use model::resources::Resources;
use proto::pricingcache::v1 as pb;
use proto::types::v1 as types;
use runtime::grpc::errors;
use tonic::Status;

use crate::catalogue::Catalogue;
use crate::prices::Source;
use crate::published::Published;
use crate::wire;

const DEFAULT_LIMIT: u32 = 100;
/// Every requirement and quantity is compared with every type.
const MOST_REQUIREMENTS: usize = 100;
/// Of one requirement: more than there are types in any region.
const MOST_VALUES: usize = 5_000;
/// Of types or zones whose prices are asked.
const MOST_NAMES: usize = 5_000;

fn check(field: &str, entries: usize, most: usize) -> Result<(), Status> {
    if entries <= most {
        return Ok(());
    }
    Err(errors::invalid(field, format!("has {entries} entries, more than the limit of {most}")))
}

/// A filter that was read and checked.
pub(crate) struct Filter {
    requirements: Requirements,
    at_least: Resources,
    limit: usize,
}

impl TryFrom<pb::ListInstanceTypesRequest> for Filter {
    type Error = Status;

    fn try_from(request: pb::ListInstanceTypesRequest) -> Result<Self, Status> {
        let quantities = request.at_least.unwrap_or_default().quantities;
        check("requirements", request.requirements.len(), MOST_REQUIREMENTS)?;
        check("at_least.quantities", quantities.len(), MOST_REQUIREMENTS)?;
        let mut requirements = Requirements::new();
        for (at, given) in request.requirements.iter().enumerate() {
            let field = format!("requirements[{at}]");
            check(&format!("{field}.values"), given.values.len(), MOST_VALUES)?;
            let entry = wire::requirement_entry(given).map_err(|why| errors::invalid(&field, why))?;
            requirements.add((&entry).into());
        }
        let mut at_least = Resources::new();
        for (name, text) in quantities {
            let amount: Quantity = text.parse().map_err(|error| {
                errors::invalid(
                    &format!("at_least.quantities[{name}]"),
                    format!("{text:?} is no quantity: {error}"),
                )
            })?;
            at_least.insert(name, amount);
        }
        let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit };
        Ok(Self { requirements, at_least, limit: limit as usize })
    }
}

/// Types as an AL2023 class with a subnet in every zone would run them, cheapest first; types that cannot be had now come
/// last.
pub(crate) fn instance_types(
    published: &Published,
    settings: &Settings,
    filter: &Filter,
) -> pb::ListInstanceTypesResponse {
    let catalogue = published.catalogue.as_ref();
    let class = everywhere(&catalogue.zones);
    let zones = ClassZones::of(&class);
    let marks = catalogue.marks();
    let (overlay_prices, learned_memory) = (BTreeMap::new(), BTreeMap::new());
    let region = Region {
        name: &catalogue.region,
        zones: &catalogue.zones,
        marks: &marks,
        overlay_prices: &overlay_prices,
        learned_memory: &learned_memory,
        now: Timestamp::now(),
    };
    let derive = |entry: &Entry| instance_type(entry, &class, &zones, &region, settings);
    let mut found: Vec<(Option<MicroDollars>, &Entry, InstanceType)> = Vec::new();
    for entry in catalogue.entries.iter() {
        let derived = derive(entry);
        if derived.requirements.is_compatible(&filter.requirements, &|_| false)
            && filter.at_least.fits(&derived.capacity)
        {
            let cheapest = derived.offerings.iter().filter(|o| o.is_open()).map(|o| o.price).min();
            found.push((cheapest, entry, derived));
        }
    }
    found.sort_by(|(a, x, _), (b, y, _)| {
        (a.is_none(), a, &x.facts.name).cmp(&(b.is_none(), b, &y.facts.name))
    });
    let matched = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let listed = found.into_iter().take(filter.limit).map(|(_, entry, derived)| listed(entry, derived));
    pb::ListInstanceTypesResponse { instance_types: listed.collect(), matched, version: published.version }
}

fn listed(entry: &Entry, derived: InstanceType) -> pb::ListedInstanceType {
    let name = &entry.facts.name;
    let mut offerings = derived.offerings;
    offerings.sort_by(|a, b| (a.price, &a.zone, a.capacity_type).cmp(&(b.price, &b.zone, b.capacity_type)));
    pb::ListedInstanceType {
        facts: Some(wire::facts(entry)),
        labels: derived.requirements.labels().into_iter().collect(),
        offerings: offerings.iter().map(|o| offering(name, o)).collect(),
    }
}

fn offering(name: &str, offering: &Offering) -> types::Offering {
    types::Offering {
        instance_type: name.to_owned(),
        zone: offering.zone.to_string(),
        zone_id: offering.zone_id.as_deref().unwrap_or_default().to_owned(),
        capacity_type: wire::capacity_type(offering.capacity_type).into(),
        micro_usd_per_hour: offering.price.get(),
        available: offering.is_open(),
        reservation_id: offering.reservation.as_ref().map(|r| r.id.to_string()).unwrap_or_default(),
        reservation_capacity: offering.reservation.as_ref().map_or(0, |r| r.capacity),
    }
}

/// A class that can use every zone: what a person means who asks without naming one.
fn everywhere(zones: &[Zone]) -> NodeClass {
    let subnet = |zone: &Zone| SubnetZone {
        id: String::new(),
        zone: zone.name.clone(),
        zone_id: (!zone.id.is_empty()).then(|| zone.id.clone()),
    };
    NodeClass { subnets: zones.iter().map(subnet).collect(), ..NodeClass::new(Family::Al2023) }
}

/// Which prices; empty sets mean all.
pub(crate) struct Wanted {
    types: BTreeSet<String>,
    zones: BTreeSet<String>,
    capacity_types: BTreeSet<CapacityType>,
}

impl TryFrom<pb::GetPricesRequest> for Wanted {
    type Error = Status;

    fn try_from(request: pb::GetPricesRequest) -> Result<Self, Status> {
        check("instance_types", request.instance_types.len(), MOST_NAMES)?;
        check("zones", request.zones.len(), MOST_NAMES)?;
        let mut capacity_types = BTreeSet::new();
        for number in request.capacity_types {
            let known = types::CapacityType::try_from(number).ok().and_then(wire::from_capacity_type);
            let known =
                known.ok_or_else(|| errors::invalid("capacity_types", "give on-demand, spot or reserved"))?;
            capacity_types.insert(known);
        }
        Ok(Self {
            types: request.instance_types.into_iter().collect(),
            zones: request.zones.into_iter().collect(),
            capacity_types,
        })
    }
}

impl Wanted {
    fn takes_type(&self, name: &str) -> bool {
        self.types.is_empty() || self.types.contains(name)
    }

    fn takes_zone(&self, name: &str) -> bool {
        self.zones.is_empty() || self.zones.contains(name)
    }

    fn takes(&self, capacity_type: CapacityType) -> bool {
        self.capacity_types.is_empty() || self.capacity_types.contains(&capacity_type)
    }
}

/// By type, zone, then on-demand before spot before reserved. Offerings without a price are left out.
pub(crate) fn prices(published: &Published, wanted: &Wanted) -> pb::GetPricesResponse {
    let catalogue = published.catalogue.as_ref();
    let mut prices = Vec::new();
    for entry in catalogue.entries.iter().filter(|entry| wanted.takes_type(&entry.facts.name)) {
        for (index, zone) in catalogue.zones.iter().enumerate() {
            if entry.offered_in(index) && wanted.takes_zone(&zone.name) {
                of_pool(catalogue, entry, index, zone, wanted, &mut prices);
            }
        }
    }
    pb::GetPricesResponse {
        prices,
        on_demand_source: Some(source(&published.on_demand_source)),
        spot_source: Some(source(&published.spot_source)),
    }
}

fn of_pool(
    catalogue: &Catalogue,
    entry: &Entry,
    index: usize,
    zone: &Zone,
    wanted: &Wanted,
    prices: &mut Vec<pb::Price>,
) {
    let name = entry.facts.name.as_str();
    let mut add = |capacity_type, price: MicroDollars, reservation: Option<(&str, u32)>| {
        let offered = Offered {
            instance_type: name,
            zone: &zone.name,
            capacity_type,
            reservation_id: reservation.map(|(id, _)| id),
            placement_group_id: None,
            subnet_ids: &[],
        };
        let mark = mark_on(catalogue, &offered);
        let used_up = reservation.is_some_and(|(_, left)| left == 0);
        let offering = types::Offering {
            instance_type: name.to_owned(),
            zone: zone.name.clone(),
            zone_id: zone.id.clone(),
            capacity_type: wire::capacity_type(capacity_type).into(),
            micro_usd_per_hour: price.get(),
            available: mark.is_none() && !zone.shifted && !used_up,
            reservation_id: reservation.map(|(id, _)| id.to_owned()).unwrap_or_default(),
            reservation_capacity: reservation.map_or(0, |(_, left)| left),
        };
        prices.push(pb::Price {
            offering: Some(offering),
            on_demand_micro_usd: entry.on_demand.map_or(0, MicroDollars::get),
            unavailable_since: mark.map(|mark| wire::timestamp(mark.since)),
        });
    };
    let known = [(CapacityType::OnDemand, entry.on_demand), (CapacityType::Spot, entry.spot_price(index))];
    for (capacity_type, price) in known {
        let sold = entry.facts.usage_classes.iter().any(|class| class == capacity_type.as_str());
        if let (Some(price), true, true) = (price, sold, wanted.takes(capacity_type)) {
            add(capacity_type, price, None);
        }
    }
    if wanted.takes(CapacityType::Reserved) {
        let held = catalogue.reservations.iter().map(|(held, _)| held);
        for held in held.filter(|held| held.instance_type == name && held.zone == zone.name) {
            add(CapacityType::Reserved, MicroDollars::ZERO, Some((&held.id, held.available)));
        }
    }
}

/// The mark that rules the offering out for the longest.
fn mark_on<'a>(catalogue: &'a Catalogue, offered: &Offered<'_>) -> Option<&'a Unavailable> {
    let reserved = offered.capacity_type == CapacityType::Reserved;
    let covering = catalogue
        .marks
        .values()
        .filter(|mark| (!reserved || mark.scope.reservation_id.is_some()) && mark.scope.covers(offered));
    covering.max_by_key(|mark| mark.until)
}

fn source(source: &Source) -> pb::PriceSource {
    pb::PriceSource {
        kind: source.origin.as_str().to_owned(),
        as_of: source.as_of.map(wire::timestamp),
        last_error: source.failing.as_ref().map(|(error, _)| error.clone()).unwrap_or_default(),
        failing_since: source.failing.as_ref().map(|(_, since)| wire::timestamp(*since)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn questions_over_their_limits_are_refused_by_field_and_limit() {
        let values = |count: usize| types::Requirement {
            key: "node.kubernetes.io/instance-type".into(),
            operator: types::Operator::In.into(),
            values: (0..count).map(|number| format!("m{number}.large")).collect(),
            min_values: 0,
        };
        let types_like = |requirements, quantities: usize| {
            let quantities: HashMap<String, String> =
                (0..quantities).map(|number| (format!("example.org/{number}"), "1".to_owned())).collect();
            let at_least = Some(types::Resources { quantities: quantities.into_iter().collect() });
            Filter::try_from(pb::ListInstanceTypesRequest { requirements, at_least, limit: 0 }).map(drop)
        };
        let prices_of = |names: usize| {
            let instance_types = vec!["m5.large".to_owned(); names];
            Wanted::try_from(pb::GetPricesRequest { instance_types, ..Default::default() }).map(drop)
        };
        assert!(types_like(vec![values(MOST_VALUES)], MOST_REQUIREMENTS).is_ok());
        assert!(prices_of(MOST_NAMES).is_ok());
        for (refused, field) in [
            (types_like(vec![values(1); MOST_REQUIREMENTS + 1], 0), "requirements: has 101"),
            (types_like(vec![values(MOST_VALUES + 1)], 0), "requirements[0].values: has 5001"),
            (types_like(Vec::new(), MOST_REQUIREMENTS + 1), "at_least.quantities: has 101"),
            (prices_of(MOST_NAMES + 1), "instance_types: has 5001"),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            assert!(refused.message().starts_with(field), "{refused}");
        }
    }
}

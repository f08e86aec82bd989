//! Catalogues in the plan format.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering, Reservation};
use model::labels;
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::{PODS, Resources};
use serde::Deserialize;
use serde_json::Value;

use super::{Catalogue, line_of_type, number_text, read_typed};
use crate::manifest::InputError;

/// Pods of a type that does not say: kubelet's default.
const DEFAULT_PODS: i64 = 110;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    region: String,
    instance_types: Vec<Kind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    capacity: BTreeMap<String, Value>,
    #[serde(default)]
    overhead: BTreeMap<String, Value>,
    #[serde(default)]
    offerings: Vec<FileOffering>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileOffering {
    zone: String,
    #[serde(default)]
    zone_id: String,
    capacity_type: String,
    price: f64,
    #[serde(default = "yes")]
    available: bool,
    #[serde(default)]
    reservation_id: String,
    #[serde(default)]
    reservation_capacity: u32,
}

fn yes() -> bool {
    true
}

pub(super) fn parse(text: &str, name: &str) -> Result<Catalogue, InputError> {
    let file: File = read_typed(text, name)?;
    let mut types = Vec::with_capacity(file.instance_types.len());
    for (index, kind) in file.instance_types.into_iter().enumerate() {
        let shown = kind.name.clone();
        let resolved = resolve(kind, &file.region).map_err(|(field, problem)| InputError {
            line: line_of_type(text, index, "instanceTypes"),
            object: format!("type {shown}"),
            field: format!("instanceTypes[{index}].{field}"),
            ..InputError::of_file(name, problem)
        })?;
        types.push(resolved);
    }
    Ok(Catalogue { table: None, types: Arc::new(types), origin: name.to_owned(), remarks: Vec::new() })
}

type Wrong = (String, String);

fn resolve(kind: Kind, region: &str) -> Result<InstanceType, Wrong> {
    if kind.name.is_empty() {
        return Err(("name".to_owned(), "is empty".to_owned()));
    }
    let mut own_labels = kind.labels;
    if !region.is_empty() {
        own_labels.entry(labels::REGION.to_owned()).or_insert_with(|| region.to_owned());
    }
    let mut capacity = resources(&kind.capacity, "capacity")?;
    if !capacity.contains(PODS) {
        capacity.insert(PODS, Quantity::from_units(DEFAULT_PODS));
    }
    let overhead = resources(&kind.overhead, "overhead")?;
    let offerings = kind
        .offerings
        .into_iter()
        .enumerate()
        .map(|(index, offering)| {
            self::offering(offering)
                .map_err(|(field, problem)| (format!("offerings[{index}].{field}"), problem))
        })
        .collect::<Result<Vec<_>, Wrong>>()?;
    Ok(InstanceType::new(&kind.name, &own_labels, capacity, overhead, offerings))
}

fn resources(amounts: &BTreeMap<String, Value>, field: &str) -> Result<Resources, Wrong> {
    amounts
        .iter()
        .map(|(name, amount)| {
            let at = || format!("{field}[{name:?}]");
            let text = number_text(amount).ok_or_else(|| (at(), format!("{amount} is not a quantity")))?;
            let quantity: Quantity = text.parse().map_err(|error| (at(), format!("{error}")))?;
            if quantity.is_negative() {
                return Err((at(), format!("{text} is negative")));
            }
            Ok((name.as_str(), quantity))
        })
        .collect()
}

fn offering(offering: FileOffering) -> Result<Offering, Wrong> {
    let capacity_type = CapacityType::parse(&offering.capacity_type).ok_or_else(|| {
        let problem = format!("{:?} is unknown: use spot, on-demand or reserved", offering.capacity_type);
        ("capacityType".to_owned(), problem)
    })?;
    let price =
        MicroDollars::from_f64(offering.price).filter(|price| *price >= MicroDollars::ZERO).ok_or_else(
            || ("price".to_owned(), format!("{} is not a price in dollars per hour", offering.price)),
        )?;
    let reservation = match capacity_type {
        CapacityType::Reserved if offering.reservation_id.is_empty() => {
            return Err(("reservationId".to_owned(), "is missing on a reserved offering".to_owned()));
        }
        CapacityType::Reserved => Some(Reservation {
            id: Arc::from(offering.reservation_id),
            capacity: offering.reservation_capacity,
            kind: Arc::from("default"),
            interruptible: false,
        }),
        CapacityType::Spot | CapacityType::OnDemand => None,
    };
    Ok(Offering {
        zone: Arc::from(offering.zone),
        zone_id: Some(offering.zone_id).filter(|id| !id.is_empty()).map(Arc::from),
        capacity_type,
        price,
        available: offering.available,
        reservation,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    })
}

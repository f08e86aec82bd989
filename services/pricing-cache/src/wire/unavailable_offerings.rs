//! Marks, capacity types and times.

use cloud::unavailable::{Scope, Unavailable};
use jiff::Timestamp;
use model::catalog::CapacityType;
use proto::pricingcache::v1 as pb;
use proto::types::v1 as types;

pub(crate) fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

pub(crate) fn capacity_type(capacity_type: CapacityType) -> types::CapacityType {
    match capacity_type {
        CapacityType::OnDemand => types::CapacityType::OnDemand,
        CapacityType::Spot => types::CapacityType::Spot,
        CapacityType::Reserved => types::CapacityType::Reserved,
    }
}

/// `None` where none is named.
pub(crate) fn from_capacity_type(capacity_type: types::CapacityType) -> Option<CapacityType> {
    match capacity_type {
        types::CapacityType::Unspecified => None,
        types::CapacityType::OnDemand => Some(CapacityType::OnDemand),
        types::CapacityType::Spot => Some(CapacityType::Spot),
        types::CapacityType::Reserved => Some(CapacityType::Reserved),
    }
}

pub(crate) fn unavailable(mark: &Unavailable) -> pb::Unavailable {
    let Scope { instance_type, zone, capacity_type: kind, subnet_id, reservation_id, placement_group_id } =
        mark.scope.clone();
    pb::Unavailable {
        key: mark.scope.key(),
        instance_type: instance_type.unwrap_or_default(),
        zone: zone.unwrap_or_default(),
        capacity_type: kind.map_or(types::CapacityType::Unspecified, capacity_type).into(),
        subnet_id: subnet_id.unwrap_or_default(),
        reservation_id: reservation_id.unwrap_or_default(),
        placement_group_id: placement_group_id.unwrap_or_default(),
        since: Some(timestamp(mark.since)),
        until: Some(timestamp(mark.until)),
        reason: mark.reason.clone(),
        repeats: mark.repeats,
    }
}

/// What a reported mark covers.
pub(crate) fn scope(reported: &pb::Unavailable) -> Result<Scope, &'static str> {
    let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let kind = types::CapacityType::try_from(reported.capacity_type)
        .map_err(|_| "capacity_type is none that this version knows")?;
    let scope = Scope {
        instance_type: named(&reported.instance_type),
        zone: named(&reported.zone),
        capacity_type: from_capacity_type(kind),
        subnet_id: named(&reported.subnet_id),
        reservation_id: named(&reported.reservation_id),
        placement_group_id: named(&reported.placement_group_id),
    };
    let unlimited = Scope { placement_group_id: None, ..scope.clone() };
    if unlimited.is_everything() {
        return Err(
            "names nothing: give an instance type, a zone, a capacity type, a subnet or a reservation",
        );
    }
    Ok(scope)
}

//! Types, zones, reservations, overlays, memory.

use cloud::catalog::Entry;
use cloud::facts::{Accelerator, Zone};
use cloud::reservation::{Reservation, ReservationState};
use model::requirement::{Entry as RequirementEntry, Operator};
use proto::pricingcache::v1 as pb;
use proto::types::v1 as types;

use super::timestamp;
use crate::overlays::Overlay;

pub(super) fn zone(zone: &Zone) -> pb::Zone {
    pb::Zone {
        name: zone.name.clone(),
        id: zone.id.clone(),
        shifted: zone.shifted,
        r#type: zone.kind.clone(),
    }
}

pub(crate) fn facts(entry: &Entry) -> pb::InstanceTypeFacts {
    let facts = entry.facts.as_ref();
    let devices = |list: &[Accelerator]| list.iter().map(accelerator).collect();
    pb::InstanceTypeFacts {
        name: facts.name.clone(),
        architectures: facts.architectures.clone(),
        vcpus: facts.vcpus,
        memory_mib: facts.memory_mib,
        hypervisor: facts.hypervisor.clone(),
        bare_metal: facts.bare_metal,
        usage_classes: facts.usage_classes.clone(),
        cpu_manufacturer: facts.cpu_manufacturer.clone(),
        clock_mhz: facts.clock_mhz,
        cpu_features: facts.cpu_features.clone(),
        max_network_interfaces: facts.max_network_interfaces,
        ipv4_per_interface: facts.ipv4_per_interface,
        card_interfaces: facts.card_interfaces.clone(),
        max_efa_interfaces: facts.max_efa_interfaces,
        ena: facts.ena,
        encryption_in_transit: facts.encryption_in_transit,
        network_mbps: facts.network_mbps,
        ebs_mbps: facts.ebs_mbps,
        ebs_attachments: facts.ebs_attachments,
        ebs_attachments_shared: facts.ebs_attachments_shared,
        instance_store_gb: facts.instance_store_gb,
        nvme: facts.nvme,
        gpus: devices(&facts.gpus),
        neuron: devices(&facts.neuron),
        inference: devices(&facts.inference),
        placement_strategies: facts.placement_strategies.clone(),
        branch_interfaces: facts.branch_interfaces,
        zones: entry.zones.clone(),
        default_card: facts.default_card,
    }
}

fn accelerator(device: &Accelerator) -> pb::Accelerator {
    pb::Accelerator {
        name: device.name.clone(),
        manufacturer: device.manufacturer.clone(),
        count: device.count,
        memory_mib: device.memory_mib,
        cores: device.cores,
    }
}

pub(super) fn reservation((held, state): &(Reservation, ReservationState)) -> pb::CapacityReservation {
    pb::CapacityReservation {
        id: held.id.clone(),
        instance_type: held.instance_type.clone(),
        zone: held.zone.clone(),
        owner_id: held.owner_id.clone(),
        match_criteria: held.match_criteria.as_str().to_owned(),
        r#type: held.kind.as_str().to_owned(),
        available: held.available,
        total: held.total,
        end: held.end.map(timestamp),
        interruptible: held.interruptible,
        tags: held.tags.clone().into_iter().collect(),
        state: state.as_str().to_owned(),
    }
}

pub(super) fn overlay(overlay: &Overlay) -> pb::Overlay {
    let capacity = overlay.capacity.clone().into_iter().collect();
    pb::Overlay {
        name: overlay.name.clone(),
        weight: overlay.weight,
        requirements: overlay.requirements.iter().map(requirement).collect(),
        price: overlay.price.clone().unwrap_or_default(),
        price_adjustment: overlay.price_adjustment.clone().unwrap_or_default(),
        capacity: Some(types::Resources { quantities: capacity }),
    }
}

pub(super) fn learned(((instance_type, ami_hash), bytes): (&(String, String), &u64)) -> pb::LearnedMemory {
    pb::LearnedMemory { instance_type: instance_type.clone(), ami_hash: ami_hash.clone(), bytes: *bytes }
}

fn requirement(entry: &RequirementEntry) -> types::Requirement {
    let operator = match entry.operator {
        Operator::In => types::Operator::In,
        Operator::NotIn => types::Operator::NotIn,
        Operator::Exists => types::Operator::Exists,
        Operator::DoesNotExist => types::Operator::DoesNotExist,
        Operator::Gt => types::Operator::Gt,
        Operator::Lt => types::Operator::Lt,
        Operator::Gte => types::Operator::Gte,
        Operator::Lte => types::Operator::Lte,
    };
    types::Requirement {
        key: entry.key.clone(),
        operator: operator.into(),
        values: entry.values.clone(),
        min_values: entry.min_values.unwrap_or(0),
    }
}

/// A requirement of a caller; an operator that is missing or unknown is refused.
pub(crate) fn requirement_entry(given: &types::Requirement) -> Result<RequirementEntry, &'static str> {
    let operator = match types::Operator::try_from(given.operator) {
        Ok(types::Operator::In) => Operator::In,
        Ok(types::Operator::NotIn) => Operator::NotIn,
        Ok(types::Operator::Exists) => Operator::Exists,
        Ok(types::Operator::DoesNotExist) => Operator::DoesNotExist,
        Ok(types::Operator::Gt) => Operator::Gt,
        Ok(types::Operator::Lt) => Operator::Lt,
        Ok(types::Operator::Gte) => Operator::Gte,
        Ok(types::Operator::Lte) => Operator::Lte,
        Ok(types::Operator::Unspecified) | Err(_) => return Err("operator: give one, such as OPERATOR_IN"),
    };
    let min_values = (given.min_values > 0).then_some(given.min_values);
    Ok(RequirementEntry { key: given.key.clone(), operator, values: given.values.clone(), min_values })
}

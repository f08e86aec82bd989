//! The catalogue as pricing-cache streams it: a snapshot, then changes. Pure: applying an update gives the next version, or
//! says that the stream must start anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::catalog::Entry;
use cloud::facts::{Accelerator, TypeFacts, Zone};
use cloud::reservation::{MatchCriteria, Reservation, ReservationKind};
use cloud::unavailable::{Scope, Unavailable};
use jiff::Timestamp;
use model::catalog::CapacityType;
use model::price::MicroDollars;
use proto::pricingcache::v1 as pb;
use proto::pricingcache::v1::catalog_update::Update;
use proto::types::v1 as types;

/// One version of the catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) epoch: String,
    pub(crate) version: u64,
    pub(crate) region: String,
    pub(crate) zones: Vec<Zone>,
    /// By name.
    pub(crate) entries: Vec<Entry>,
    /// By key.
    pub(crate) marks: BTreeMap<String, Unavailable>,
    pub(crate) reservations: Vec<Reservation>,
    /// Most important first.
    pub(crate) overlays: Vec<pb::Overlay>,
    /// Bytes, by hash of the images and type.
    pub(crate) learned: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The update does not follow from what is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutOfStep {
    #[error("the first update of a stream was a change, not a snapshot")]
    NoSnapshot,
    #[error("the update skips versions or belongs to another epoch")]
    Gap,
    #[error("the update is empty")]
    Empty,
}

impl Facts {
    pub(crate) fn apply(&mut self, update: pb::CatalogUpdate) -> Result<(), OutOfStep> {
        match update.update.ok_or(OutOfStep::Empty)? {
            Update::Snapshot(snapshot) => *self = Self::of(snapshot),
            Update::Delta(delta) => {
                if self.epoch.is_empty() {
                    return Err(OutOfStep::NoSnapshot);
                }
                if self.epoch != update.epoch || update.version <= self.version {
                    return Err(OutOfStep::Gap);
                }
                self.change(delta);
            }
        }
        (self.epoch, self.version) = (update.epoch, update.version);
        Ok(())
    }

    fn of(snapshot: pb::CatalogSnapshot) -> Self {
        let zones: Vec<Zone> = snapshot.zones.into_iter().map(zone).collect();
        let mut entries: Vec<Entry> =
            snapshot.instance_types.into_iter().map(|f| entry(f, zones.len())).collect();
        for (entry, price) in entries.iter_mut().zip(snapshot.on_demand_micro_usd) {
            entry.on_demand = known(price);
        }
        for of_zone in snapshot.spot {
            let index = of_zone.zone as usize;
            for (entry, price) in entries.iter_mut().zip(of_zone.micro_usd).filter(|_| index < zones.len()) {
                entry.spot[index] = known(price);
            }
        }
        entries.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        let mut facts =
            Self { region: snapshot.region, zones, entries, overlays: snapshot.overlays, ..Self::default() };
        facts.mark(snapshot.unavailable);
        facts.reservations = snapshot.reservations.into_iter().filter_map(reservation).collect();
        facts.learn(snapshot.learned_memory);
        facts
    }

    fn change(&mut self, delta: pb::CatalogDelta) {
        if delta.zones_changed {
            self.move_to_zones(delta.zones.into_iter().map(zone).collect());
        }
        self.entries.retain(|e| !delta.removed_types.contains(&e.facts.name));
        for facts in delta.changed_types {
            let mut new = entry(facts, self.zones.len());
            match self.position(&new.facts.name) {
                Ok(at) => {
                    new.on_demand = self.entries[at].on_demand;
                    new.spot = std::mem::take(&mut self.entries[at].spot);
                    self.entries[at] = new;
                }
                Err(at) => self.entries.insert(at, new),
            }
        }
        for price in delta.on_demand {
            if let Ok(at) = self.position(&price.instance_type) {
                self.entries[at].on_demand = known(price.micro_usd);
            }
        }
        for price in delta.spot {
            let zone = self.zones.iter().position(|z| z.name == price.zone);
            if let (Ok(at), Some(zone)) = (self.position(&price.instance_type), zone) {
                self.entries[at].spot[zone] = known(price.micro_usd);
            }
        }
        for key in &delta.available_again {
            self.marks.remove(key);
        }
        self.mark(delta.unavailable);
        if delta.reservations_changed {
            self.reservations = delta.reservations.into_iter().filter_map(reservation).collect();
        }
        if delta.overlays_changed {
            self.overlays = delta.overlays;
        }
        self.learn(delta.learned_memory);
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|e| e.facts.name.as_str().cmp(name))
    }

    /// Entries refer to zones by index: those follow their zones to the new list.
    fn move_to_zones(&mut self, zones: Vec<Zone>) {
        let moved: Vec<Option<usize>> =
            self.zones.iter().map(|old| zones.iter().position(|new| new.name == old.name)).collect();
        for entry in &mut self.entries {
            let mut spot = vec![None; zones.len()];
            for (old, price) in entry.spot.iter().enumerate() {
                if let Some(new) = moved.get(old).copied().flatten() {
                    spot[new] = *price;
                }
            }
            entry.spot = spot;
            let new =
                |old: &u32| moved.get(*old as usize).copied().flatten().and_then(|n| u32::try_from(n).ok());
            entry.zones = entry.zones.iter().filter_map(new).collect();
            entry.zones.sort_unstable();
        }
        self.zones = zones;
    }

    fn mark(&mut self, marks: Vec<pb::Unavailable>) {
        for mark in marks {
            let until = mark.until.as_ref().and_then(timestamp).unwrap_or(Timestamp::MAX);
            let since = mark.since.as_ref().and_then(timestamp).unwrap_or(Timestamp::UNIX_EPOCH);
            let scope = scope(&mark);
            let key = if mark.key.is_empty() { scope.key() } else { mark.key };
            let value = Unavailable { scope, since, until, reason: mark.reason, repeats: mark.repeats };
            self.marks.insert(key, value);
        }
    }

    fn learn(&mut self, learned: Vec<pb::LearnedMemory>) {
        for memory in learned {
            self.learned.entry(memory.ami_hash).or_default().insert(memory.instance_type, memory.bytes);
        }
    }
}

/// 0 stands for "not known".
fn known(micro_usd: i64) -> Option<MicroDollars> {
    (micro_usd > 0).then(|| MicroDollars::new(micro_usd))
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

pub(crate) fn timestamp(time: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}

fn capacity_type(wire: i32) -> Option<CapacityType> {
    match types::CapacityType::try_from(wire).ok()? {
        types::CapacityType::OnDemand => Some(CapacityType::OnDemand),
        types::CapacityType::Spot => Some(CapacityType::Spot),
        types::CapacityType::Reserved => Some(CapacityType::Reserved),
        types::CapacityType::Unspecified => None,
    }
}

fn scope(mark: &pb::Unavailable) -> Scope {
    Scope {
        instance_type: text(&mark.instance_type),
        zone: text(&mark.zone),
        capacity_type: capacity_type(mark.capacity_type),
        subnet_id: text(&mark.subnet_id),
        reservation_id: text(&mark.reservation_id),
        placement_group_id: text(&mark.placement_group_id),
    }
}

/// A mark as it is reported; the cache fills in key and times.
pub(crate) fn reported(scope: &Scope, reason: &str) -> pb::Unavailable {
    let capacity_type = match scope.capacity_type {
        Some(CapacityType::OnDemand) => types::CapacityType::OnDemand,
        Some(CapacityType::Spot) => types::CapacityType::Spot,
        Some(CapacityType::Reserved) => types::CapacityType::Reserved,
        None => types::CapacityType::Unspecified,
    };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    pb::Unavailable {
        instance_type: text(&scope.instance_type),
        zone: text(&scope.zone),
        capacity_type: capacity_type.into(),
        subnet_id: text(&scope.subnet_id),
        reservation_id: text(&scope.reservation_id),
        placement_group_id: text(&scope.placement_group_id),
        reason: reason.to_owned(),
        ..pb::Unavailable::default()
    }
}

fn zone(zone: pb::Zone) -> Zone {
    Zone { name: zone.name, id: zone.id, kind: zone.r#type, shifted: zone.shifted }
}

fn entry(facts: pb::InstanceTypeFacts, zones: usize) -> Entry {
    let mut offered: Vec<u32> = facts.zones.iter().copied().filter(|z| (*z as usize) < zones).collect();
    offered.sort_unstable();
    let device = |a: pb::Accelerator| Accelerator {
        name: a.name,
        manufacturer: a.manufacturer,
        count: a.count,
        memory_mib: a.memory_mib,
        cores: a.cores,
    };
    let facts = TypeFacts {
        name: facts.name,
        architectures: facts.architectures,
        vcpus: facts.vcpus,
        memory_mib: facts.memory_mib,
        hypervisor: facts.hypervisor,
        bare_metal: facts.bare_metal,
        usage_classes: facts.usage_classes,
        cpu_manufacturer: facts.cpu_manufacturer,
        clock_mhz: facts.clock_mhz,
        cpu_features: facts.cpu_features,
        max_network_interfaces: facts.max_network_interfaces,
        ipv4_per_interface: facts.ipv4_per_interface,
        card_interfaces: facts.card_interfaces,
        default_card: facts.default_card,
        max_efa_interfaces: facts.max_efa_interfaces,
        ena: facts.ena,
        encryption_in_transit: facts.encryption_in_transit,
        network_mbps: facts.network_mbps,
        ebs_mbps: facts.ebs_mbps,
        ebs_attachments: facts.ebs_attachments,
        ebs_attachments_shared: facts.ebs_attachments_shared,
        instance_store_gb: facts.instance_store_gb,
        nvme: facts.nvme,
        gpus: facts.gpus.into_iter().map(device).collect(),
        neuron: facts.neuron.into_iter().map(device).collect(),
        inference: facts.inference.into_iter().map(device).collect(),
        placement_strategies: facts.placement_strategies,
        branch_interfaces: facts.branch_interfaces,
    };
    Entry { facts: Arc::new(facts), zones: offered, on_demand: None, spot: vec![None; zones] }
}

/// A reservation of a kind that this release does not know is left out: nothing could be launched into it.
fn reservation(wire: pb::CapacityReservation) -> Option<Reservation> {
    Some(Reservation {
        match_criteria: MatchCriteria::parse(&wire.match_criteria)?,
        kind: ReservationKind::parse(&wire.r#type)?,
        end: wire.end.as_ref().and_then(timestamp),
        id: wire.id,
        instance_type: wire.instance_type,
        zone: wire.zone,
        owner_id: wire.owner_id,
        available: wire.available,
        total: wire.total,
        interruptible: wire.interruptible,
        tags: wire.tags.into_iter().collect(),
    })
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;

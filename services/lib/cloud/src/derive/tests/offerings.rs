use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::catalog::CapacityType;
use model::labels;
use model::price::MicroDollars;

use super::super::*;
use super::facts;
use crate::facts::Zone;
use crate::reservation::{MatchCriteria, Reservation, ReservationKind};
use crate::unavailable::{Marks, Scope};

fn zone(name: &str, id: &str, shifted: bool) -> Zone {
    Zone { name: name.into(), id: id.into(), kind: "availability-zone".into(), shifted }
}

struct World {
    zones: Vec<Zone>,
    marks: Marks,
    overlays: BTreeMap<String, MicroDollars>,
    learned: BTreeMap<String, u64>,
}

impl World {
    fn new() -> Self {
        Self {
            zones: vec![
                zone("us-east-1a", "use1-az1", false),
                zone("us-east-1b", "use1-az2", false),
                zone("us-east-1c", "use1-az3", true),
                zone("us-east-1d", "use1-az4", false),
            ],
            marks: Marks::default(),
            overlays: BTreeMap::new(),
            learned: BTreeMap::new(),
        }
    }

    fn derive(&self, entry: &Entry, class: &NodeClass) -> InstanceType {
        let region = Region {
            name: "us-east-1",
            zones: &self.zones,
            marks: &self.marks,
            overlay_prices: &self.overlays,
            learned_memory: &self.learned,
            now: Timestamp::UNIX_EPOCH,
        };
        instance_type(entry, class, &ClassZones::of(class), &region, &Settings::default())
    }
}

/// m5.large sold in a, b and c at 0.096; spot at 0.04 in a and b only.
fn entry() -> Entry {
    let spot = MicroDollars::new(40_000);
    Entry {
        facts: Arc::new(facts("m5.large")),
        zones: vec![0, 1, 2],
        on_demand: Some(MicroDollars::new(96_000)),
        spot: vec![Some(spot), Some(spot)],
    }
}

fn subnet(id: &str, zone: &str) -> SubnetZone {
    SubnetZone { id: id.into(), zone: zone.into(), zone_id: Some(format!("id-of-{zone}")) }
}

fn class_with_subnets() -> NodeClass {
    let subnets = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];
    let subnets = subnets.iter().map(|z| subnet(&format!("subnet-{z}"), z)).collect();
    NodeClass { subnets, ..NodeClass::new(Family::Al2023) }
}

fn open(derived: &InstanceType) -> Vec<String> {
    let offerings = derived.offerings.iter().filter(|o| o.is_open());
    offerings.map(|o| format!("{} {} {}", o.capacity_type, o.zone, o.price)).collect()
}

#[test]
fn offerings_are_the_zones_of_type_and_class_that_have_a_price_and_no_shift() {
    let derived = World::new().derive(&entry(), &class_with_subnets());
    assert_eq!(
        open(&derived),
        [
            "on-demand us-east-1a 0.096",
            "spot us-east-1a 0.04",
            "on-demand us-east-1b 0.096",
            "spot us-east-1b 0.04"
        ]
    );
    let shifted: Vec<_> = derived.offerings.iter().filter(|o| &*o.zone == "us-east-1c").collect();
    assert!(!shifted.is_empty() && shifted.iter().all(|o| !o.available), "known, and not available");
    let zones = derived.requirements.get(labels::ZONE).map(|r| r.values().clone());
    assert_eq!(zones.unwrap().into_iter().collect::<Vec<_>>(), ["us-east-1a", "us-east-1b"]);
    let ids = derived.requirements.get(labels::ZONE_ID).map(|r| r.values().len());
    assert_eq!(ids, Some(2));

    let one_zone = NodeClass { subnets: vec![subnet("s", "us-east-1b")], ..class_with_subnets() };
    assert_eq!(open(&World::new().derive(&entry(), &one_zone)).len(), 2);
}

#[test]
fn marks_take_away_exactly_the_offerings_they_cover() {
    let mut world = World::new();
    let check = |world: &World, gone: usize| {
        assert_eq!(open(&world.derive(&entry(), &class_with_subnets())).len(), 4 - gone);
    };
    check(&world, 0);
    for (scope, gone) in [
        (Scope::offering(CapacityType::Spot, "m5.large", "us-east-1a"), 1),
        (Scope::capacity_type(CapacityType::Spot), 2),
        (Scope::zone(CapacityType::OnDemand, "us-east-1b"), 1),
        (Scope::subnet("subnet-us-east-1a"), 2),
        (Scope::offering(CapacityType::Spot, "c5.large", "us-east-1a"), 0),
    ] {
        world.marks = [scope].into_iter().collect();
        check(&world, gone);
    }
}

#[test]
fn a_type_without_public_price_is_offered_only_through_an_overlay() {
    let entry = Entry { on_demand: None, spot: vec![], ..entry() };
    let mut world = World::new();
    assert_eq!(open(&world.derive(&entry, &class_with_subnets())), [""; 0]);
    world.overlays.insert("m5.large".into(), MicroDollars::new(70_000));
    assert!(open(&world.derive(&entry, &class_with_subnets())).contains(&"spot us-east-1a 0.07".to_owned()));
}

fn reservation(id: &str, zone: &str, available: u32) -> Reservation {
    Reservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: zone.into(),
        owner_id: "1".into(),
        match_criteria: MatchCriteria::Targeted,
        kind: ReservationKind::Default,
        available,
        total: 5,
        end: None,
        interruptible: false,
        tags: crate::Tags::new(),
    }
}

#[test]
fn reservations_are_offered_nearly_free_while_they_have_room_and_time() {
    let ends_in = |minutes| Some(Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes));
    let block = |id: &str, minutes| Reservation {
        kind: ReservationKind::CapacityBlock,
        end: ends_in(minutes),
        ..reservation(id, "us-east-1a", 1)
    };
    let reservations = vec![
        reservation("cr-good", "us-east-1a", 3),
        reservation("cr-used-up", "us-east-1a", 0),
        reservation("cr-shifted", "us-east-1c", 3),
        block("cr-block", 41),
        block("cr-ending", 40),
        Reservation { end: ends_in(0), ..reservation("cr-over", "us-east-1a", 3) },
        Reservation { instance_type: "c5.large".into(), ..reservation("cr-other", "us-east-1a", 3) },
        Reservation { interruptible: true, ..reservation("cr-interruptible", "us-east-1b", 1) },
    ];
    let class = NodeClass { reservations, ..class_with_subnets() };
    let mut world = World::new();
    let reserved = |world: &World| {
        let derived = world.derive(&entry(), &class);
        let open = derived.offerings.iter().filter(|o| o.is_open());
        let ids: Vec<String> =
            open.filter_map(|o| o.reservation.as_ref()).map(|r| r.id.to_string()).collect();
        (ids, derived)
    };
    let (ids, derived) = reserved(&world);
    assert_eq!(ids, ["cr-good", "cr-block", "cr-interruptible"]);
    let price = derived.offerings.iter().find(|o| o.reservation.is_some()).map(|o| o.price);
    assert_eq!(price, Some(MicroDollars::new(1)));
    let values = |key: &str| derived.requirements.get(key).map(|r| r.values().len());
    assert_eq!(values(labels::CAPACITY_RESERVATION_ID), Some(3));
    assert_eq!(values(labels::CAPACITY_RESERVATION_TYPE), Some(2));
    assert_eq!(values(labels::CAPACITY_RESERVATION_INTERRUPTIBLE), Some(2));

    world.marks =
        [Scope::reservation("cr-good"), Scope::zone(CapacityType::Spot, "us-east-1a")].into_iter().collect();
    assert_eq!(reserved(&world).0, ["cr-block", "cr-interruptible"]);
}

#[test]
fn an_incompatible_type_keeps_its_offerings_but_none_is_available() {
    let class = NodeClass { nested_virtualization: true, ..class_with_subnets() };
    let derived = World::new().derive(&entry(), &class);
    assert!(!derived.offerings.is_empty());
    assert_eq!(open(&derived), [""; 0]);
}

#[test]
fn equal_inputs_derive_equal_types() {
    for family in Family::ALL {
        let class = NodeClass { subnets: vec![subnet("s", "us-east-1a")], ..NodeClass::new(family) };
        for facts in crate::memory::types() {
            let entry = Entry { facts: Arc::new(facts), ..entry() };
            let world = World::new();
            assert_eq!(world.derive(&entry, &class), world.derive(&entry, &class));
        }
    }
}

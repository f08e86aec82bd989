use std::collections::BTreeSet;

use model::catalog::{CapacityType, InstanceType};
use model::labels;
use model::quantity::Quantity;
use model::resources::{CPU, MEMORY, NVIDIA_GPU, PODS, Resources};
use serde_json::json;

use super::fixture::{ZONES, buying, claim, kind, offering, reserved, sold_both_ways, with_capacity};
use crate::launch::candidates::{Candidate, MOST_TYPES, NoCandidates, Terms, candidates, capacity_type};
use crate::launch::claim_request::ClaimRequest;

fn wanted(requirements: serde_json::Value) -> ClaimRequest {
    ClaimRequest::of(&claim(requirements)).unwrap()
}

fn names(left: &[Candidate<'_>]) -> Vec<String> {
    left.iter().map(|c| c.kind.name.to_string()).collect()
}

fn choose<'a>(types: &'a [InstanceType], wanted: &ClaimRequest) -> Vec<Candidate<'a>> {
    candidates(types, wanted, &Terms::default()).unwrap()
}

#[test]
fn types_that_lack_room_or_an_allowed_offering_are_out_and_the_cheapest_comes_first() {
    let types = [
        kind("big.large", 8, sold_both_ways(400)),
        kind("mid.large", 4, sold_both_ways(200)),
        kind("tiny.large", 0, sold_both_ways(10)),
        kind("far.large", 4, vec![offering(CapacityType::Spot, "us-west-2c", 1)]),
    ];
    let mut requirements = buying(&["spot"]);
    requirements
        .as_array_mut()
        .unwrap()
        .push(json!({"key": labels::ZONE, "operator": "In", "values": ZONES}));
    let left = choose(&types, &wanted(requirements));
    assert_eq!(names(&left), ["mid.large", "big.large"]);
    assert!(left.iter().all(|c| c.offerings.iter().all(|o| o.capacity_type == CapacityType::Spot)));
}

#[test]
fn a_label_that_a_type_does_not_have_rules_it_out_and_the_pools_own_labels_do_not() {
    let types = [kind("a.large", 4, sold_both_ways(100))];
    let gpu = json!([{"key": labels::INSTANCE_GPU_COUNT, "operator": "Exists"}]);
    assert_eq!(
        candidates(&types, &wanted(gpu), &Terms::default()).unwrap_err(),
        NoCandidates::NothingAvailable
    );
    let own = json!([
        {"key": "example.com/team", "operator": "In", "values": ["a"]},
        {"key": labels::NODEPOOL, "operator": "In", "values": ["default"]},
    ]);
    assert_eq!(choose(&types, &wanted(own)).len(), 1);
}

#[test]
fn reserved_goes_before_spot_before_on_demand() {
    let mut all = sold_both_ways(90);
    let types = [kind("a.large", 4, all.clone())];
    assert_eq!(
        capacity_type(&choose(&types, &wanted(buying(&["spot", "on-demand", "reserved"])))),
        CapacityType::Spot
    );
    assert_eq!(capacity_type(&choose(&types, &wanted(buying(&["on-demand"])))), CapacityType::OnDemand);
    all.push(reserved("cr-1", "default", ZONES[0], 1));
    let types = [kind("a.large", 4, all)];
    let left = choose(&types, &wanted(buying(&["spot", "on-demand", "reserved"])));
    assert_eq!(capacity_type(&left), CapacityType::Reserved);
    assert_eq!(left[0].offerings.len(), 1, "only the reservation stays in the running");
}

#[test]
fn of_reservations_one_kind_is_used_and_in_each_zone_the_roomiest() {
    let mut soft = reserved("cr-soft", "default", ZONES[1], 9);
    soft.reservation.as_mut().unwrap().interruptible = true;
    let types = [kind(
        "a.large",
        4,
        vec![
            reserved("cr-small", "default", ZONES[0], 1),
            reserved("cr-large", "default", ZONES[0], 5),
            reserved("cr-block", "capacity-block", ZONES[0], 9),
            soft,
        ],
    )];
    let any = wanted(buying(&["reserved"]));
    let ids = |left: &[Candidate<'_>]| -> Vec<String> {
        left.iter()
            .flat_map(|c| &c.offerings)
            .map(|o| o.reservation.as_ref().unwrap().id.to_string())
            .collect()
    };
    assert_eq!(ids(&choose(&types, &any)), ["cr-large"]);
    let mut soft = buying(&["reserved"]);
    let key = labels::CAPACITY_RESERVATION_INTERRUPTIBLE;
    soft.as_array_mut().unwrap().push(json!({"key": key, "operator": "In", "values": ["true"]}));
    assert_eq!(ids(&choose(&types, &wanted(soft))), ["cr-soft"]);
}

#[test]
fn of_equally_reserved_types_the_cheaper_on_demand_comes_first() {
    let with_reservation = |micro: i64, id: &str| {
        let mut offerings = sold_both_ways(micro);
        offerings.push(reserved(id, "default", ZONES[0], 1));
        offerings
    };
    let types = [
        kind("a.24xlarge", 96, with_reservation(4_608_000, "cr-large")),
        kind("b.large", 4, with_reservation(96_000, "cr-small")),
    ];
    assert_eq!(names(&choose(&types, &wanted(buying(&["reserved"])))), ["b.large", "a.24xlarge"]);
}

#[test]
fn ec2_is_asked_for_one_capacity_block_at_a_time() {
    let block = |id: &str, zone: &str| reserved(id, "capacity-block", zone, 3);
    let types = [
        kind("b.large", 4, vec![block("cr-3", ZONES[0])]),
        kind("a.large", 4, vec![block("cr-2", ZONES[1]), block("cr-1", ZONES[0])]),
    ];
    let left = choose(&types, &wanted(buying(&["reserved"])));
    assert_eq!(names(&left), ["a.large"]);
    assert_eq!(&*left[0].offerings[0].reservation.as_ref().unwrap().id, "cr-1");
    assert_eq!(left[0].offerings.len(), 1);
}

#[test]
fn metal_and_accelerators_are_used_only_where_nothing_else_will_do() {
    let gpu = Resources::new()
        .with(CPU, Quantity::from_units(4))
        .with(MEMORY, Quantity::from_bytes(1 << 34))
        .with(PODS, Quantity::from_units(29))
        .with(NVIDIA_GPU, Quantity::from_units(1));
    let exotic = || {
        vec![with_capacity("g.large", gpu.clone(), sold_both_ways(3)), kind("a.metal", 96, sold_both_ways(6))]
    };
    let mut types = exotic();
    types.push(kind("a.large", 4, sold_both_ways(100)));
    assert_eq!(names(&choose(&types, &wanted(buying(&["spot"])))), ["a.large"]);
    assert_eq!(names(&choose(&exotic(), &wanted(buying(&["spot"])))), ["g.large", "a.metal"]);
    let mut flexible = buying(&["spot"]);
    let family = json!({"key": labels::INSTANCE_FAMILY, "operator": "Exists", "minValues": 1});
    flexible.as_array_mut().unwrap().push(family);
    assert_eq!(choose(&types, &wanted(flexible)).len(), 3, "minValues keep everything in the running");
}

#[test]
fn spot_dearer_than_the_cheapest_on_demand_is_not_worth_its_risk() {
    let types = [
        kind("a.large", 4, vec![offering(CapacityType::OnDemand, ZONES[0], 100)]),
        kind("b.large", 4, vec![offering(CapacityType::Spot, ZONES[0], 101)]),
        kind("c.large", 4, vec![offering(CapacityType::Spot, ZONES[0], 100)]),
    ];
    assert_eq!(names(&choose(&types, &wanted(buying(&["spot", "on-demand"])))), ["a.large", "c.large"]);
    assert_eq!(names(&choose(&types, &wanted(buying(&["spot"])))), ["c.large", "b.large"]);
}

#[test]
fn what_was_refused_or_given_up_is_not_asked_for_again() {
    let types = [kind("a.large", 4, sold_both_ways(90)), kind("b.large", 4, sold_both_ways(120))];
    let any = wanted(buying(&["spot", "on-demand"]));
    let refused =
        ZONES.iter().map(|zone| (CapacityType::Spot, "a.large".to_owned(), (*zone).to_owned())).collect();
    let terms = Terms { refused, ..Terms::default() };
    let left = candidates(&types, &any, &terms).unwrap();
    assert!(
        left[0].offerings.iter().chain(&left[1].offerings).any(|o| o.capacity_type == CapacityType::Spot)
    );
    let a = left.iter().find(|c| &*c.kind.name == "a.large").unwrap();
    assert!(a.offerings.iter().all(|o| o.capacity_type == CapacityType::OnDemand));
    let terms = Terms { given_up: BTreeSet::from([CapacityType::Spot]), ..Terms::default() };
    assert_eq!(capacity_type(&candidates(&types, &any, &terms).unwrap()), CapacityType::OnDemand);
}

#[test]
fn sixty_types_are_asked_for_and_too_few_values_among_them_forbid_a_strict_launch() {
    let types: Vec<InstanceType> =
        (0..80).map(|n| kind(&format!("f{}.x{n}", n / 70), 4, sold_both_ways(100 + n))).collect();
    let mut requirements = buying(&["spot"]);
    requirements
        .as_array_mut()
        .unwrap()
        .push(json!({"key": labels::INSTANCE_FAMILY, "operator": "Exists", "minValues": 2}));
    let wanted = wanted(requirements);
    let best_effort = candidates(&types, &wanted, &Terms::default()).unwrap();
    assert_eq!(best_effort.len(), MOST_TYPES);
    assert_eq!(&*best_effort[59].kind.name, "f0.x59");
    let strict = Terms { strict_min_values: true, ..Terms::default() };
    let error = candidates(&types, &wanted, &strict).unwrap_err();
    assert_eq!(
        error,
        NoCandidates::MinValues { key: labels::INSTANCE_FAMILY.to_owned(), wanted: 2, left: 60 }
    );
}

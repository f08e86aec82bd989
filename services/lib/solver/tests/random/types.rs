//! A handful of instance types.

use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, Offering, Reservation};
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::Resources;

use crate::fixture::{GIB, ZONES, resources};
use crate::scenario::random::Random;

pub(crate) fn catalogue(random: &mut Random) -> Vec<InstanceType> {
    (0..random.between(2, 7)).map(|n| instance_type(n, random)).collect()
}

fn instance_type(n: usize, random: &mut Random) -> InstanceType {
    let cpu = random.pick(&[1, 2, 4, 8]);
    let memory = cpu * random.pick(&[1, 2, 4]);
    let base = 25_000 * cpu + 3_000 * memory + 500 * random.below(20) as i64;
    let mut requirements = Requirements::new();
    requirements.add(Requirement::is("kubernetes.io/arch", if random.one_in(3) { "arm64" } else { "amd64" }));
    requirements.add(Requirement::is("kubernetes.io/os", "linux"));
    requirements.add(Requirement::is("size", if cpu > 2 { "large" } else { "small" }));
    requirements.add(Requirement::is("integer", cpu.to_string()));
    if random.one_in(3) {
        requirements.add(Requirement::is("special", "optional"));
    }
    let mut capacity: Resources = [
        ("cpu", Quantity::from_units(cpu)),
        ("memory", Quantity::from_bytes(memory * GIB)),
        ("pods", Quantity::from_units(random.pick(&[3, 8, 30]))),
    ]
    .into_iter()
    .collect();
    if random.one_in(4) {
        capacity.insert("fake.com/gpu", Quantity::from_units(random.pick(&[1, 2])));
    }
    if random.one_in(8) {
        capacity.insert("hugepages-2Mi", Quantity::from_bytes(GIB / 2));
    }
    let mut offerings = Vec::new();
    for zone in ZONES {
        for kind in [CapacityType::Spot, CapacityType::OnDemand] {
            if random.one_in(4) {
                continue;
            }
            let part = if kind == CapacityType::Spot { random.between(30, 80) as i64 } else { 100 };
            offerings.push(offering(zone, kind, base * part / 100, !random.one_in(6), random));
        }
    }
    if random.one_in(4) {
        let mut reserved = offering(random.pick(&ZONES), CapacityType::Reserved, base / 50, true, random);
        // Types may share a reservation.
        reserved.reservation = Some(Reservation {
            id: Arc::from(format!("cr-{}", random.below(2))),
            capacity: 1 + random.below(2) as u32,
            kind: Arc::from("default"),
            interruptible: false,
        });
        offerings.push(reserved);
    }
    let overhead = resources(&[("cpu", "100m"), ("memory", "200Mi")]);
    InstanceType::with_requirements(&format!("type-{n}"), requirements, capacity, overhead, offerings)
}

fn offering(
    zone: &str,
    capacity_type: CapacityType,
    price: i64,
    available: bool,
    random: &mut Random,
) -> Offering {
    let less = random.one_in(25);
    Offering {
        zone: Arc::from(zone),
        zone_id: None,
        capacity_type,
        price: MicroDollars::new(price),
        available,
        reservation: None,
        capacity_override: if less { resources(&[("memory", "768Mi")]) } else { Resources::new() },
        overhead_override: Resources::new(),
    }
}

//! Whatever changes, a client that applies the difference has what a client with a fresh snapshot has.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::catalog::Entry;
use cloud::facts::{TypeFacts, Zone};
use cloud::unavailable::{Scope, Unavailable};
use jiff::Timestamp;
use model::catalog::CapacityType;
use model::price::MicroDollars;
use proptest::prelude::*;
use proto::pricingcache::v1 as pb;
use proto::pricingcache::v1::catalog_update::Update;

use super::{Numbered, delta, framed_delta, framed_snapshot, unframed};
use crate::catalogue::{Catalogue, shared_with};
use crate::overlays::Overlay;

const ZONES: usize = 2;
const FIRST: Numbered<'_> = Numbered { epoch: "an epoch of the usual length", version: 1 };

/// What a client reads of the bytes that are sent.
fn snapshot(catalogue: &Catalogue) -> pb::CatalogSnapshot {
    let update = unframed(&framed_snapshot(FIRST, catalogue));
    assert_eq!((update.epoch.as_str(), update.version), (FIRST.epoch, FIRST.version));
    match update.update {
        Some(Update::Snapshot(snapshot)) => snapshot,
        other => panic!("{other:?}"),
    }
}

/// What a reader of the stream does, on the wire's own messages.
fn applied(mut whole: pb::CatalogSnapshot, change: pb::CatalogDelta) -> pb::CatalogSnapshot {
    struct Row {
        facts: pb::InstanceTypeFacts,
        on_demand: i64,
        spot: Vec<i64>,
    }
    let zone_names: Vec<String> = whole.zones.iter().map(|z| z.name.clone()).collect();
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for (at, facts) in whole.instance_types.drain(..).enumerate() {
        let spot = whole.spot.iter().map(|column| column.micro_usd[at]).collect();
        rows.insert(facts.name.clone(), Row { facts, on_demand: whole.on_demand_micro_usd[at], spot });
    }
    for name in &change.removed_types {
        rows.remove(name);
    }
    for facts in change.changed_types {
        let fresh = || Row { facts: facts.clone(), on_demand: 0, spot: vec![0; zone_names.len()] };
        rows.entry(facts.name.clone()).or_insert_with(fresh).facts = facts.clone();
    }
    for price in change.on_demand {
        rows.get_mut(&price.instance_type).unwrap().on_demand = price.micro_usd;
    }
    for price in change.spot {
        let zone = zone_names.iter().position(|name| *name == price.zone).unwrap();
        rows.get_mut(&price.instance_type).unwrap().spot[zone] = price.micro_usd;
    }
    whole.on_demand_micro_usd = rows.values().map(|row| row.on_demand).collect();
    for (zone, column) in whole.spot.iter_mut().enumerate() {
        column.micro_usd = rows.values().map(|row| row.spot[zone]).collect();
    }
    whole.instance_types = rows.into_values().map(|row| row.facts).collect();
    let mut marks: BTreeMap<String, pb::Unavailable> =
        whole.unavailable.drain(..).map(|mark| (mark.key.clone(), mark)).collect();
    marks.retain(|key, _| !change.available_again.contains(key));
    marks.extend(change.unavailable.into_iter().map(|mark| (mark.key.clone(), mark)));
    whole.unavailable = marks.into_values().collect();
    if change.zones_changed {
        whole.zones = change.zones;
    }
    if change.overlays_changed {
        whole.overlays = change.overlays;
    }
    if change.reservations_changed {
        whole.reservations = change.reservations;
    }
    let key = |memory: &pb::LearnedMemory| (memory.instance_type.clone(), memory.ami_hash.clone());
    let mut learned: BTreeMap<_, pb::LearnedMemory> =
        whole.learned_memory.drain(..).map(|memory| (key(&memory), memory)).collect();
    learned.extend(change.learned_memory.into_iter().map(|memory| (key(&memory), memory)));
    whole.learned_memory = learned.into_values().collect();
    whole
}

fn price() -> impl Strategy<Value = Option<MicroDollars>> {
    proptest::option::of((1_i64..4).prop_map(MicroDollars::new))
}

fn entry(name: String) -> impl Strategy<Value = Entry> {
    let zones = proptest::sample::subsequence(vec![0_u32, 1], 0..=ZONES);
    (1_u32..3, zones, price(), proptest::collection::vec(price(), ZONES)).prop_map(
        move |(vcpus, zones, on_demand, spot)| {
            let facts = TypeFacts { name: name.clone(), vcpus, ..TypeFacts::default() };
            Entry { facts: Arc::new(facts), zones, on_demand, spot }
        },
    )
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let all: Vec<_> = ["a", "b", "c", "d"].map(|name| proptest::option::of(entry(name.to_owned()))).into();
    all.prop_map(|maybe| maybe.into_iter().flatten().collect())
}

fn marks() -> impl Strategy<Value = BTreeMap<String, Unavailable>> {
    let mark = ("[ab]", 0_i64..3).prop_map(|(name, until)| {
        let at = |s| Timestamp::from_second(s).unwrap();
        let scope = Scope::offering(CapacityType::Spot, &name, "z0");
        let mark = Unavailable { scope, since: at(0), until: at(until), reason: "x".into(), repeats: 1 };
        (mark.scope.key(), mark)
    });
    proptest::collection::vec(mark, 0..3).prop_map(|marks| marks.into_iter().collect())
}

fn catalogue() -> impl Strategy<Value = Catalogue> {
    let learned = proptest::collection::btree_map("[ab]".prop_map(|t| (t, "h".to_owned())), 1_u64..3, 0..2);
    (entries(), marks(), any::<[bool; ZONES]>(), 0_i32..3, learned).prop_map(
        |(entries, marks, shifted, weight, learned)| {
            let zone = |(n, shifted)| Zone { name: format!("z{n}"), shifted, ..Zone::default() };
            let overlay = |weight| Overlay {
                name: "o".into(),
                weight,
                requirements: Vec::new(),
                price: None,
                price_adjustment: None,
                capacity: BTreeMap::new(),
            };
            Catalogue {
                region: Arc::from("us-west-2"),
                zones: Arc::new(shifted.into_iter().enumerate().map(zone).collect()),
                entries: Arc::new(shared_with(&[], entries)),
                marks: Arc::new(marks),
                reservations: Arc::default(),
                overlays: Arc::new((weight > 0).then(|| overlay(weight)).into_iter().collect()),
                learned: Arc::new(learned),
            }
        },
    )
}

proptest! {
    #[test]
    fn a_difference_applied_to_the_old_snapshot_gives_the_new_one(old in catalogue(), mut new in catalogue()) {
        let entries = new.entries.iter().map(|entry| (**entry).clone()).collect();
        new.entries = Arc::new(shared_with(&old.entries, entries));
        if old.is_comparable(&new) {
            prop_assert_eq!(applied(snapshot(&old), delta(&old, &new)), snapshot(&new));
        } else {
            prop_assert!(old.learned.keys().any(|key| !new.learned.contains_key(key)));
        }
        prop_assert_eq!(delta(&new, &new.clone()), pb::CatalogDelta::default());
    }
}

/// Types of EC2 in its largest region, by repeating real ones under names of their own.
fn large_region() -> Catalogue {
    let sample = cloud::memory::types();
    let zone = |n| Zone {
        name: format!("us-east-1{n}"),
        id: format!("use1-az{n}"),
        kind: "availability-zone".into(),
        shifted: false,
    };
    let zones: Vec<Zone> = (0..6).map(zone).collect();
    let entry = |(n, facts): (usize, &TypeFacts)| Entry {
        facts: Arc::new(TypeFacts { name: format!("{}-{n:04}", facts.name), ..facts.clone() }),
        zones: vec![0, 1, 2, 3, 4, 5],
        on_demand: Some(MicroDollars::new(1_234_567)),
        spot: vec![Some(MicroDollars::new(456_789)); zones.len()],
    };
    let mut entries: Vec<Entry> = sample.iter().cycle().take(1395).enumerate().map(entry).collect();
    entries.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
    Catalogue {
        region: Arc::from("us-east-1"),
        zones: Arc::new(zones),
        entries: Arc::new(shared_with(&[], entries)),
        marks: Arc::default(),
        reservations: Arc::default(),
        overlays: Arc::default(),
        learned: Arc::default(),
    }
}

#[test]
fn every_type_in_six_zones_fits_into_a_snapshot_of_two_megabytes_and_one_price_into_a_hundred_bytes() {
    let old = large_region();
    let whole = framed_snapshot(FIRST, &old).len();
    assert!((100_000..2_000_000).contains(&whole), "{whole} bytes");

    let mut entries: Vec<Entry> = old.entries.iter().map(|entry| (**entry).clone()).collect();
    entries[700].spot[3] = Some(MicroDollars::new(1));
    let new = Catalogue { entries: Arc::new(shared_with(&old.entries, entries)), ..old.clone() };
    let change = delta(&old, &new);
    assert_eq!(change.spot.len(), 1);
    let sent = framed_delta(FIRST, change).len();
    assert!(sent < 100, "{sent} bytes");
    println!("snapshot {whole} bytes, one price {sent} bytes");
}

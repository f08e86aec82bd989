use super::*;

fn facts(name: &str, zones: &[u32]) -> pb::InstanceTypeFacts {
    pb::InstanceTypeFacts { name: name.into(), zones: zones.to_vec(), ..pb::InstanceTypeFacts::default() }
}

fn zone(name: &str) -> pb::Zone {
    pb::Zone { name: name.into(), ..pb::Zone::default() }
}

fn update(version: u64, update: Update) -> pb::CatalogUpdate {
    pb::CatalogUpdate { epoch: "e".into(), version, update: Some(update) }
}

fn snapshot() -> pb::CatalogSnapshot {
    pb::CatalogSnapshot {
        region: "us-east-1".into(),
        zones: vec![zone("a"), zone("b")],
        instance_types: vec![facts("c5.large", &[0, 1]), facts("m5.large", &[1])],
        on_demand_micro_usd: vec![85_000, 0],
        spot: vec![pb::SpotPrices { zone: 1, micro_usd: vec![30_000, 40_000] }],
        unavailable: vec![pb::Unavailable {
            key: "k".into(),
            instance_type: "m5.large".into(),
            ..Default::default()
        }],
        ..pb::CatalogSnapshot::default()
    }
}

fn loaded() -> Facts {
    let mut facts = Facts::default();
    facts.apply(update(5, Update::Snapshot(snapshot()))).unwrap();
    facts
}

fn micro(price: Option<MicroDollars>) -> Option<i64> {
    price.map(MicroDollars::get)
}

#[test]
fn a_snapshot_gives_each_type_its_prices_and_zero_means_unknown() {
    let facts = loaded();
    let [c5, m5] = &facts.entries[..] else { panic!("two types") };
    assert_eq!((micro(c5.on_demand), micro(m5.on_demand)), (Some(85_000), None));
    assert_eq!((micro(c5.spot_price(0)), micro(c5.spot_price(1))), (None, Some(30_000)));
    assert_eq!(micro(m5.spot_price(1)), Some(40_000));
    assert!(m5.offered_in(1) && !m5.offered_in(0));
    assert_eq!(facts.marks["k"].scope.instance_type.as_deref(), Some("m5.large"));
}

#[test]
fn a_change_alters_only_what_it_names() {
    let mut facts = loaded();
    let delta = pb::CatalogDelta {
        changed_types: vec![facts_of("c5a.large")],
        removed_types: vec!["c5.large".into()],
        on_demand: vec![pb::OnDemandPrice { instance_type: "m5.large".into(), micro_usd: 96_000 }],
        spot: vec![pb::SpotPrice { instance_type: "c5a.large".into(), zone: "a".into(), micro_usd: 7 }],
        available_again: vec!["k".into()],
        ..pb::CatalogDelta::default()
    };
    facts.apply(update(6, Update::Delta(delta))).unwrap();
    let names: Vec<&str> = facts.entries.iter().map(|e| e.facts.name.as_str()).collect();
    assert_eq!(names, ["c5a.large", "m5.large"]);
    assert_eq!(micro(facts.entries[0].spot_price(0)), Some(7));
    assert_eq!(micro(facts.entries[1].on_demand), Some(96_000));
    assert_eq!(micro(facts.entries[1].spot_price(1)), Some(40_000), "kept");
    assert!(facts.marks.is_empty());
    assert_eq!(facts.version, 6);
}

fn facts_of(name: &str) -> pb::InstanceTypeFacts {
    facts(name, &[0])
}

#[test]
fn prices_follow_their_zones_when_the_list_of_zones_changes() {
    let mut facts = loaded();
    let delta = pb::CatalogDelta {
        zones: vec![zone("c"), zone("b"), zone("a")],
        zones_changed: true,
        ..pb::CatalogDelta::default()
    };
    facts.apply(update(6, Update::Delta(delta))).unwrap();
    assert_eq!(micro(facts.entries[0].spot_price(1)), Some(30_000));
    assert_eq!(facts.entries[0].zones, [1, 2]);
    assert_eq!(facts.entries[1].zones, [1]);
}

#[test]
fn an_update_that_does_not_follow_is_refused_and_changes_nothing() {
    let empty = || Update::Delta(pb::CatalogDelta::default());
    assert_eq!(Facts::default().apply(update(1, empty())), Err(OutOfStep::NoSnapshot));
    let mut facts = loaded();
    assert_eq!(facts.apply(update(5, empty())), Err(OutOfStep::Gap));
    let foreign = pb::CatalogUpdate { epoch: "other".into(), version: 9, update: Some(empty()) };
    assert_eq!(facts.apply(foreign), Err(OutOfStep::Gap));
    assert_eq!(facts.version, 5);
}

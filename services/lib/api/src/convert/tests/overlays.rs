use std::sync::Arc;

use model::catalog::{CapacityType, InstanceType, LabelMap, Offering, Overlaid};
use model::pool::NodePool as Pool;
use model::price::MicroDollars;
use model::resources::Resources;

use super::object;
use crate::convert::node_pool;
use crate::convert::overlay::{Overlay, apply, overlay};
use crate::nodepool::NodePool;

fn overlay_of(name: &str, spec: &str) -> Overlay {
    overlay(&object(&format!(
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: {name}}}\nspec: {{requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}}], {spec}}}"
    )))
    .unwrap()
}

fn pools() -> Vec<Pool> {
    let offering = |zone: &str, capacity_type, price| Offering {
        zone: Arc::from(zone),
        zone_id: None,
        capacity_type,
        price: MicroDollars::new(price),
        available: true,
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    };
    let kind = |name: &str| {
        let offerings =
            vec![offering("z1", CapacityType::Spot, 40_000), offering("z1", CapacityType::OnDemand, 100_000)];
        InstanceType::new(name, &LabelMap::new(), Resources::new(), Resources::new(), offerings)
    };
    let pool: NodePool = object(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: {spec: {nodeClassRef: {group: g, kind: k, name: n}, requirements: []}}}",
    );
    vec![node_pool(&pool, Arc::new(vec![kind("m5.large"), kind("c5.large")])).unwrap()]
}

fn prices(overlays: &[Overlay]) -> Vec<i64> {
    let applied = apply(pools(), overlays);
    applied.pools[0].instance_types[0].offerings.iter().map(|o| o.price.get()).collect()
}

// Cases: SCH-J-9, SCH-J-10, SCH-O-35, SCH-O-36, SCH-O-73
#[test]
fn prices_are_replaced_changed_or_scaled_and_never_negative() {
    assert_eq!(prices(&[overlay_of("a", "price: '0.01'")]), [10_000, 10_000]);
    assert_eq!(prices(&[overlay_of("a", "priceAdjustment: '+0.02'")]), [60_000, 120_000]);
    assert_eq!(prices(&[overlay_of("a", "priceAdjustment: '-25.5%'")]), [29_800, 74_500]);
    assert_eq!(prices(&[overlay_of("a", "priceAdjustment: '-1'")]), [0, 0]);
}

// Cases: SCH-O-33, SCH-O-34, SCH-O-73
#[test]
fn other_types_keep_their_price() {
    let applied = apply(pools(), &[overlay_of("a", "price: '0.01'")]);
    assert_eq!(applied.pools[0].instance_types[1].offerings[1].price.get(), 100_000);
}

// Cases: SCH-O-43, SCH-O-44
#[test]
fn the_heavier_overlay_wins() {
    let overlays =
        [overlay_of("light", "weight: 1, price: '0.01'"), overlay_of("heavy", "weight: 9, price: '0.05'")];
    assert_eq!(prices(&overlays), [50_000, 50_000]);
}

// Cases: SCH-O-45, SCH-O-46, SCH-O-59
#[test]
fn of_two_equal_ones_on_the_same_price_one_is_left_out_entirely() {
    let overlays = [overlay_of("a", "price: '0.01', capacity: {x/y: '2'}"), overlay_of("b", "price: '0.05'")];
    let applied = apply(pools(), &overlays);
    assert_eq!(applied.conflicts.keys().map(|k| &**k).collect::<Vec<_>>(), ["a"]);
    let kind = &applied.pools[0].instance_types[0];
    assert_eq!((kind.offerings[0].price.get(), kind.capacity.contains("x/y")), (50_000, false));
}

// Cases: SCH-O-53, SCH-O-54, SCH-O-74
#[test]
fn capacity_is_added_to_the_type() {
    let applied = apply(pools(), &[overlay_of("a", "capacity: {smarter-devices/fuse: '20'}")]);
    let kind = &applied.pools[0].instance_types[0];
    assert_eq!(kind.capacity.get("smarter-devices/fuse").to_string(), "20");
    assert_eq!((kind.overlaid.capacity, kind.overlaid.price), (true, false));
    assert_eq!(applied.pools[0].instance_types[1].overlaid, Overlaid::default());
    assert!(applied.conflicts.is_empty());
}

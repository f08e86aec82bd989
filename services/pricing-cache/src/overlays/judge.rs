//! The verdict on every overlay. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodeOverlay;
use api::convert::overlay::{self, Overlay as Read};
use api::validate;
use kube::ResourceExt as _;
use model::pool::NodePool;

use super::Overlay;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Valid,
    /// Another overlay of the same weight changes the same price or resource.
    Conflict(String),
    /// It asks for what cannot be.
    Invalid(String),
}

#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// Most important first.
    pub(super) accepted: Vec<Overlay>,
    /// By name.
    pub(super) verdicts: BTreeMap<String, Verdict>,
}

/// `pools` with their types show what an overlay touches: two that never meet on an offering do not conflict. Overlays that
/// are being deleted no longer count and are not judged.
pub(super) fn judge(overlays: &[Arc<NodeOverlay>], pools: Vec<NodePool>) -> Judgement {
    let mut judgement = Judgement::default();
    let mut valid: Vec<(&NodeOverlay, Read)> = Vec::new();
    for object in overlays.iter().filter(|o| o.metadata.deletion_timestamp.is_none()) {
        let problems = validate::node_overlay(object);
        let verdict = match (problems.is_empty(), overlay::overlay(object)) {
            (true, Ok(read)) => {
                valid.push((object, read));
                Verdict::Valid
            }
            (true, Err(error)) => Verdict::Invalid(error.to_string()),
            (false, _) => Verdict::Invalid(validate::message(&problems)),
        };
        judgement.verdicts.insert(object.name_any(), verdict);
    }
    let read: Vec<Read> = valid.iter().map(|(_, read)| read.clone()).collect();
    for (name, why) in overlay::apply(pools, &read).conflicts {
        judgement.verdicts.insert(name.to_string(), Verdict::Conflict(why));
    }
    let counts = |object: &NodeOverlay| judgement.verdicts.get(&object.name_any()) == Some(&Verdict::Valid);
    judgement.accepted = valid.iter().filter(|(o, _)| counts(o)).filter_map(|(o, _)| plain(o)).collect();
    judgement.accepted.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
    judgement
}

/// `None` for operators of a newer release, which validation refuses beforehand.
fn plain(object: &NodeOverlay) -> Option<Overlay> {
    let spec = &object.spec;
    let requirements = spec.requirements.iter().map(|r| r.to_entry().ok()).collect::<Option<Vec<_>>>()?;
    let capacity =
        spec.capacity.iter().flatten().map(|(name, amount)| (name.clone(), amount.text().into_owned()));
    Some(Overlay {
        name: object.name_any(),
        weight: spec.weight.unwrap_or(0),
        requirements,
        price: spec.price.clone(),
        price_adjustment: spec.price_adjustment.clone(),
        capacity: capacity.collect(),
    })
}

#[cfg(test)]
mod tests {
    use model::catalog::{CapacityType, InstanceType, Offering};
    use model::price::MicroDollars;
    use model::requirements::Requirements;
    use model::resources::Resources;
    use serde_json::{Value, json};

    use super::*;

    fn instance_type(name: &str) -> InstanceType {
        let offering = |zone: &str, capacity_type| Offering {
            zone: Arc::from(zone),
            zone_id: None,
            capacity_type,
            price: MicroDollars::new(1_020_000),
            available: true,
            reservation: None,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        };
        let offerings = ["zone-1", "zone-2"].into_iter().flat_map(|zone| {
            [CapacityType::OnDemand, CapacityType::Spot].map(|capacity_type| offering(zone, capacity_type))
        });
        let none = Resources::new();
        InstanceType::with_requirements(name, Requirements::new(), none.clone(), none, offerings.collect())
    }

    fn pool(name: &str, labels: &[(&str, &str)]) -> NodePool {
        let types = ["small", "large"].map(instance_type);
        NodePool {
            name: Arc::from(name),
            weight: 0,
            limits: Resources::new(),
            labels: labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            node_class_label: None,
            taints: Vec::new(),
            startup_taints: Vec::new(),
            requirements: Requirements::new(),
            fixed_size: false,
            instance_types: Arc::new(types.into()),
        }
    }

    fn overlay(name: &str, spec: &Value) -> Arc<NodeOverlay> {
        let object = json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec,
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn on(key: &str, values: &[&str]) -> Value {
        json!([{"key": key, "operator": "In", "values": values}])
    }

    /// Names of those in conflict, then of those invalid.
    fn refused(overlays: &[Arc<NodeOverlay>], pools: Vec<NodePool>) -> (Vec<String>, Vec<String>) {
        let judgement = judge(overlays, pools);
        let named = |wanted: fn(&Verdict) -> bool| {
            judgement.verdicts.iter().filter(|(_, v)| wanted(v)).map(|(name, _)| name.clone()).collect()
        };
        let refused: (Vec<String>, Vec<String>) =
            (named(|v| matches!(v, Verdict::Conflict(_))), named(|v| matches!(v, Verdict::Invalid(_))));
        let accepted: Vec<String> = judgement.accepted.iter().map(|o| o.name.clone()).collect();
        assert!(refused.0.iter().chain(&refused.1).all(|name| !accepted.contains(name)));
        assert_eq!(accepted.len() + refused.0.len() + refused.1.len(), overlays.len());
        refused
    }

    fn conflicts(first: &Value, second: &Value) -> Vec<String> {
        let pair = [overlay("overlay-a", first), overlay("overlay-b", second)];
        refused(&pair, vec![pool("default", &[("team", "blue")])]).0
    }

    const TYPE: &str = "node.kubernetes.io/instance-type";
    const ZONE: &str = "topology.kubernetes.io/zone";
    const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

    // Cases: SCH-O-2
    #[test]
    fn a_single_overlay_is_valid() {
        let one = [overlay("one", &json!({"requirements": on(TYPE, &["small"]), "price": "1.02"}))];
        assert_eq!(refused(&one, vec![pool("default", &[])]), (vec![], vec![]));
        assert_eq!(refused(&one, Vec::new()), (vec![], vec![]), "also without any NodePool");
    }

    // Cases: SCH-O-3, SCH-O-4, SCH-O-31, SCH-O-32, SCH-O-52
    #[test]
    fn an_overlay_that_asks_for_what_cannot_be_is_invalid_and_has_no_effect() {
        for spec in [
            json!({"requirements": on(TYPE, &["not a label value!"]), "price": "1"}),
            json!({"requirements": [{"key": TYPE, "operator": "Gt", "values": ["x"]}], "price": "1"}),
            json!({"requirements": [], "capacity": {"cpu": "4"}}),
            json!({"requirements": [], "capacity": {"vpc.amazonaws.com/efa": "4"}}),
        ] {
            let (conflicts, invalid) = refused(&[overlay("odd", &spec)], vec![pool("default", &[])]);
            assert_eq!((conflicts.len(), invalid.as_slice()), (0, &["odd".to_owned()][..]), "{spec}");
        }
    }

    // Cases: SCH-O-5, SCH-O-7, SCH-O-8, SCH-O-10, SCH-O-11, SCH-O-12, SCH-O-13, SCH-O-14, SCH-O-19, SCH-O-21
    #[test]
    fn of_two_that_meet_at_equal_weight_the_one_with_the_smaller_name_is_refused() {
        let price = |key: &str, values: &[&str]| json!({"requirements": on(key, values), "price": "1"});
        for (first, second) in [
            (price(TYPE, &["small", "large"]), price(TYPE, &["large"])),
            (price(ZONE, &["zone-1", "zone-2"]), price(ZONE, &["zone-1"])),
            (price(CAPACITY_TYPE, &["spot", "on-demand"]), price(CAPACITY_TYPE, &["spot"])),
            (price(TYPE, &["small"]), price(ZONE, &["zone-2"])),
            (price(TYPE, &["small"]), json!({"requirements": [], "priceAdjustment": "+10%"})),
            (price(TYPE, &["small"]), price(TYPE, &["small"])),
            (
                json!({"requirements": [], "capacity": {"example.com/fpga": "1"}}),
                json!({"requirements": on(TYPE, &["small"]), "capacity": {"example.com/fpga": "1"}}),
            ),
        ] {
            assert_eq!(conflicts(&first, &second), ["overlay-a"], "{first} {second}");
        }
    }

    // Cases: SCH-O-6, SCH-O-9, SCH-O-15, SCH-O-16, SCH-O-17, SCH-O-18, SCH-O-24
    #[test]
    fn those_that_never_meet_or_differ_in_weight_are_all_valid() {
        let price = |key: &str, values: &[&str]| json!({"requirements": on(key, values), "price": "1"});
        let with_weight = |mut spec: Value, weight: i32| {
            spec["weight"] = json!(weight);
            spec
        };
        for (first, second) in [
            (price(TYPE, &["small"]), price(TYPE, &["large"])),
            (price(ZONE, &["zone-1"]), price(ZONE, &["zone-2"])),
            (price(CAPACITY_TYPE, &["spot"]), price(CAPACITY_TYPE, &["on-demand"])),
            (with_weight(price(TYPE, &["small"]), 10), price(TYPE, &["small"])),
            (
                json!({"requirements": [], "capacity": {"example.com/fpga": "1"}}),
                json!({"requirements": [], "capacity": {"example.com/dongle": "1"}}),
            ),
            (json!({"requirements": [], "capacity": {"example.com/fpga": "1"}}), price(TYPE, &["small"])),
            (price("team", &["blue"]), price("team", &["red"])),
        ] {
            assert!(conflicts(&first, &second).is_empty(), "{first} {second}");
        }
    }

    // Cases: SCH-O-20
    #[test]
    fn among_three_only_the_one_that_clashes_fails() {
        let price = |values: &[&str]| json!({"requirements": on(TYPE, values), "price": "1"});
        let three = [
            overlay("a", &price(&["small"])),
            overlay("b", &price(&["large"])),
            overlay("c", &price(&["small"])),
        ];
        assert_eq!(refused(&three, vec![pool("default", &[])]).0, ["a"]);
    }

    // Cases: SCH-O-27, SCH-O-28, SCH-O-47, SCH-O-48
    #[test]
    fn overlays_for_different_pools_do_not_meet() {
        let of = |pool: &str| json!({"requirements": on("karpenter.sh/nodepool", &[pool]), "price": "1"});
        let pools = || vec![pool("one", &[]), pool("two", &[])];
        let apart = [overlay("a", &of("one")), overlay("b", &of("two"))];
        assert_eq!(refused(&apart, pools()), (vec![], vec![]));
        let everywhere = overlay("c", &json!({"requirements": [], "price": "2"}));
        let meeting = [overlay("a", &of("one")), everywhere];
        assert_eq!(refused(&meeting, pools()).0, ["a"], "a collision in one pool refuses it in all");
    }

    #[test]
    fn heavier_overlays_come_first_and_deleted_ones_do_not_count() {
        let weighted = |name: &str, weight: i32| {
            overlay(name, &json!({"requirements": [], "price": "1", "weight": weight}))
        };
        let mut gone = (*weighted("gone", 5)).clone();
        gone.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let all = [weighted("light", 1), weighted("heavy", 5), Arc::new(gone)];
        let judgement = judge(&all, vec![pool("default", &[])]);
        let order: Vec<&str> = judgement.accepted.iter().map(|o| o.name.as_str()).collect();
        assert_eq!(order, ["heavy", "light"]);
        assert!(!judgement.verdicts.contains_key("gone"));
    }
}

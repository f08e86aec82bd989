//! The case catalogue of the pools' controllers: counter, hash, readiness, validation, registration health.

use api::conditions::{self, Condition};
use api::{EC2NodeClass, NodePool, NodePoolStatus};
use jiff::Timestamp;
use model::quantity::Quantity;
use model::resources::Resources;
use serde_json::{Value, json};

use super::health::{HEALTHY, Ring, Verdict};
use super::status::{Known, wanted};
use super::{Registered, counter, hash, health};
use crate::cluster::PoolUsage;

fn pool(spec: Value) -> NodePool {
    let mut template = json!({"spec": {
        "requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
    }});
    if let Some(more) = spec.get("requirements") {
        template["spec"]["requirements"] = more.clone();
    }
    if let Some(labels) = spec.get("labels") {
        template["metadata"] = json!({"labels": labels});
    }
    serde_json::from_value(json!({
        "metadata": {"name": "general", "uid": "p-1", "generation": 1}, "spec": {"template": template, "weight": spec.get("weight")},
    }))
    .unwrap()
}

fn class(ready: Option<(&str, &str)>, generation: i64) -> EC2NodeClass {
    let conditions = ready.map(|(status, reason)| {
        json!([{"type": "Ready", "status": status, "reason": reason, "message": "told", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    });
    serde_json::from_value(json!({
        "metadata": {"name": "default", "generation": generation},
        "spec": {"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn status_of(pool: &NodePool, class: Option<&EC2NodeClass>, ring: &mut Ring) -> Option<NodePoolStatus> {
    wanted(&Known { pool, class, usage: Some(None), health: None }, ring, now())
}

fn condition<'a>(status: &'a NodePoolStatus, type_: &str) -> Option<&'a Condition> {
    conditions::find(status.conditions.as_deref().unwrap(), type_)
}

fn told(status: &NodePoolStatus, type_: &str) -> String {
    let found = condition(status, type_).unwrap();
    format!("{}/{}", found.status, found.reason)
}

fn judged(pool: &NodePool, class: Option<&EC2NodeClass>) -> (String, String) {
    let status = status_of(pool, class, &mut Ring::default()).unwrap();
    (told(&status, "NodeClassReady"), told(&status, "Ready"))
}

// Cases: RDY-2, RDY-3, RDY-4, RDY-5, RDY-6
#[test]
fn a_pool_is_as_ready_as_its_class() {
    let pool = pool(json!({}));
    let (missing, root) = judged(&pool, None);
    assert_eq!((missing.as_str(), root.as_str()), ("False/NodeClassNotFound", "False/UnhealthyDependents"));
    let (ready, root) = judged(&pool, Some(&class(Some(("True", "Ready")), 1)));
    assert_eq!((ready.as_str(), root.as_str()), ("True/NodeClassReady", "True/Ready"));
    assert_eq!(judged(&pool, Some(&class(Some(("False", "SubnetsNotFound")), 1))).0, "False/SubnetsNotFound");
    assert_eq!(judged(&pool, Some(&class(Some(("Unknown", "X")), 1))).0, "False/NodeClassReadinessUnknown");
    assert_eq!(judged(&pool, Some(&class(None, 1))).0, "False/NodeClassReadinessUnknown");
    let mut going = class(Some(("True", "Ready")), 1);
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert_eq!(judged(&pool, Some(&going)).0, "False/NodeClassTerminating");
}

// Cases: VAL-1, VAL-2, VAL-3, VAL-5, VAL-6
#[test]
fn a_pool_that_makes_no_sense_says_what_is_wrong() {
    let of_types = |values: Value| {
        pool(
            json!({"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}]}),
        )
    };
    let ready = class(Some(("True", "Ready")), 1);
    let validation = |pool: &NodePool| {
        told(&status_of(pool, Some(&ready), &mut Ring::default()).unwrap(), "ValidationSucceeded")
    };
    assert_eq!(validation(&of_types(json!(["cheap"]))), "False/NodePoolValidationFailed");
    assert_eq!(validation(&of_types(json!(["spot"]))), "True/ValidationSucceeded");
    assert_eq!(
        validation(&of_types(json!(["spot", "cheap"]))),
        "True/ValidationSucceeded",
        "one known value is enough"
    );
    let labelled = pool(json!({"labels": {"karpenter.sh/nodepool": "x"}}));
    assert_eq!(validation(&labelled), "False/NodePoolValidationFailed");
}

#[test]
fn an_unchanged_pool_is_not_written() {
    let (mut pool, class, mut ring) = (pool(json!({})), class(Some(("True", "Ready")), 1), Ring::default());
    pool.status = status_of(&pool, Some(&class), &mut ring);
    assert!(pool.status.is_some());
    assert_eq!(status_of(&pool, Some(&class), &mut ring), None);
}

// Cases: CNT-2, CNT-7
#[test]
fn the_count_always_has_the_five_known_resources() {
    let empty = counter::resources(None);
    let zeros: Vec<_> = empty.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    assert_eq!(zeros, ["cpu=0", "ephemeral-storage=0", "memory=0", "nodes=0", "pods=0"]);
    let usage = PoolUsage {
        launched: Resources::new()
            .with("cpu", Quantity::from_units(6))
            .with("nvidia.com/gpu", Quantity::from_units(1)),
        nodes: 2,
        ..PoolUsage::default()
    };
    let full = counter::resources(Some(&usage));
    assert_eq!((full["cpu"].to_string(), full["nvidia.com/gpu"].to_string()), ("6".into(), "1".into()));
    assert_eq!((full["nodes"].to_string(), full["memory"].to_string()), ("2".into(), "0".into()));
}

// Cases: CNT-7
#[test]
fn before_the_cluster_is_known_the_count_stays_as_it_was() {
    let mut pool = pool(json!({}));
    pool.status = Some(NodePoolStatus { nodes: 7, ..NodePoolStatus::default() });
    let known = Known { pool: &pool, class: None, usage: None, health: None };
    assert_eq!(wanted(&known, &mut Ring::default(), now()).unwrap().nodes, 7);
    let known = Known { usage: Some(None), ..known };
    assert_eq!(wanted(&known, &mut Ring::default(), now()).unwrap().nodes, 0);
}

fn hashed(mut pool: NodePool) -> NodePool {
    let rehash = hash::of_pool(&pool).unwrap();
    pool.metadata.annotations.get_or_insert_default().extend(rehash.annotations);
    pool
}

// Cases: DFT-23, HSH-2, HSH-3
#[test]
fn the_hash_follows_the_template_and_nothing_else() {
    let mut known = hashed(pool(json!({})));
    assert_eq!(hash::of_pool(&known), None);
    known.spec.weight = Some(5);
    assert_eq!(hash::of_pool(&known), None, "weight does not make nodes different");
    known.spec.template.metadata = Some(serde_json::from_value(json!({"labels": {"team": "b"}})).unwrap());
    let changed = hash::of_pool(&known).unwrap();
    assert!(!changed.migrate_claims);
    assert_ne!(
        changed.annotations["karpenter.sh/nodepool-hash"],
        known.metadata.annotations.as_ref().unwrap()["karpenter.sh/nodepool-hash"]
    );
}

// Cases: HSH-4, HSH-5, HSH-6, HSH-7
#[test]
fn another_version_of_the_hash_restamps_claims_but_leaves_drifted_ones_drifted() {
    let mut old = hashed(pool(json!({})));
    old.metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert("karpenter.sh/nodepool-hash-version".into(), "v1".into());
    assert!(hash::of_pool(&old).unwrap().migrate_claims);

    let claim = |version: &str, conditions: Value| -> api::NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "annotations": {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": version}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    };
    let plain = hash::of_claim(&claim("v1", json!([])), &old).unwrap();
    assert_eq!(plain["karpenter.sh/nodepool-hash"], api::hash::node_pool(&old));
    assert_eq!(plain["karpenter.sh/nodepool-hash-version"], "v3");
    let drifted =
        json!([{"type": "Drifted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let kept = hash::of_claim(&claim("v1", drifted), &old).unwrap();
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["karpenter.sh/nodepool-hash-version"]);
    assert_eq!(hash::of_claim(&claim("v3", json!([])), &old), None);
}

fn ring(outcomes: &[bool]) -> Ring {
    let mut ring = Ring::default();
    outcomes.iter().for_each(|outcome| ring.push(*outcome));
    ring
}

// Cases: RGH-7, RGH-8, RGH-9, RGH-10, RGH-15, SCH-K-80, SCH-K-81, SCH-N-18, SCH-N-19, SCH-N-20, SCH-N-21
#[test]
fn two_failures_among_the_last_four_are_too_many() {
    assert_eq!(ring(&[]).verdict(), Verdict::Unknown);
    assert_eq!(ring(&[true]).verdict(), Verdict::Healthy);
    assert_eq!(ring(&[false]).verdict(), Verdict::Healthy);
    assert_eq!(ring(&[false, false]).verdict(), Verdict::Unhealthy);
    assert_eq!(ring(&[false, false, true]).verdict(), Verdict::Unhealthy);
    assert_eq!(
        ring(&[false, false, true, true, true]).verdict(),
        Verdict::Healthy,
        "the oldest is forgotten"
    );
}

fn health_of(status: &str) -> Vec<Condition> {
    serde_json::from_value(json!([{
        "type": HEALTHY, "status": status, "reason": "r", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]))
    .unwrap()
}

fn failure() -> Registered {
    Registered::No { reason: "RegistrationFailed".into(), message: "late".into() }
}

// Cases: REG-16, REG-17, RGH-12
#[test]
fn a_success_heals_a_pool_when_few_failures_are_left() {
    assert!(health::record(&mut ring(&[false]), &health_of("False"), &Registered::Yes).is_some());
    let mut bad = ring(&[false, false]);
    assert_eq!(health::record(&mut bad, &health_of("False"), &Registered::Yes), None);
    assert_eq!(bad, ring(&[false, false, true]), "it counts all the same");
}

// Cases: LIV-9, LIV-10
#[test]
fn the_second_failure_makes_a_pool_unhealthy_and_is_told_once() {
    for before in ["True", "Unknown"] {
        let mut ring = Ring::default();
        assert_eq!(health::record(&mut ring, &health_of(before), &failure()), None);
        assert!(health::record(&mut ring, &health_of(before), &failure()).is_some());
        assert_eq!(health::record(&mut ring, &health_of("False"), &failure()), None);
    }
}

// Cases: RGH-3, RGH-4, RGH-5, RGH-6, SCH-N-24
#[test]
fn health_starts_anew_when_pool_or_class_changes_and_survives_a_restart() {
    let ready = |generation| class(Some(("True", "Ready")), generation);
    let mut subject = pool(json!({}));
    let mut outcomes = ring(&[true, true]);
    let first = status_of(&subject, Some(&ready(1)), &mut outcomes).unwrap();
    assert_eq!(told(&first, HEALTHY), "Unknown/AwaitingReconciliation");
    assert_eq!(first.node_class_observed_generation, Some(1));
    assert_eq!(outcomes, Ring::default());

    for (status, seeded) in [("True", ring(&[true])), ("False", ring(&[false, false]))] {
        let mut known = first.clone();
        known.conditions.as_mut().unwrap().retain(|c| c.type_ != HEALTHY);
        known.conditions.as_mut().unwrap().extend(health_of(status));
        subject.status = Some(known);
        let mut after_restart = Ring::default();
        assert_eq!(status_of(&subject, Some(&ready(1)), &mut after_restart), None, "{status} is kept");
        assert_eq!(after_restart, seeded);
        let changed = status_of(&subject, Some(&ready(2)), &mut after_restart).unwrap();
        assert_eq!(told(&changed, HEALTHY), "Unknown/AwaitingReconciliation", "another class");
        assert_eq!(after_restart, Ring::default());
    }
    subject.metadata.generation = Some(2);
    let changed = status_of(&subject, Some(&ready(1)), &mut ring(&[true])).unwrap();
    assert_eq!(told(&changed, HEALTHY), "Unknown/AwaitingReconciliation", "another spec");
}

// Cases: RGH-2
#[test]
fn without_a_class_nothing_is_said_about_health() {
    let status = status_of(&pool(json!({})), None, &mut Ring::default()).unwrap();
    assert!(condition(&status, HEALTHY).is_none());
}

//! Types, claims and classes that read like what they are.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use api::{EC2NodeClass, NodeClaim};
use cloud::launch::Launcher;
use cloud::unavailable::Scope;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use model::catalog::{CapacityType, InstanceType, Offering, Reservation};
use model::labels;
use model::price::MicroDollars;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::{CPU, MEMORY, PODS, Resources};
use serde_json::{Value, json};

use crate::launch::{ClusterFacts, LaunchMetrics, Parts, Records, Shortages, Templates};
use crate::nodeclass::{Addresses, ResolvedClasses};

pub(super) const ZONES: [&str; 2] = ["us-west-2a", "us-west-2b"];

/// What was reported as unavailable.
#[derive(Default)]
pub(super) struct Heard(pub(super) Mutex<Vec<(Scope, String)>>);

impl Shortages for Heard {
    fn report<'a>(&'a self, scopes: Vec<Scope>, reason: &'a str) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().extend(scopes.into_iter().map(|scope| (scope, reason.to_owned())));
        async {}.boxed()
    }
}

/// For claims that are launched one by one: nobody asks.
pub(super) struct NoBatches;

impl Records for NoBatches {
    fn instances_named<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<BTreeSet<String>, String>> {
        panic!("a claim without a batch needs no look at others")
    }
}

/// Of a process that knows nothing of earlier ones.
pub(super) fn parts(launcher: Arc<dyn Launcher>, records: Arc<dyn Records>, heard: Arc<Heard>) -> Parts {
    let cluster =
        ClusterFacts::fixed("blue", "us-west-2", "https://blue", "Y2E=", "10.100.0.10", "10.100.0.0/16");
    Parts {
        launcher: Arc::clone(&launcher),
        records,
        cluster: Arc::new(cluster),
        shortages: heard,
        addresses: Addresses::default(),
        resolved: ResolvedClasses::default(),
        templates: Arc::new(Templates::new(launcher, "blue")),
        metrics: LaunchMetrics::default(),
        reserved_capacity: true,
        strict_min_values: true,
    }
}

/// As the cloud in memory has them.
fn zone_id(zone: &str) -> &'static str {
    match zone {
        "us-west-2a" => "us-west-2-az1",
        "us-west-2b" => "us-west-2-az2",
        _ => "us-west-2-az3",
    }
}

pub(super) fn offering(kind: CapacityType, zone: &str, micro: i64) -> Offering {
    Offering {
        zone: Arc::from(zone),
        zone_id: Some(Arc::from(zone_id(zone))),
        capacity_type: kind,
        price: MicroDollars::new(micro),
        available: true,
        reservation: None,
        capacity_override: Resources::new(),
        overhead_override: Resources::new(),
    }
}

pub(super) fn reserved(id: &str, kind: &str, zone: &str, capacity: u32) -> Offering {
    let reservation =
        Reservation { id: Arc::from(id), capacity, kind: Arc::from(kind), interruptible: false };
    Offering { reservation: Some(reservation), ..offering(CapacityType::Reserved, zone, 1) }
}

/// Spot at a third of the on-demand price in every zone.
pub(super) fn sold_both_ways(micro: i64) -> Vec<Offering> {
    ZONES
        .iter()
        .flat_map(|zone| {
            [offering(CapacityType::OnDemand, zone, micro), offering(CapacityType::Spot, zone, micro / 3)]
        })
        .collect()
}

pub(super) fn kind(name: &str, cpus: i64, offerings: Vec<Offering>) -> InstanceType {
    let capacity = Resources::new()
        .with(CPU, model::quantity::Quantity::from_units(cpus))
        .with(MEMORY, model::quantity::Quantity::from_bytes(cpus << 32))
        .with(PODS, model::quantity::Quantity::from_units(29));
    with_capacity(name, capacity, offerings)
}

pub(super) fn with_capacity(name: &str, capacity: Resources, offerings: Vec<Offering>) -> InstanceType {
    let family = name.split('.').next().unwrap();
    let requirements: Requirements = [
        Requirement::is(labels::ARCH, labels::AMD64),
        Requirement::is(labels::OS, labels::LINUX),
        Requirement::is(labels::INSTANCE_FAMILY, family),
        Requirement::one_of(labels::INSTANCE_TENANCY, [labels::TENANCY_DEFAULT, labels::TENANCY_DEDICATED]),
    ]
    .into_iter()
    .collect();
    InstanceType::with_requirements(name, requirements, capacity, Resources::new(), offerings)
}

pub(super) fn claim(requirements: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "claim-1", "uid": "uid-1", "labels": {"karpenter.sh/nodepool": "default", "team": "a"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "Never",
            "resources": {"requests": {"cpu": "1"}},
            "requirements": requirements,
        },
    }))
    .unwrap()
}

pub(super) fn buying(kinds: &[&str]) -> Value {
    json!([{"key": labels::CAPACITY_TYPE, "operator": "In", "values": kinds}])
}

pub(super) fn class() -> EC2NodeClass {
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions: Vec<Value> = api::conditions::ConditionSet::ec2_node_class(true)
        .dependents()
        .iter()
        .copied()
        .chain(["Ready"])
        .map(condition)
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "generation": 1, "annotations": {"karpenter.k8s.aws/ec2nodeclass-hash": "7"}},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r",
            "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
        },
        "status": {
            "subnets": [
                {"id": "subnet-a", "zone": ZONES[0], "zoneID": zone_id(ZONES[0])},
                {"id": "subnet-b", "zone": ZONES[1], "zoneID": zone_id(ZONES[1])},
            ],
            "securityGroups": [{"id": "sg-1"}],
            "amis": [{"id": "ami-1", "requirements": [{"key": labels::ARCH, "operator": "In", "values": ["amd64"]}]}],
            "instanceProfile": "profile-1",
            "conditions": conditions,
        },
    }))
    .unwrap()
}

//! The case catalogue of launch, registration, initialization, liveness and consistency, on claims and Nodes as manifests.

mod initialization;
mod launch;
mod registration;

use api::conditions::ConditionSet;
use serde_json::{Value, json};

use super::*;

const ID: &str = "aws:///us-west-2a/i-1";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Merged into the manifest of a claim of ours that was created at 0 and has its finalizer.
fn claim(more: Value) -> NodeClaim {
    let mut object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": "general-x7k2p", "uid": "c-1", "generation": 1, "creationTimestamp": "1970-01-01T00:00:00Z",
            "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodepool": "general"},
        },
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
    });
    merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}

fn foreign() -> NodeClaim {
    claim(
        json!({"spec": {"nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "x"}}}),
    )
}

fn launched(more: Value) -> NodeClaim {
    let mut claim = claim(more);
    claim.status.get_or_insert_default().provider_id = Some(ID.to_owned());
    with(claim, &[(LAUNCHED, Finding::holds())], 10)
}

fn registered(more: Value) -> NodeClaim {
    with(launched(more), &[(REGISTERED, Finding::holds())], 20)
}

fn with(mut claim: NodeClaim, findings: &[(&str, Finding)], second: i64) -> NodeClaim {
    let meta = claim.metadata.clone();
    let list = claim.status.get_or_insert_default().conditions.get_or_insert_default();
    for (type_, finding) in findings {
        ConditionSet::NODE_CLAIM.set(list, &meta, type_, finding.clone(), at(second));
    }
    claim
}

/// Merged into the manifest of a Node that has just joined.
fn node(more: Value) -> Node {
    let mut object = json!({
        "metadata": {"name": "ip-10-0-0-1", "uid": "n-1", "resourceVersion": "7", "labels": {"kubernetes.io/os": "linux"}},
        "spec": {"providerID": ID, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn step(claim: &NodeClaim, nodes: Vec<Node>, second: i64) -> Step {
    step_with(claim, nodes, &Memory::default(), second)
}

fn step_with(claim: &NodeClaim, nodes: Vec<Node>, memory: &Memory, second: i64) -> Step {
    let nodes: Vec<Arc<Node>> = nodes.into_iter().map(Arc::new).collect();
    let seen = Observed { claim, nodes: &nodes, memory, limits: Limits::default() };
    next_step(&seen, at(second))
}

/// Status and reason of the condition that the step sets.
fn noted(step: &Step) -> (&'static str, String, String) {
    let Step::Note(type_, finding) = step else { panic!("{step:?} is no note") };
    let mut list = Vec::new();
    conditions::set_plain(&mut list, None, type_, finding.clone(), at(0));
    (type_, list[0].status.to_string(), list[0].reason.clone())
}

fn says(type_: &'static str, status: &str, reason: &str) -> (&'static str, String, String) {
    (type_, status.to_owned(), reason.to_owned())
}

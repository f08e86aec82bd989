//! INI and CON of the catalogue.

use super::*;

/// Ready, without taints, with this merged in.
fn ready(more: Value) -> Node {
    let mut object = json!({
        "metadata": {"labels": {"karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/registered": "true"}},
        "spec": {"taints": null},
    });
    merge(&mut object, more);
    node(object)
}

fn initialized() -> Step {
    Step::Initialize("ip-10-0-0-1".into())
}

fn open(reason: &str) -> (&'static str, String, String) {
    says(INITIALIZED, "Unknown", reason)
}

// Cases: INI-1, INI-11
#[test]
fn a_ready_node_without_obstacles_is_initialized() {
    assert_eq!(step(&registered(json!({})), vec![ready(json!({}))], 30), initialized());
}

// Cases: INI-3
#[test]
fn an_unregistered_claim_is_not_initialized() {
    let found = step(&launched(json!({})), vec![ready(json!({}))], 30);
    assert!(matches!(found, Step::Register(_)), "{found:?}");
}

// Cases: INI-5
#[test]
fn a_node_that_is_not_ready_is_waited_for_without_limit() {
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}});
    let claim = registered(json!({}));
    let found = step(&claim, vec![ready(not_ready.clone())], 30);
    assert_eq!(noted(&found), open("NodeNotReady"));
    let Step::Note(type_, finding) = found else { unreachable!() };
    let claim = with(claim, &[(type_, finding)], 30);
    let memory = Memory { scanned: Some(at(100_000)), ..Memory::default() };
    assert_eq!(step_with(&claim, vec![ready(not_ready)], &memory, 100_000), Step::Wait(Some(at(100_600))));
    assert_eq!(
        noted(&step(&claim, vec![ready(json!({"status": {"conditions": null}}))], 30)),
        open("NodeNotReady")
    );
}

// Cases: INI-6, INI-7
#[test]
fn a_requested_resource_must_be_there() {
    let claim = registered(
        json!({"spec": {"resources": {"requests": {"nvidia.com/gpu": 1, "cpu": "100m", "example.com/none": 0}}}}),
    );
    let with_gpus =
        |count: &str| ready(json!({"status": {"allocatable": {"nvidia.com/gpu": count, "cpu": "4"}}}));
    let found = step(&claim, vec![with_gpus("0")], 30);
    assert_eq!(noted(&found), open("ResourceNotRegistered"));
    let Step::Note(_, finding) = &found else { unreachable!() };
    assert!(format!("{finding:?}").contains("nvidia.com/gpu"), "the message names it");
    assert_eq!(step(&claim, vec![with_gpus("1")], 30), initialized());
}

// Cases: INI-8, INI-9
#[test]
fn startup_taints_hold_until_they_are_gone_whatever_their_value() {
    let claim =
        registered(json!({"spec": {"startupTaints": [{"key": "cni", "value": "a", "effect": "NoExecute"}]}}));
    let tainted =
        |effect: &str| ready(json!({"spec": {"taints": [{"key": "cni", "value": "b", "effect": effect}]}}));
    assert_eq!(noted(&step(&claim, vec![tainted("NoExecute")], 30)), open("StartupTaintsExist"));
    assert_eq!(step(&claim, vec![tainted("NoSchedule")], 30), initialized(), "another taint of the same key");
    assert_eq!(step(&claim, vec![ready(json!({}))], 30), initialized());
}

// Cases: INI-10, INI-12
#[test]
fn taints_of_starting_nodes_hold() {
    for (key, effect) in [
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        ("karpenter.sh/unregistered", "NoExecute"),
        ("readiness.k8s.io/network", "NoSchedule"),
    ] {
        let tainted = ready(json!({"spec": {"taints": [{"key": key, "effect": effect}]}}));
        assert_eq!(
            noted(&step(&registered(json!({})), vec![tainted], 30)),
            open("KnownEphemeralTaintsExist"),
            "{key}:{effect}"
        );
    }
    let other = ready(
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}),
    );
    assert_eq!(step(&registered(json!({})), vec![other], 30), initialized());
}

// Cases: FIN-4
#[test]
fn conditions_of_an_older_generation_are_brought_up_to_date() {
    let mut claim = with(registered(json!({})), &[(INITIALIZED, Finding::holds())], 30);
    let scanned = Memory { scanned: Some(at(40)), ..Memory::default() };
    assert_eq!(step_with(&claim, vec![ready(json!({}))], &scanned, 41), Step::Wait(Some(at(640))));
    claim.metadata.generation = Some(2);
    assert_eq!(step_with(&claim, vec![ready(json!({}))], &scanned, 41), Step::Refresh);
}

#[test]
fn a_node_much_smaller_than_promised_is_told_every_ten_minutes() {
    let claim = with(
        registered(json!({
            "spec": {"resources": {"requests": {"memory": "1Gi", "cpu": "1", "pods": "0"}}},
            "status": {"capacity": {"memory": "100Gi", "cpu": "4", "pods": "58"}},
        })),
        &[(INITIALIZED, Finding::holds())],
        30,
    );
    let with_memory = |memory: &str| ready(json!({"status": {"capacity": {"memory": memory, "cpu": "4"}}}));
    assert_eq!(step(&claim, vec![with_memory("90Gi")], 40), Step::Scanned(vec![]));
    let Step::Scanned(found) = step(&claim, vec![with_memory("89Gi")], 40) else { panic!("not scanned") };
    let names: Vec<_> = found.iter().map(|short| short.resource.as_str()).collect();
    assert_eq!(names, ["memory"], "pods were not asked for, cpu is there");
    assert!(found[0].to_string().contains("expected 100Gi of resource memory, found 89Gi"), "{}", found[0]);
    let memory = Memory { scanned: Some(at(40)), ..Memory::default() };
    assert_eq!(step_with(&claim, vec![with_memory("1Gi")], &memory, 639), Step::Wait(Some(at(640))));
}

#[test]
fn before_initialization_a_small_node_is_no_news() {
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "starting"}], "capacity": {"cpu": "1"}}});
    let claim = registered(
        json!({"spec": {"resources": {"requests": {"cpu": "1"}}}, "status": {"capacity": {"cpu": "4"}}}),
    );
    let Step::Note(type_, finding) = step(&claim, vec![ready(not_ready.clone())], 30) else {
        panic!("no note")
    };
    let claim = with(claim, &[(type_, finding)], 30);
    assert_eq!(step(&claim, vec![ready(not_ready)], 31), Step::Scanned(vec![]));
}

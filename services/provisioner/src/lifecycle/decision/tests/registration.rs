//! REG and HYD of the catalogue.

use super::*;

fn registration(claim: &NodeClaim, node: Node) -> Registration {
    match step(claim, vec![node], 30) {
        Step::Register(registration) => *registration,
        other => panic!("{other:?} is no registration"),
    }
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

fn tainted_claim() -> NodeClaim {
    launched(json!({"spec": {
        "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
    }}))
}

#[test]
fn a_launched_claim_waits_for_its_node_and_says_so_once() {
    let fresh = launched(json!({}));
    let first = step(&fresh, vec![], 30);
    assert_eq!(noted(&first), says(REGISTERED, "Unknown", "NodeNotFound"));
    let Step::Note(type_, finding) = first else { unreachable!() };
    assert_eq!(step(&with(fresh, &[(type_, finding)], 30), vec![], 31), Step::Wait(Some(at(900))));
}

#[test]
fn two_nodes_with_one_provider_id_are_never_registered() {
    let claim = launched(json!({}));
    let both = || vec![node(json!({})), node(json!({"metadata": {"name": "ip-10-0-0-2"}}))];
    let found = step(&claim, both(), 30);
    assert_eq!(noted(&found), says(REGISTERED, "False", "MultipleNodesFound"));
    let Step::Note(type_, finding) = found else { unreachable!() };
    let claim = with(claim, &[(type_, finding)], 30);
    assert_eq!(step(&claim, vec![node(json!({}))], 31), Step::Wait(Some(at(930))), "it stays so");
    assert_eq!(step(&claim, both(), 930), Step::GiveUp(Expired::Registration));
}

// Cases: REG-1, REG-3, REG-5, SCH-K-76
#[test]
fn the_node_gets_label_owner_and_finalizer_and_loses_the_taint() {
    let found = registration(&launched(json!({})), node(json!({})));
    assert!(!found.taint_missing);
    let meta = &found.node.metadata;
    assert_eq!(meta.labels.as_ref().unwrap()["karpenter.sh/registered"], "true");
    assert_eq!(meta.finalizers.as_deref(), Some(&["karpenter.sh/termination".to_owned()][..]));
    let owners = meta.owner_references.as_ref().unwrap();
    assert_eq!((owners[0].kind.as_str(), owners[0].uid.as_str()), ("NodeClaim", "c-1"));
    assert_eq!(owners[0].block_owner_deletion, Some(true));
    assert!(taints(&found.node).is_empty());
    let patch = found.patch.unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(patch["spec"]["taints"], json!([]));
    assert!(patch["metadata"]["labels"].get("kubernetes.io/os").is_none(), "what stays is not sent");
}

// Cases: REG-4
#[test]
fn an_owner_that_is_there_is_not_added_again() {
    let owned = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "general-x7k2p", "uid": "c-1"},
    ]}});
    let found = registration(&launched(json!({})), node(owned));
    assert_eq!(found.node.metadata.owner_references.unwrap().len(), 1);
}

// Cases: REG-6
#[test]
fn a_node_without_the_taint_is_registered_and_reported() {
    let bare = node(json!({"spec": {"taints": null}}));
    assert!(registration(&launched(json!({})), bare).taint_missing);
    let known =
        node(json!({"spec": {"taints": null}, "metadata": {"labels": {"karpenter.sh/registered": "true"}}}));
    assert!(!registration(&launched(json!({})), known).taint_missing, "it was registered before");
}

// Cases: REG-7, REG-8, SCH-A.5-1
#[test]
fn labels_and_annotations_of_the_claim_win_on_the_node() {
    let claim = launched(
        json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "claim", "karpenter.sh/traceparent": "t"}}}),
    );
    let found = registration(
        &claim,
        node(json!({"metadata": {"labels": {"team": "b"}, "annotations": {"note": "node", "own": "1"}}})),
    );
    let meta = found.node.metadata;
    assert_eq!(meta.labels.unwrap()["team"], "a");
    let annotations = meta.annotations.unwrap();
    assert_eq!((annotations["note"].as_str(), annotations["own"].as_str()), ("claim", "1"));
    assert_eq!(annotations["karpenter.sh/traceparent"], "t");
}

// Cases: REG-9, REG-10, REG-11, REG-12, REG-13, REG-14, SCH-C.10-1
#[test]
fn taints_come_from_the_claim_unless_the_node_says_that_it_has_them() {
    let synced = ["team:NoSchedule", "cni:NoExecute"];
    assert_eq!(taints(&registration(&tainted_claim(), node(json!({}))).node), synced);
    let odd = node(json!({"metadata": {"labels": {"karpenter.sh/do-not-sync-taints": "yes"}}}));
    assert_eq!(taints(&registration(&tainted_claim(), odd).node), synced, "only `true` counts");
    let own = node(json!({"metadata": {"labels": {"karpenter.sh/do-not-sync-taints": "true"}}}));
    assert!(taints(&registration(&tainted_claim(), own).node).is_empty());
}

#[test]
fn a_taint_that_is_there_by_key_and_effect_keeps_its_value() {
    let mut own = node(json!({}));
    own.spec.as_mut().unwrap().taints.as_mut().unwrap().push(k8s_openapi::api::core::v1::Taint {
        key: "team".into(),
        value: Some("b".into()),
        effect: "NoSchedule".into(),
        time_added: None,
    });
    let found = registration(&tainted_claim(), own).node;
    assert_eq!(taints(&found), ["team:NoSchedule", "cni:NoExecute"]);
    assert_eq!(found.spec.unwrap().taints.unwrap()[0].value.as_deref(), Some("b"));
}

// Cases: REG-15
#[test]
fn a_startup_taint_that_an_agent_removed_does_not_come_back_after_a_crash_between_node_and_claim() {
    let mut written = registration(&tainted_claim(), node(json!({}))).node;
    written.spec.as_mut().unwrap().taints.as_mut().unwrap().retain(|taint| taint.key != "cni");
    let again = registration(&tainted_claim(), written);
    assert_eq!(taints(&again.node), ["team:NoSchedule"]);
    assert_eq!(again.patch, None, "the Node is complete; only the claim is to be written");
}

// Cases: REG-19, REG-20, REG-25, REG-28
#[test]
fn an_unknown_partition_holds_registration_but_not_the_rest() {
    let claim = launched(json!({"metadata": {"labels": {
        "karpenter.k8s.aws/placement-group-id": "pg-1", "karpenter.k8s.aws/placement-group-partition": "",
    }}}));
    assert_eq!(step(&claim, vec![node(json!({}))], 30), Step::FindPartition);

    let memory = Memory { ask_partition_after: Some(at(40)), ..Memory::default() };
    let Step::Register(held) = step_with(&claim, vec![node(json!({}))], &memory, 31) else {
        panic!("not held")
    };
    assert_eq!(taints(&held.node), ["karpenter.sh/unregistered:NoExecute"]);
    assert!(!held.node.metadata.labels.as_ref().unwrap().contains_key("karpenter.sh/registered"));
    let pending = step_with(&claim, vec![held.node.clone()], &memory, 32);
    assert_eq!(noted(&pending), says(REGISTERED, "Unknown", "RegistrationHookPending"));
    let Step::Note(type_, finding) = pending else { unreachable!() };
    let claim = with(claim, &[(type_, finding)], 32);
    assert_eq!(step_with(&claim, vec![held.node.clone()], &memory, 33), Step::Wait(Some(at(40))));
    assert_eq!(step_with(&claim, vec![held.node.clone()], &memory, 40), Step::FindPartition);

    let mut known = claim;
    let all = known.metadata.labels.as_mut().unwrap();
    all.insert("karpenter.k8s.aws/placement-group-partition".into(), "3".into());
    let complete = registration(&known, held.node);
    assert_eq!(complete.held_by, None);
    assert_eq!(complete.node.metadata.labels.unwrap()["karpenter.k8s.aws/placement-group-partition"], "3");
}

// Cases: HYD-1
#[test]
fn a_node_from_before_the_label_gets_it() {
    let old =
        node(json!({"metadata": {"labels": {"karpenter.sh/registered": "true"}}, "spec": {"taints": null}}));
    let claim = with(registered(json!({})), &[(INITIALIZED, Finding::holds())], 30);
    assert_eq!(step(&claim, vec![old.clone()], 40), Step::LabelNode("ip-10-0-0-1".into()));
    assert_eq!(step(&claim, vec![old.clone(), old], 40), Step::Wait(None), "of several none is surely ours");
}

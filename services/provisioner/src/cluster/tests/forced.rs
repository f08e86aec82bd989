//! Pods that something holds on a node with a deadline.

use super::*;

/// A node whose claim is being deleted and must be gone `seconds` after the start, with a pod that a budget holds.
fn held(seconds: i64, pod: Arc<Pod>) -> State {
    let mut state = state();
    let budget = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "b"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}}
    }));
    state.budget(Change::Applied(Arc::new(budget.unwrap())), at(0));
    state.node(Change::Applied(node("ip-1", "general-x", json!({}))), at(0));
    state.claim(Change::Applied(initialized("general-x", &[], -100)), at(0));
    state.pod(Streamed::Applied(pod), at(0));
    state.triggers.clear();
    let mut going = serde_json::to_value(&*initialized("general-x", &[], -100)).unwrap();
    going["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    going["metadata"]["annotations"][labels::TERMINATION_TIMESTAMP] = json!(at(seconds).to_string());
    state.claim(Change::Applied(Arc::new(serde_json::from_value(going).unwrap())), at(1));
    state
}

#[test]
fn a_pod_that_a_budget_holds_gets_another_place_at_once_where_its_node_has_minutes_left() {
    let mut state = held(120, bound(1, "ip-1"));
    let plan = decide(&state);
    assert_eq!(plan.new_nodes.len(), 1, "{plan:?}");
    assert_eq!(state.triggers.len(), 1, "somebody must decide about it at once");
    assert_eq!(state.leaving_pods().len(), 1);
    // The place counts as its own, and no second one is made.
    state.assume(claim("general-y", &[1], json!({})), at(2));
    assert_eq!(shown(&state, 1), on("general-y"));
    assert!(decide(&state).new_nodes.is_empty());
}

// Cases: SCH-B.12-6
#[test]
fn where_the_deadline_is_far_it_stays_until_the_deadline_is_near() {
    let mut state = held(3600, bound(1, "ip-1"));
    assert!(decide(&state).new_nodes.is_empty(), "a budget holds it: it may stay for most of an hour");
    assert!(state.triggers.is_empty() && state.leaving_pods().is_empty());
    state.pass_time(at(3000));
    assert!(decide(&state).new_nodes.is_empty());
    state.delta = Default::default();
    let before = Snapshot::build(state.input());
    state.pass_time(at(3301));
    let plan = decide(&state);
    assert_eq!((plan.new_nodes.len(), state.triggers.len()), (1, 1), "{plan:?}");
    let carried = before.apply(&state.delta.changes).unwrap();
    assert_eq!(solver::solve(&carried, &Options::default(), &|| true), plan);
}

#[test]
fn an_annotation_holds_no_longer_than_a_budget_and_what_goes_with_its_node_needs_no_place() {
    let protected = json!({"metadata": {"annotations": {labels::DO_NOT_DISRUPT: "true"}},
        "spec": {"nodeName": "ip-1"}, "status": {"phase": "Running"}});
    assert_eq!(decide(&held(120, pod(1, protected))).new_nodes.len(), 1);
    let ends = json!({"metadata": {"deletionTimestamp": at(0).to_string()}, "spec": {"nodeName": "ip-1"},
        "status": {"phase": "Running"}});
    assert!(decide(&held(120, pod(1, ends))).new_nodes.is_empty());
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]);
    let daemon = json!({"metadata": {"ownerReferences": owner}, "spec": {"nodeName": "ip-1"},
        "status": {"phase": "Running"}});
    assert!(decide(&held(120, pod(1, daemon))).new_nodes.is_empty());
}

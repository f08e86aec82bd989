//! kube-scheduler has the last word about nodes that are ready.

use super::*;

fn said(number: u32, message: &str) -> Streamed<Pod> {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": at(-60).to_string()});
    Streamed::Applied(pod(number, json!({"status": {"conditions": [condition]}})))
}

fn ready(name: &str, claim: &str, since: i64) -> Arc<Node> {
    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(since).to_string()});
    node(name, claim, json!({"status": {"conditions": [condition]}}))
}

/// The pod waits for a node that was made for it and is ready.
fn waiting() -> State {
    let mut state = state();
    state.pod(said(1, "0/1 nodes are available: 1 Insufficient cpu."), at(0));
    state.claim(Change::Applied(initialized("one", &[1], 31)), at(31));
    state.node(Change::Applied(ready("ip-1", "one", 30)), at(31));
    assert_eq!(shown(&state, 1), on("ip-1"));
    state
}

fn explained(state: &State) -> Option<String> {
    state.about("default", "pod-1").unwrap().refused.map(|text| text.to_string())
}

#[test]
fn a_pod_that_is_refused_on_the_node_made_for_it_is_planned_elsewhere() {
    let mut state = waiting();
    state.pod(said(1, "0/2 nodes are available: 2 node(s) didn't like it."), at(32));
    state.pass_time(at(50));
    assert_eq!((shown(&state, 1), state.refused), (on("ip-1"), 0), "its room is kept for a while");
    state.triggers.clear();
    state.pass_time(at(51));
    assert_eq!((shown(&state, 1), state.refused, state.triggers.len()), (Shown::Pending, 1, 1));
    let why = explained(&state).unwrap();
    assert!(why.contains("node ip-1") && why.contains("didn't like it"), "{why}");
    let plan = decide(&state);
    assert_eq!((plan.new_nodes.len(), plan.existing.len()), (1, 0), "not on ip-1, which has room");
    // What is said later about it changes nothing of that.
    state.pod(said(1, "0/2 nodes are available: 2 Insufficient patience."), at(52));
    assert_eq!(decide(&state).new_nodes.len(), 1);
    // Another pod is planned there.
    state.pod(Streamed::Applied(pod(2, json!({}))), at(53));
    assert_eq!(decide(&state).existing.len(), 1);
}

#[test]
fn without_a_word_of_the_scheduler_since_the_node_is_ready_nobody_is_refused() {
    let mut state = waiting();
    state.pass_time(at(51));
    assert_eq!((shown(&state, 1), state.refused, explained(&state)), (Shown::Pending, 0, None));
    let plan = decide(&state);
    assert_eq!((plan.new_nodes.len(), plan.existing.len()), (0, 1), "there is room for it");
}

#[test]
fn a_pod_whose_room_others_took_is_not_refused() {
    let mut state = waiting();
    for number in 2..=5 {
        state.pod(Streamed::Applied(bound(number, "ip-1")), at(32));
    }
    state.pod(said(1, "0/2 nodes are available: 2 Insufficient cpu."), at(33));
    state.pass_time(at(51));
    assert_eq!(state.refused, 0);
}

#[test]
fn a_pod_whose_twin_took_its_place_is_not_refused() {
    let spread = json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": labels::ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}]}});
    let words = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "1 node(s) didn't match pod topology spread constraints.",
        "lastTransitionTime": at(-60).to_string()}]}});
    let mut patch = spread;
    merge(&mut patch, words);
    let refused = |taken_by: Option<Arc<Pod>>| {
        let mut state = waiting();
        taken_by.into_iter().for_each(|twin| state.pod(Streamed::Applied(twin), at(32)));
        state.pod(Streamed::Applied(pod(1, patch.clone())), at(33));
        state.pass_time(at(51));
        state.refused
    };
    assert_eq!(refused(None), 1);
    assert_eq!(refused(Some(bound(2, "ip-1"))), 0, "it is planned anew, with its twin where it is");
    let other = pod(
        2,
        json!({"metadata": {"labels": {"app": "b"}}, "spec": {"nodeName": "ip-1"},
        "status": {"phase": "Running", "conditions": []}}),
    );
    assert_eq!(refused(Some(other)), 1, "nothing keeps these two apart");
}

#[test]
fn a_pod_that_is_refused_again_and_again_gets_further_nodes_after_growing_pauses_only() {
    let mut state = waiting();
    state.pod(said(1, "no"), at(32));
    state.pass_time(at(51));
    state.claim(Change::Applied(initialized("two", &[1], 61)), at(61));
    state.node(Change::Applied(ready("ip-2", "two", 60)), at(61));
    assert_eq!(shown(&state, 1), on("ip-2"));
    state.pod(said(1, "no again"), at(62));
    state.pass_time(at(81));
    assert_eq!(state.refused, 2);
    let plan = decide(&state);
    assert_eq!((plan.new_nodes.len(), plan.unschedulable.len()), (0, 1));
    let why = plan.unschedulable[0].why.to_string();
    assert!(why.contains("2 nodes in a row") && why.contains("no again"), "{why}");
    state.pod(said(1, "no, as I said"), at(90));
    assert_eq!(decide(&state).new_nodes.len(), 0, "a new word does not end the pause");
    state.triggers.clear();
    state.pass_time(at(81 + 300));
    let plan = decide(&state);
    assert_eq!((plan.new_nodes.len(), plan.existing.len(), state.triggers.len()), (1, 0, 1));
}

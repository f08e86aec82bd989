//! The scheduler binds pods in its own order: who was meant for a node that others have filled is decided about again.

use super::*;

/// A node of four CPUs for pods 1 to 4 of one CPU each, and another one for pod 5.
fn two_nodes() -> State {
    let mut state = state();
    for number in 1..=5 {
        state.pod(Streamed::Applied(pod(number, json!({}))), at(0));
    }
    state.claim(Change::Applied(initialized("one", &[1, 2, 3, 4], 0)), at(0));
    state.claim(Change::Applied(initialized("two", &[5], 0)), at(0));
    state.node(Change::Applied(node("ip-1", "one", json!({}))), at(0));
    state.node(Change::Applied(node("ip-2", "two", json!({}))), at(0));
    assert_eq!((shown(&state, 4), shown(&state, 5)), (on("ip-1"), on("ip-2")));
    state.triggers.clear();
    state
}

#[test]
fn a_pod_whose_room_others_took_is_decided_about_before_its_nomination_ends() {
    let mut state = two_nodes();
    // Pod 5 goes where pod 4 was to go.
    for number in [1, 2, 3, 5] {
        state.pod(Streamed::Applied(bound(number, "ip-1")), at(1));
    }
    state.pass_time(at(4));
    assert!(state.triggers.is_empty(), "the scheduler may still be at it");
    state.pass_time(at(5));
    assert_eq!((shown(&state, 4), state.triggers.len()), (Shown::Pending, 1));
    // Where pod 5 was to go there is room: nothing is bought.
    let plan = decide(&state);
    assert_eq!((plan.new_nodes.len(), plan.existing.len()), (0, 1));
    // The claim keeps its word for nobody else's sake: it is not read back from the claim either.
    state.claim(Change::Applied(initialized("one", &[1, 2, 3, 4], 0)), at(6));
    assert_eq!(shown(&state, 4), Shown::Pending);
}

// Cases: CST-27
#[test]
fn a_pod_that_still_fits_keeps_its_room_until_its_nomination_ends() {
    let mut state = two_nodes();
    for number in [1, 2, 3] {
        state.pod(Streamed::Applied(bound(number, "ip-1")), at(1));
    }
    state.pass_time(at(5));
    assert_eq!((shown(&state, 4), state.triggers.len()), (on("ip-1"), 0));
    state.pass_time(at(20));
    assert_eq!(shown(&state, 4), Shown::Pending);
}

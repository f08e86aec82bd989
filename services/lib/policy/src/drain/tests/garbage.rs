use super::super::collect::{
    Abandoned, ClaimRef, InstanceSeen, NodeOfClaim, NodeRef, Unwanted, is_lost, missing,
};
use super::*;

fn instance(id: &str) -> InstanceSeen {
    InstanceSeen {
        id: id.into(),
        ending: false,
        launched_at: Some(at(-600)),
        claim: Some(format!("claim-{id}")),
        batch: None,
    }
}

fn claim(id: &str) -> ClaimRef {
    ClaimRef {
        name: format!("claim-{id}"),
        instance: Some(id.into()),
        batch: None,
        registered: true,
        deleting: false,
        created_at: at(-600),
    }
}

#[test]
fn an_instance_without_claim_is_unwanted_only_at_the_second_look_in_a_row() {
    let mut memory = Unwanted::default();
    let all = [instance("i-1"), instance("i-2")];
    assert!(memory.look(&all, &[claim("i-2")], at(0)).is_empty());
    assert_eq!(memory.look(&all, &[claim("i-2")], at(10)), ["i-1"]);
    assert!(memory.look(&all, &[claim("i-1"), claim("i-2")], at(20)).is_empty(), "its claim came");
    assert!(memory.look(&all, &[claim("i-2")], at(30)).is_empty(), "the count began anew");
    assert_eq!(memory.look(&all, &[claim("i-2")], at(40)), ["i-1"]);
}

#[test]
fn young_ending_and_expected_instances_are_left_alone() {
    let twice = |instance: InstanceSeen, claims: &[ClaimRef]| {
        let mut memory = Unwanted::default();
        memory.look(std::slice::from_ref(&instance), claims, at(0));
        !memory.look(&[instance], claims, at(10)).is_empty()
    };
    assert!(twice(instance("i-1"), &[]));
    assert!(!twice(InstanceSeen { launched_at: Some(at(-15)), ..instance("i-1") }, &[]), "25 s old");
    assert!(!twice(InstanceSeen { ending: true, ..instance("i-1") }, &[]));
    let launching = ClaimRef { instance: None, ..claim("i-1") };
    assert!(!twice(instance("i-1"), &[launching]), "the launch is not noted yet");
    let other = ClaimRef { instance: Some("i-9".into()), ..claim("i-1") };
    assert!(twice(instance("i-1"), &[other]), "its claim runs on another instance");
    assert!(twice(InstanceSeen { claim: None, ..instance("i-1") }, &[]), "from before the tag existed");
}

#[test]
fn an_instance_of_a_batch_is_expected_while_a_claim_of_the_batch_has_none() {
    let shared = InstanceSeen { claim: None, batch: Some("b-2".into()), ..instance("i-1") };
    let of_batch = |id: &str, noted: Option<&str>| ClaimRef {
        batch: Some("b-2".into()),
        instance: noted.map(str::to_owned),
        ..claim(id)
    };
    let mut memory = Unwanted::default();
    let mut look =
        |claims: &[ClaimRef], second| memory.look(std::slice::from_ref(&shared), claims, at(second));
    for n in 0..5 {
        assert!(look(&[of_batch("a", Some("i-9")), of_batch("b", None)], n * 10).is_empty(), "b may get it");
    }
    assert!(look(&[of_batch("a", Some("i-9")), of_batch("b", Some("i-1"))], 60).is_empty(), "b has it");
    let others =
        [of_batch("a", Some("i-9")), of_batch("b", Some("i-8")), ClaimRef { instance: None, ..claim("c") }];
    assert!(look(&others, 70).is_empty(), "seen once");
    assert_eq!(look(&others, 80), ["i-1"], "every claim of the batch has another");
}

#[test]
fn a_claim_that_is_being_deleted_still_wants_its_instance() {
    let mut memory = Unwanted::default();
    let going = [ClaimRef { deleting: true, ..claim("i-1") }];
    for n in 0..5 {
        assert!(memory.look(&[instance("i-1")], &going, at(n * 10)).is_empty());
    }
}

#[test]
fn a_clock_behind_that_of_ec2_delays_and_does_not_hurry() {
    for launched_at in [Some(at(500)), None] {
        let strange = InstanceSeen { launched_at, ..instance("i-1") };
        let mut memory = Unwanted::default();
        let mut look = |seconds| memory.look(std::slice::from_ref(&strange), &[], at(seconds)).len();
        assert_eq!([look(0), look(10), look(20), look(30), look(40)], [0, 0, 0, 0, 1], "{launched_at:?}");
    }
}

// Cases: GC-4, GC-5
#[test]
fn a_claim_is_lost_only_when_registered_old_enough_and_its_instance_not_listed() {
    let count = |claim: ClaimRef, instances: &[InstanceSeen]| missing(&[claim], instances, at(0)).len();
    assert_eq!(count(claim("i-1"), &[]), 1);
    assert_eq!(count(claim("i-1"), &[instance("i-1")]), 0);
    assert_eq!(count(claim("i-1"), &[InstanceSeen { ending: true, ..instance("i-1") }]), 1);
    assert_eq!(count(ClaimRef { registered: false, ..claim("i-1") }, &[]), 0);
    assert_eq!(count(ClaimRef { deleting: true, ..claim("i-1") }, &[]), 0);
    assert_eq!(count(ClaimRef { instance: None, ..claim("i-1") }, &[]), 0);
    assert_eq!(count(ClaimRef { created_at: at(-20), ..claim("i-1") }, &[]), 0);
}

// Cases: GC-1, GC-2
#[test]
fn a_living_kubelet_or_any_failed_question_keeps_the_claim() {
    for (present, node, lost) in [
        (Some(false), NodeOfClaim::NotReady, true),
        (Some(false), NodeOfClaim::NotOne, true),
        (Some(false), NodeOfClaim::Ready, false),
        (Some(false), NodeOfClaim::Unknown, false),
        (Some(true), NodeOfClaim::NotReady, false),
        (None, NodeOfClaim::NotReady, false),
        (None, NodeOfClaim::NotOne, false),
    ] {
        assert_eq!(is_lost(present, node), lost, "{present:?} {node:?}");
    }
}

#[test]
fn a_node_is_abandoned_only_when_two_looks_in_a_row_find_neither_claim_nor_instance() {
    let node =
        |id: &str| NodeRef { name: format!("node-{id}"), uid: format!("uid-{id}"), instance: id.into() };
    let nodes = [node("i-1"), node("i-2"), node("i-3"), node("i-4")];
    let ending = InstanceSeen { ending: true, ..instance("i-3") };
    let (claims, instances) = ([claim("i-2")], [ending, instance("i-4")]);
    let mut memory = Abandoned::default();
    assert!(memory.look(&nodes, &instances, &claims).is_empty(), "once is no proof");
    assert_eq!(memory.look(&nodes, &instances, &claims), [node("i-1")]);
    assert!(memory.look(&nodes, &[instance("i-1")], &claims).iter().all(|node| node.instance != "i-1"));
    let anew = memory.look(&nodes, &[], &claims);
    assert!(anew.iter().all(|node| node.instance != "i-1"), "the count began anew: {anew:?}");
    let mut namesake = [node("i-1")];
    memory.look(&namesake, &[], &[]);
    namesake[0].uid = "another".into();
    assert!(memory.look(&namesake, &[], &[]).is_empty(), "another node of that name");
}

//! What conditions say over an object's life.

use api::conditions::{
    self, Condition, ConditionSet, ConditionStatus, Finding, READY, find, is_true, set_plain, status,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

const CREATED: i64 = 1_767_322_800;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(CREATED + seconds).unwrap()
}

fn object(generation: i64) -> ObjectMeta {
    ObjectMeta { generation: Some(generation), creation_timestamp: Some(Time(at(0))), ..Default::default() }
}

fn types(conditions: &[Condition]) -> Vec<&str> {
    conditions.iter().map(|condition| condition.type_.as_str()).collect()
}

/// A claim that was launched after 10 s, registered after 20 s and initialized after 30 s.
fn ready_claim() -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (index, type_) in ["Launched", "Registered", "Initialized"].into_iter().enumerate() {
        let now = at(10 * (index as i64 + 1));
        assert!(ConditionSet::NODE_CLAIM.set(&mut conditions, &object(1), type_, Finding::holds(), now));
    }
    conditions
}

// Cases: SCH-M.2-32
#[test]
fn at_first_touch_root_and_dependents_are_unknown_since_creation() {
    let mut conditions = Vec::new();
    assert!(ConditionSet::NODE_POOL.initialize(&mut conditions, &object(1), at(60)));
    assert_eq!(types(&conditions), ["ValidationSucceeded", "NodeClassReady", "Ready"]);
    for condition in &conditions {
        assert_eq!(condition.status, ConditionStatus::Unknown);
        assert_eq!(condition.reason, "AwaitingReconciliation");
        assert_eq!(condition.last_transition_time, Time(at(0)));
        assert_eq!(condition.observed_generation, Some(1));
    }
    assert!(!ConditionSet::NODE_POOL.initialize(&mut conditions, &object(1), at(61)));
}

#[test]
fn ready_follows_when_the_last_dependent_holds() {
    let conditions = ready_claim();
    let root = find(&conditions, READY).unwrap();
    assert_eq!((root.status.as_str(), root.reason.as_str(), root.message.as_str()), ("True", "Ready", ""));
    assert_eq!(root.last_transition_time, Time(at(30)));
    assert_eq!(find(&conditions, "Launched").unwrap().reason, "Launched");
    assert_eq!(types(&conditions), ["Launched", "Registered", "Initialized", "Ready"]);
    assert!(ConditionSet::NODE_CLAIM.is_ready(&conditions, &object(1)));
}

#[test]
fn until_then_ready_names_what_is_missing_latest_transition_first() {
    let mut conditions = Vec::new();
    ConditionSet::NODE_CLAIM.set(&mut conditions, &object(1), "Launched", Finding::holds(), at(10));
    ConditionSet::NODE_CLAIM.set(
        &mut conditions,
        &object(1),
        "Registered",
        Finding::fails("MultipleNodesFound", "two nodes"),
        at(20),
    );
    let root = find(&conditions, READY).unwrap();
    assert_eq!(root.reason, "UnhealthyDependents");
    assert_eq!(root.status, ConditionStatus::False);
    assert_eq!(root.message, "Registered=False, Initialized=Unknown");

    ConditionSet::NODE_CLAIM.set(
        &mut conditions,
        &object(1),
        "Registered",
        Finding::open("NodeNotFound", ""),
        at(30),
    );
    let root = find(&conditions, READY).unwrap();
    assert_eq!(root.reason, "ReconcilingDependents");
    assert_eq!(root.status, ConditionStatus::Unknown);
    assert_eq!(root.last_transition_time, Time(at(30)));
}

#[test]
fn of_several_transitions_in_one_second_the_last_is_named_first() {
    let (mut conditions, set) = (Vec::new(), ConditionSet::ec2_node_class(false));
    for type_ in set.dependents() {
        set.set(&mut conditions, &object(1), type_, Finding::holds(), at(1));
    }
    let fails = || Finding::fails("SubnetsNotFound", "");
    set.set(&mut conditions, &object(1), "SubnetsReady", fails(), at(2));
    set.set(&mut conditions, &object(1), "ValidationSucceeded", fails(), at(2));
    let root = find(&conditions, READY).unwrap();
    assert_eq!(root.message, "ValidationSucceeded=False, SubnetsReady=False");
}

#[test]
fn a_new_generation_makes_ready_unknown_until_every_dependent_was_looked_at_again() {
    let mut conditions = ready_claim();
    assert!(!ConditionSet::NODE_CLAIM.is_ready(&conditions, &object(2)));
    ConditionSet::NODE_CLAIM.set(&mut conditions, &object(2), "Launched", Finding::holds(), at(40));
    assert_eq!(status(&conditions, READY), ConditionStatus::Unknown);
    assert_eq!(find(&conditions, "Launched").unwrap().last_transition_time, Time(at(10)));
    ConditionSet::NODE_CLAIM.set(&mut conditions, &object(2), "Registered", Finding::holds(), at(50));
    ConditionSet::NODE_CLAIM.set(&mut conditions, &object(2), "Initialized", Finding::holds(), at(60));
    assert!(ConditionSet::NODE_CLAIM.is_ready(&conditions, &object(2)));
}

#[test]
fn a_failure_seen_at_an_older_generation_makes_ready_unknown_not_false() {
    let mut conditions = Vec::new();
    let set = ConditionSet::NODE_POOL;
    set.set(
        &mut conditions,
        &object(1),
        "ValidationSucceeded",
        Finding::fails("NodePoolValidationFailed", "x"),
        at(1),
    );
    assert_eq!(status(&conditions, READY), ConditionStatus::False);
    set.set(&mut conditions, &object(2), "NodeClassReady", Finding::holds(), at(2));
    assert_eq!(status(&conditions, READY), ConditionStatus::Unknown);
}

// Cases: FIN-7
#[test]
fn deletion_raises_the_generation_but_does_not_make_a_ready_claim_unready() {
    let mut conditions = ready_claim();
    let deleted = ObjectMeta { deletion_timestamp: Some(Time(at(40))), ..object(2) };
    let draining = Finding::open("Draining", "");
    assert!(ConditionSet::NODE_CLAIM.set(&mut conditions, &deleted, "Drained", draining, at(41)));
    assert!(ConditionSet::NODE_CLAIM.is_ready(&conditions, &deleted));
    assert_eq!(find(&conditions, READY).unwrap().last_transition_time, Time(at(30)));
}

// Cases: SCH-M.2-30
#[test]
fn the_transition_time_moves_only_with_the_status() {
    let mut conditions = Vec::new();
    let set = ConditionSet::NODE_CLAIM;
    set.set(&mut conditions, &object(1), "Registered", Finding::open("NodeNotFound", "a"), at(5));
    assert!(set.set(&mut conditions, &object(1), "Registered", Finding::open("NodeNotFound", "b"), at(9)));
    let registered = find(&conditions, "Registered").unwrap();
    assert_eq!(registered.last_transition_time, Time(at(0)));
    assert_eq!(registered.message, "b");
}

#[test]
fn setting_what_is_already_so_changes_nothing() {
    let mut conditions = ready_claim();
    let before = conditions.clone();
    assert!(!ConditionSet::NODE_CLAIM.set(&mut conditions, &object(1), "Launched", Finding::holds(), at(99)));
    assert_eq!(conditions, before);
}

#[test]
fn other_conditions_come_and_go_without_touching_ready() {
    let mut conditions = ready_claim();
    let set = ConditionSet::NODE_CLAIM;
    let drifted = Finding::holds_because("AMIDrift", "AMIDrift");
    assert!(set.set(&mut conditions, &object(1), "Drifted", drifted, at(15)));
    assert_eq!(types(&conditions), ["Launched", "Drifted", "Registered", "Initialized", "Ready"]);
    assert!(is_true(&conditions, "Drifted") && is_true(&conditions, READY));
    assert!(set.clear(&mut conditions, "Drifted"));
    assert!(!set.clear(&mut conditions, "Drifted"));
    assert_eq!(status(&conditions, "Drifted"), ConditionStatus::Unknown);
}

#[test]
fn dependents_and_ready_cannot_be_cleared() {
    let mut conditions = ready_claim();
    assert!(!ConditionSet::NODE_CLAIM.clear(&mut conditions, "Launched"));
    assert!(!ConditionSet::NODE_CLAIM.clear(&mut conditions, READY));
    assert_eq!(conditions.len(), 4);
}

#[test]
fn a_dependent_that_a_newer_release_adds_takes_readiness_back() {
    let mut conditions = Vec::new();
    let without = ConditionSet::ec2_node_class(false);
    for type_ in without.dependents() {
        without.set(&mut conditions, &object(1), type_, Finding::holds(), at(1));
    }
    assert!(without.is_ready(&conditions, &object(1)));
    let with = ConditionSet::ec2_node_class(true);
    assert_eq!(with.dependents().len(), without.dependents().len() + 1);
    assert!(with.initialize(&mut conditions, &object(1), at(2)));
    assert!(!with.is_ready(&conditions, &object(1)));
    assert_eq!(find(&conditions, READY).unwrap().message, "CapacityReservationsReady=Unknown");
}

// Cases: SCH-M.2-32
#[test]
fn times_are_whole_seconds_as_kubernetes_stores_them() {
    let mut conditions = Vec::new();
    let now = Timestamp::new(CREATED + 7, 123_456_789).unwrap();
    set_plain(&mut conditions, Some(3), "Provisioning", Finding::fails("BufferEmpty", ""), now);
    assert_eq!(conditions[0].last_transition_time, Time(at(7)));
    let text = serde_json::to_string(&conditions).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Condition>>(&text).unwrap(), conditions);
}

// Cases: SCH-M.2-29, SCH-M.2-31
#[test]
fn kinds_without_ready_get_none() {
    let mut conditions = Vec::new();
    let finding = Finding::holds_because("Resolved", "");
    assert!(set_plain(&mut conditions, Some(1), "ReadyForProvisioning", finding.clone(), at(1)));
    assert!(!set_plain(&mut conditions, Some(1), "ReadyForProvisioning", finding, at(2)));
    assert_eq!(conditions::find(&conditions, READY), None);
}

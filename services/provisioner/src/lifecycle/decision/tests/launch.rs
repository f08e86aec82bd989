//! LCH, LIV and FIN of the catalogue.

use super::*;

// Cases: HYD-4, LCH-2, REG-2, INI-2, LIV-2, FIN-2, CON-2
#[test]
fn a_claim_of_another_provider_is_left_alone_whatever_its_state() {
    assert_eq!(step(&foreign(), vec![], 0), Step::Leave);
    assert_eq!(step(&foreign(), vec![node(json!({}))], 100_000), Step::Leave);
}

#[test]
fn a_claim_that_is_being_deleted_is_left_to_termination() {
    let going = claim(json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:09Z"}}));
    assert_eq!(step(&going, vec![], 100_000), Step::Leave);
}

// Cases: FIN-1
#[test]
fn nothing_is_launched_before_the_finalizer_is_on() {
    assert_eq!(step(&claim(json!({"metadata": {"finalizers": null}})), vec![], 0), Step::Adopt);
    assert_eq!(step(&claim(json!({"metadata": {"finalizers": ["other/one"]}})), vec![], 0), Step::Adopt);
    assert_eq!(step(&claim(json!({})), vec![], 0), Step::Launch);
}

// Cases: HYD-3
#[test]
fn a_claim_from_before_the_label_gets_it_first() {
    let unlabelled = claim(json!({"metadata": {"labels": null}}));
    assert_eq!(step(&unlabelled, vec![], 0), Step::Adopt);
}

#[test]
fn a_failed_launch_is_tried_again_after_its_backoff_and_not_before() {
    let failed = with(claim(json!({})), &[(LAUNCHED, Finding::open("Unauthorized", "no"))], 3);
    let memory = Memory { failed_launches: 1, launch_after: Some(at(4)), ..Memory::default() };
    assert_eq!(step_with(&failed, vec![], &memory, 3), Step::Wait(Some(at(4))));
    assert_eq!(step_with(&failed, vec![], &memory, 4), Step::Launch);
}

// Cases: LIV-4, LIV-5
#[test]
fn five_minutes_without_a_launch_are_enough() {
    let failed = with(claim(json!({})), &[(LAUNCHED, Finding::open("Unauthorized", "no"))], 3);
    let memory = Memory { failed_launches: 9, launch_after: Some(at(330)), ..Memory::default() };
    assert_eq!(
        step_with(&failed, vec![], &memory, 299),
        Step::Wait(Some(at(300))),
        "the limit, not the backoff"
    );
    assert_eq!(step_with(&failed, vec![], &memory, 300), Step::GiveUp(Expired::Launch));
}

#[test]
fn a_claim_that_grew_old_while_nobody_watched_is_tried_once() {
    assert_eq!(step(&claim(json!({})), vec![], 4000), Step::Launch);
    let memory = Memory { failed_launches: 1, ..Memory::default() };
    assert_eq!(step_with(&claim(json!({})), vec![], &memory, 4000), Step::GiveUp(Expired::Launch));
}

// Cases: LIV-6
#[test]
fn another_limit_is_respected() {
    let memory = Memory { failed_launches: 1, launch_after: Some(at(1000)), ..Memory::default() };
    let limits = Limits { launch: SignedDuration::from_secs(45), ..Limits::default() };
    let claim = claim(json!({}));
    let step =
        |second| next_step(&Observed { claim: &claim, nodes: &[], memory: &memory, limits }, at(second));
    assert_eq!(step(30), Step::Wait(Some(at(45))));
    assert_eq!(step(60), Step::GiveUp(Expired::Launch));
}

// Cases: LIV-7, LIV-8
#[test]
fn time_counts_from_the_last_change_of_the_status_not_from_creation() {
    // Launched went back to Unknown at 1000.
    let again = with(launched(json!({})), &[(LAUNCHED, Finding::open("LaunchFailed", ""))], 1000);
    let memory = Memory { failed_launches: 1, launch_after: Some(at(9999)), ..Memory::default() };
    assert_eq!(step_with(&again, vec![], &memory, 1299), Step::Wait(Some(at(1300))));
    assert_eq!(step_with(&again, vec![], &memory, 1300), Step::GiveUp(Expired::Launch));

    let unregistered = with(registered(json!({})), &[(REGISTERED, no_node_yet())], 1000);
    assert_eq!(step(&unregistered, vec![], 1899), Step::Wait(Some(at(1900))));
    assert_eq!(step(&unregistered, vec![], 1900), Step::GiveUp(Expired::Registration));
}

// Cases: LIV-1, LIV-3
#[test]
fn fifteen_minutes_without_a_node_are_enough_and_a_registered_claim_has_no_limit() {
    let waiting = with(launched(json!({})), &[(REGISTERED, no_node_yet())], 10);
    assert_eq!(step(&waiting, vec![], 899), Step::Wait(Some(at(900))));
    assert_eq!(step(&waiting, vec![], 900), Step::GiveUp(Expired::Registration));
    let done = step(&registered(json!({})), vec![], 100_000);
    assert_eq!(noted(&done), says(INITIALIZED, "Unknown", "NodeNotFound"));
}

#[test]
fn a_node_that_joined_at_the_last_moment_is_still_taken() {
    let waiting = with(launched(json!({})), &[(REGISTERED, no_node_yet())], 10);
    assert!(matches!(step(&waiting, vec![node(json!({}))], 5000), Step::Register(_)));
}

#[test]
fn backoff_grows_from_one_second_to_one_minute() {
    let seconds: Vec<i64> = [1, 2, 3, 6, 7, 8, 200].map(|n| launch_backoff(n).as_secs()).to_vec();
    assert_eq!(seconds, [1, 2, 4, 32, 60, 60, 60]);
}

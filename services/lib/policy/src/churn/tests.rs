use std::collections::BTreeMap;
use std::sync::Arc;

use model::labels;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn settings(list: &[(&'static str, &'static str)]) -> Settings {
    let map: BTreeMap<&str, &'static str> = list.iter().copied().collect();
    Settings::read(|key| map.get(key).copied())
}

fn movement(removed: i64, added: i64, new_nodes: usize) -> Move {
    Move { removed: MicroDollars::new(removed), added: MicroDollars::new(added), new_nodes, pods: 0 }
}

#[test]
fn without_annotations_any_saving_by_one_node_will_do() {
    let plain = settings(&[]);
    assert_eq!(plain, Settings::default());
    let worth = worth(movement(100_000, 99_999, 1), [&plain]).unwrap();
    assert_eq!(worth.saving, MicroDollars::new(1));
    assert_eq!(cooling_until(&plain, Some(at(0)), at(0)), None);
}

#[test]
fn several_by_several_needs_every_pool_to_opt_in() {
    let (plain, many) = (settings(&[]), settings(&[(labels::MANY_FOR_MANY, "true")]));
    let three_for_two = movement(300_000, 200_000, 2);
    assert_eq!(worth(three_for_two, [&plain]), Err(Refusal::TooManyNew(2)));
    assert_eq!(worth(three_for_two, [&many, &plain]), Err(Refusal::TooManyNew(2)));
    // $0.20 an hour paid twice for five minutes, at $0.10 an hour saved.
    let found = worth(three_for_two, [&many, &many]).unwrap();
    assert_eq!((found.saving.get(), found.payback.as_mins()), (100_000, 10));
}

#[test]
fn less_than_the_minimum_saving_is_refused_in_figures() {
    let share = settings(&[(labels::MINIMUM_SAVING, "10%")]);
    assert!(worth(movement(100_000, 90_000, 1), [&share]).is_ok());
    let refusal = worth(movement(100_000, 90_001, 1), [&share]).unwrap_err().to_string();
    assert!(refusal.contains("$0.009999") && refusal.contains("$0.01"), "{refusal}");
    let absolute = settings(&[(labels::MINIMUM_SAVING, "0.02")]);
    assert!(worth(movement(100_000, 80_000, 1), [&absolute]).is_ok());
    assert!(worth(movement(100_000, 80_001, 1), [&absolute]).is_err());
    assert!(worth(movement(19_999, 0, 0), [&absolute]).is_err(), "deletions too");
}

#[test]
fn a_move_must_pay_for_itself_in_time() {
    let patient = settings(&[(labels::LONGEST_PAYBACK, "4h")]);
    // 95 a paid twice for 5 minutes at 5 saved: 95 minutes.
    assert_eq!(worth(movement(100, 95, 1), [&patient]).unwrap().payback.as_mins(), 95);
    assert!(matches!(
        worth(movement(100, 99, 1), [&patient]),
        Err(Refusal::PaysBackLate { minutes: 495, longest: 240 })
    ));
    assert_eq!(movement(100, 0, 0).payback(), SignedDuration::ZERO);
    assert_eq!(movement(100, 100, 1).payback(), SignedDuration::MAX);
    let many = settings(&[(labels::MANY_FOR_MANY, "true")]);
    assert!(matches!(
        worth(movement(1000, 999, 2), [&many]),
        Err(Refusal::PaysBackLate { longest: 1440, .. })
    ));
}

#[test]
fn a_pool_rests_between_consolidations() {
    let calm = settings(&[(labels::COOL_DOWN, "10m")]);
    assert_eq!(cooling_until(&calm, Some(at(0)), at(599)), Some(at(600)));
    assert_eq!(cooling_until(&calm, Some(at(0)), at(600)), None);
    assert_eq!(cooling_until(&calm, None, at(0)), None);
}

#[test]
fn an_annotation_that_cannot_be_read_stops_consolidation_and_says_so() {
    for (key, value) in [
        (labels::MANY_FOR_MANY, "yes"),
        (labels::MINIMUM_SAVING, "lots"),
        (labels::MINIMUM_SAVING, "101%"),
        (labels::MINIMUM_SAVING, "-1%"),
        (labels::MINIMUM_SAVING, "-0.5"),
        (labels::COOL_DOWN, "soon"),
        (labels::COOL_DOWN, "-5m"),
        (labels::LONGEST_PAYBACK, "4"),
    ] {
        let refusal = worth(movement(100_000, 1, 1), [&settings(&[(key, value)])]).unwrap_err().to_string();
        assert!(refusal.contains(key) && refusal.contains(value), "{refusal}");
    }
}

#[test]
fn a_pool_whose_replacements_fail_rests_ever_longer_and_holds_up_no_other() {
    let (broken, other): (Arc<str>, Arc<str>) = (Arc::from("broken"), Arc::from("other"));
    let mut backoff = Backoff::default();
    let mut rests = Vec::new();
    for _ in 0..8 {
        rests.push(backoff.failed(&broken, 0, at(0)).as_second() - at(0).as_second());
    }
    assert_eq!(rests, [30, 60, 120, 240, 480, 600, 600, 600]);
    assert_eq!(backoff.resting_until(&broken, at(599)), Some(at(600)));
    assert_eq!(backoff.resting_until(&broken, at(600)), None);
    assert_eq!(backoff.resting_until(&other, at(0)), None);
    assert_eq!(backoff.failures(&broken), 8);
    backoff.succeeded(&broken);
    assert_eq!(backoff.failed(&broken, 0, at(0)), at(30));
    let jittered = Backoff::default().failed(&broken, 999, at(0));
    assert!(jittered < at(30) && jittered > at(22), "{jittered}");
}

#[test]
fn moving_many_pods_for_little_is_refused_unless_the_pool_says_otherwise() {
    // One node by three, 49 pods moved, $0.006 an hour saved: the worst command of a day of web traffic.
    let worst = Move { pods: 49, ..movement(306_000, 300_000, 1) };
    let refusal = worth(worst, [&settings(&[])]).unwrap_err().to_string();
    assert!(refusal.contains("49 pods") && refusal.contains("$0.006"), "{refusal}");
    assert!(worth(worst, [&settings(&[(labels::COST_PER_POD, "0")])]).is_ok(), "turned off");
    assert!(worth(Move { pods: 15, ..movement(300_000, 150_000, 1) }, [&settings(&[])]).is_ok());
    let deletion = Move { pods: 49, ..movement(6_000, 0, 0) };
    assert!(worth(deletion, [&settings(&[])]).is_ok(), "deletions are not weighed");
    assert!(settings(&[(labels::COST_PER_POD, "much")]).problem.is_some());
}

#[test]
fn a_pause_ends_by_itself_and_one_that_cannot_be_read_does_not() {
    let paused = settings(&[(labels::PAUSED_UNTIL, "2027-01-15T08:00:01Z")]);
    assert_eq!(paused.paused(at(0)), Some(at(1)));
    assert_eq!(paused.paused(at(1)), None);
    let unreadable = settings(&[(labels::PAUSED_UNTIL, "tomorrow")]);
    assert!(unreadable.paused(at(0)).is_some() && unreadable.problem.is_some());
}

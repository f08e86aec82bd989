use super::super::consolidatable::*;
use super::at;
use crate::candidate::Consolidatable;

const DAY: i64 = 86_400;

fn judged(after: &str, initialized: Option<i64>, last: Option<i64>, now: i64) -> Consolidatable {
    let after = after.parse().unwrap();
    let facts = Facts {
        fixed_size: false,
        consolidate_after: &after,
        initialized: initialized.map(at),
        last_event: last.map(at),
    };
    verdict(facts, at(now))
}

// Cases: CSB-2, CSB-4
#[test]
fn a_claim_is_consolidatable_after_the_quiet_time_since_its_last_pod_event() {
    assert_eq!(judged("1m", Some(0), Some(100), 159), Consolidatable::NotBefore(at(160)));
    assert_eq!(judged("1m", Some(0), Some(100), 160), Consolidatable::Yes);
}

// Cases: CSB-3
#[test]
fn without_a_pod_event_the_time_of_initialization_counts() {
    assert_eq!(judged("1m", Some(50), None, 109), Consolidatable::NotBefore(at(110)));
    assert_eq!(judged("1m", Some(50), None, 110), Consolidatable::Yes);
}

// Cases: CSB-5
#[test]
fn zero_is_at_once_and_never_is_never() {
    assert_eq!(judged("0s", Some(0), Some(100), 100), Consolidatable::Yes);
    assert_eq!(judged("Never", Some(0), Some(100), 100 * DAY), Consolidatable::No);
}

// Cases: CSB-6, CSB-7, CSB-9
#[test]
fn claims_that_are_not_initialized_or_of_a_fixed_pool_never_are() {
    assert_eq!(judged("0s", None, Some(100), 200), Consolidatable::No);
    let after = "0s".parse().unwrap();
    let fixed =
        Facts { fixed_size: true, consolidate_after: &after, initialized: Some(at(0)), last_event: None };
    assert_eq!(verdict(fixed, at(10)), Consolidatable::No);
}

#[test]
fn the_last_event_is_taken_from_what_pods_carry_so_that_a_restart_changes_nothing() {
    let pods = [
        PodTimes { bound: Some(at(10)), ..PodTimes::default() },
        PodTimes { bound: Some(at(5)), told_to_end: Some(at(40)), ..PodTimes::default() },
        PodTimes { bound: Some(at(1)), ended: Some(at(30)), ..PodTimes::default() },
        PodTimes::default(),
    ];
    assert_eq!(last_event(pods, at(100)), Some(at(40)));
    assert_eq!(last_event(pods, at(1_000_000)), Some(at(40)), "however late one asks");
    assert_eq!(last_event([], at(100)), None);
    let ahead = [PodTimes { bound: Some(at(500)), ..PodTimes::default() }];
    assert_eq!(
        last_event(ahead, at(100)),
        Some(at(100)),
        "a clock that is ahead does not hold a node longer"
    );
}

// Cases: PEV-4, PEV-5
#[test]
fn events_are_written_down_at_most_every_ten_seconds_and_never_lost() {
    assert_eq!(record(None, Some(at(5)), at(5)), Record::Write(at(5)));
    assert_eq!(record(Some(at(0)), Some(at(5)), at(5)), Record::NotBefore(at(10)));
    assert_eq!(record(Some(at(0)), Some(at(5)), at(10)), Record::Write(at(5)));
    assert_eq!(record(Some(at(0)), Some(at(12)), at(12)), Record::Write(at(12)));
    assert_eq!(record(Some(at(5)), Some(at(5)), at(60)), Record::Nothing);
    assert_eq!(record(Some(at(9)), Some(at(5)), at(60)), Record::Nothing, "an older event changes nothing");
    assert_eq!(record(Some(at(9)), None, at(60)), Record::Nothing);
}

use jiff::SignedDuration;

use super::super::repair::*;
use super::at;

const MINUTE: i64 = 60;

fn bad(condition: &'static str, status: &'static str) -> Reported<'static> {
    Reported { condition, status, since: at(0) }
}

const FEW: Neighbours = Neighbours { total: 10, unhealthy: 1 };

// Cases: HLT-1, HLT-4, HLT-9
#[test]
fn an_unhealthy_node_is_replaced_once_its_toleration_is_over() {
    let reported = [bad("Ready", "False")];
    assert_eq!(repair(&reported, &AWS, FEW, at(30 * MINUTE - 1)), Repair::Tolerated(at(30 * MINUTE)));
    assert_eq!(repair(&reported, &AWS, FEW, at(30 * MINUTE)), Repair::Replace(AWS[0]));
    let silent = [bad("Ready", "Unknown")];
    assert_eq!(repair(&silent, &AWS, FEW, at(30 * MINUTE)), Repair::Replace(AWS[1]));
    let broken = [bad("AcceleratedHardwareReady", "False")];
    assert_eq!(repair(&broken, &AWS, FEW, at(10 * MINUTE)), Repair::Replace(AWS[2]));
}

// Cases: HLT-2, HLT-3
#[test]
fn other_conditions_and_other_statuses_are_healthy() {
    for reported in
        [bad("Ready", "True"), bad("DiskPressure", "True"), bad("AcceleratedHardwareReady", "Unknown")]
    {
        assert_eq!(repair(&[reported], &AWS, FEW, at(1_000_000)), Repair::Healthy, "{reported:?}");
        assert!(!is_unhealthy(&[reported], &AWS));
    }
    assert!(is_unhealthy(&[bad("KernelReady", "False")], &AWS));
}

// Cases: HLT-8
#[test]
fn of_two_conditions_the_one_that_ends_first_counts() {
    let policies = [
        Policy { condition: "A", status: "False", toleration: SignedDuration::from_mins(60) },
        Policy { condition: "B", status: "False", toleration: SignedDuration::from_mins(30) },
    ];
    let reported = [bad("A", "False"), bad("B", "False")];
    assert_eq!(repair(&reported, &policies, FEW, at(27 * MINUTE)), Repair::Tolerated(at(30 * MINUTE)));
    assert_eq!(repair(&reported, &policies, FEW, at(30 * MINUTE)), Repair::Replace(policies[1]));
}

// Cases: HLT-12, HLT-14
#[test]
fn when_more_than_a_fifth_is_unhealthy_none_is_replaced() {
    let reported = [bad("Ready", "False")];
    let now = at(31 * MINUTE);
    let cases = [(1, 1, true), (3, 1, true), (3, 2, false), (10, 2, true), (10, 3, false), (11, 3, true)];
    for (total, unhealthy, allowed) in cases {
        let answer = repair(&reported, &AWS, Neighbours { total, unhealthy }, now);
        assert_eq!(matches!(answer, Repair::Replace(_)), allowed, "{unhealthy} of {total}: {answer:?}");
    }
    let Repair::Blocked(blocked) = repair(&reported, &AWS, Neighbours { total: 10, unhealthy: 3 }, now)
    else {
        panic!("must be blocked")
    };
    assert_eq!(blocked.retry, at(36 * MINUTE));
    let text = blocked.to_string();
    assert!(text.contains("3 of 10") && text.contains("at most 2"), "{text}");
}

// Cases: HLT-5, HLT-6, HLT-7
#[test]
fn the_drain_is_forced_from_now_on_unless_its_deadline_is_over_already() {
    assert_eq!(deadline(None, at(100)), Some(at(100)));
    assert_eq!(deadline(Some(at(3600)), at(100)), Some(at(100)), "a grace period does not delay it");
    assert_eq!(deadline(Some(at(99)), at(100)), None);
}

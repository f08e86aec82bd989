//! Costs in whole units.

use super::*;

// Cases: COST-1, COST-2, COST-3, COST-4, COST-5, COST-6
#[test]
fn a_plain_pod_costs_one_and_deletion_cost_and_priority_shift_it() {
    assert_eq!(eviction_cost(None, 0), COST_UNIT);
    assert_eq!(eviction_cost(Some("100"), 0), COST_UNIT + 100);
    assert_eq!(eviction_cost(Some("-100"), 0), COST_UNIT - 100);
    assert_eq!(eviction_cost(None, 1), COST_UNIT + 4);
    assert_eq!(eviction_cost(None, -1), COST_UNIT - 4);
    assert_eq!(eviction_cost(Some("-134217728"), 0), 0);
    assert_eq!(eviction_cost(None, -33_554_432), 0);
    let costs = [-1000, -1, 0, 1, 5, 1000].map(|cost: i32| eviction_cost(Some(&cost.to_string()), 0));
    assert!(costs.is_sorted());
}

#[test]
fn costs_stay_within_ten_either_way_and_nonsense_does_not_count() {
    assert_eq!(eviction_cost(Some("2147483647"), i32::MAX), 10 * COST_UNIT);
    assert_eq!(eviction_cost(Some("-2147483648"), i32::MIN), -10 * COST_UNIT);
    assert_eq!(eviction_cost(Some("1e300"), 0), 10 * COST_UNIT);
    assert_eq!(eviction_cost(Some("1e2"), 0), COST_UNIT + 100);
    for nonsense in ["much", "", "NaN"] {
        assert_eq!(eviction_cost(Some(nonsense), 0), COST_UNIT, "{nonsense}");
    }
}

#[test]
fn only_pods_that_must_move_and_cost_something_count() {
    let subject = node(vec![
        pod("a"),
        pod("b").costing(3 * COST_UNIT),
        pod("free").costing(-COST_UNIT),
        pod("agent").owned(Owner::Daemon),
        pod("done").done(),
    ]);
    assert_eq!(subject.costs(), Costs { reschedule: 5 * COST_UNIT, pods: 3 });
    assert!(!subject.costs().is_empty());
}

// Cases: BAL-38, BAL-39
#[test]
fn a_candidate_carries_price_cost_and_what_it_is() {
    let candidate = node(vec![pod("a"), pod("b"), pod("c")]).candidate().unwrap();
    assert_eq!(candidate.reschedule_cost, 4 * COST_UNIT);
    assert_eq!(candidate.price, MicroDollars::new(96_000));
    assert_eq!(candidate.instance_type.as_deref(), Some("m5.large"));
    assert!(!candidate.spot);
    let unpriced = Subject { offering: Offering::default(), ..node(vec![]) }.candidate().unwrap();
    assert_eq!((unpriced.price, unpriced.instance_type), (MicroDollars::ZERO, None));
}

#[test]
fn what_is_left_of_a_life_runs_from_whole_to_nothing() {
    let created = seconds_ago(3600);
    let left = |text: &str| lifetime_remaining(created, &text.parse().unwrap(), now());
    assert_eq!(left("Never"), 1_000_000);
    assert_eq!(left("2h"), 500_000);
    assert_eq!(left("4h"), 750_000);
    assert_eq!(left("30m"), 0);
    assert_eq!(left("0s"), 0);
}

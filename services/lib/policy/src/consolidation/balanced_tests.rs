//! The worked examples of the reference's policy, in micro-dollars and tenths of a cost.

use super::*;
use model::price::MicroDollars;

fn dollars(cents: i64) -> MicroDollars {
    MicroDollars::new(cents * 10_000)
}

/// Savings in cents, cost in tenths; totals likewise.
fn one_pool(savings: i64, cost: i64, price: i64, total_cost: i64, factor: u32) -> Score {
    let share = Share { savings: dollars(savings), pool_price: dollars(100), all_price: dollars(100), cost };
    score(share, PoolTotals { price: dollars(price), cost: total_cost }, factor)
}

// Cases: BAL-1, BAL-2, BAL-3, BAL-4, BAL-5, BAL-7, BAL-8, BAL-9, BAL-10, BAL-11, BAL-19, BAL-20, BAL-21, BAL-22, BAL-23, BAL-24
// Cases: BAL-54
#[test]
fn scores_are_those_of_the_worked_examples() {
    let cases = [
        ("oversized node", 726, 40, 5808, 900, true, 2812),
        ("spare capacity", 484, 50, 5808, 900, true, 1500),
        ("marginal replace", 242, 90, 5808, 900, false, 416),
        ("nothing saved", 0, 90, 5808, 900, false, 0),
        ("uniform pool", 242, 90, 4840, 900, true, 500),
        ("ten times the pool", 7260, 400, 58080, 9000, true, 2812),
        ("20 for 5", 20, 5, 100, 100, true, 4000),
        ("10 for 10", 10, 10, 100, 100, true, 1000),
        ("5 for 50", 5, 50, 100, 100, false, 100),
        ("0 for 10", 0, 10, 100, 100, false, 0),
        ("a loss", -5, 10, 100, 100, false, 0),
        ("both nothing", 0, 0, 100, 100, false, 0),
        ("a pool that costs nothing", 10, 10, 0, 100, false, 0),
        ("one node of one", 484, 20, 484, 20, true, 1000),
    ];
    for (name, savings, cost, price, total, approved, milli) in cases {
        let score = one_pool(savings, cost, price, total, BALANCED_FACTOR);
        assert_eq!((score.approved, score.milli), (approved, Some(milli)), "{name}");
    }
    let free = one_pool(10, 0, 100, 100, BALANCED_FACTOR);
    assert_eq!((free.approved, free.milli), (true, None), "saved without disturbing anybody");
}

// Cases: BAL-12, BAL-13, BAL-14
#[test]
fn the_factor_moves_the_bar() {
    let approved = |factor| one_pool(242, 90, 5808, 900, factor).approved;
    assert_eq!([1, 2, 3].map(approved), [false, false, true]);
}

// Cases: BAL-1
#[test]
fn shares_are_told_for_events() {
    let score = one_pool(726, 40, 5808, 900, BALANCED_FACTOR);
    assert_eq!((score.savings_share, score.cost_share), (125_000, 44_444));
}

fn candidate(pool: &str, name: &str, cents: i64, cost: i64) -> Candidate {
    Candidate {
        node: Arc::from(name),
        pool: Arc::from(pool),
        instance_type: Some(Arc::from("m5.large")),
        price: dollars(cents),
        spot: false,
        reschedule_cost: cost,
        holds_buffers: false,
    }
}

fn set(pools: &[&str]) -> std::collections::BTreeSet<Arc<str>> {
    pools.iter().map(|pool| Arc::from(*pool)).collect()
}

// Cases: BAL-30, BAL-31, BAL-52
#[test]
fn totals_sum_every_node_whether_priced_or_not() {
    let five = (0..5).map(|_| (Arc::from("a"), dollars(484), 20));
    let totals = pool_totals(five.chain([(Arc::from("a"), MicroDollars::ZERO, 10)]));
    assert_eq!(totals["a"], PoolTotals { price: dollars(2420), cost: 110 });
}

// Cases: BAL-35
#[test]
fn one_of_ten_equal_nodes_scores_one() {
    let node = candidate("a", "n", 484, 20);
    let totals = pool_totals((0..10).map(|_| (Arc::from("a"), dollars(484), 20)));
    let scores = balanced_scores(&[&node], MicroDollars::ZERO, &set(&["a"]), &totals);
    assert_eq!(scores["a"].milli, Some(1000));
    assert!(scores["a"].approved);
}

// Cases: BAL-33, BAL-34, BAL-68
#[test]
fn pools_with_other_policies_have_no_say_and_unknown_ones_refuse() {
    let node = candidate("a", "n", 484, 20);
    let none = std::collections::BTreeMap::new();
    assert!(balanced_scores(&[&node], MicroDollars::ZERO, &set(&["b"]), &none).is_empty());
    let unknown = balanced_scores(&[&node], MicroDollars::ZERO, &set(&["a"]), &none);
    assert_eq!((unknown["a"].approved, unknown["a"].milli), (false, Some(0)));
}

// Cases: BAL-36, BAL-37, BAL-51
#[test]
fn savings_of_several_pools_are_shared_by_what_their_nodes_cost_and_all_are_scored() {
    let (light, heavy) = (candidate("a", "n1", 300, 10), candidate("b", "n2", 100, 320));
    let totals = pool_totals([(Arc::from("a"), dollars(1000), 100), (Arc::from("b"), dollars(1000), 1000)]);
    let scores = balanced_scores(&[&light, &heavy], dollars(200), &set(&["a", "b"]), &totals);
    // Of $2.00 saved, a gets $1.50 and b $0.50.
    assert_eq!(scores["a"].savings_share, 150_000);
    assert_eq!(scores["b"].savings_share, 50_000);
    assert!(scores["a"].approved && !scores["b"].approved);
}

// Cases: BAL-6
#[test]
fn a_node_whose_deletion_is_not_worth_it_needs_no_simulation() {
    let totals = PoolTotals { price: dollars(5808), cost: 1170 };
    assert!(could_be_worth_it(&candidate("a", "light", 484, 40), Some(totals)));
    assert!(!could_be_worth_it(&candidate("a", "heavy", 484, 320), Some(totals)));
    assert!(could_be_worth_it(&candidate("a", "heavy", 484, 320), None));
}

use std::collections::BTreeSet;
use std::sync::Arc;

use model::price::MicroDollars;

use super::*;

fn candidate(name: &str, price: i64, pods: i64) -> Candidate {
    Candidate {
        node: Arc::from(name),
        pool: Arc::from("default"),
        instance_type: Some(Arc::from("m5.large")),
        price: MicroDollars::new(price),
        spot: false,
        reschedule_cost: COST_UNIT * (1 + pods),
        holds_buffers: false,
    }
}

fn option(name: &str, worst: i64) -> TypeOption {
    TypeOption { name: Arc::from(name), worst_price: MicroDollars::new(worst), worst_spot_price: None }
}

fn one_new(types: Vec<TypeOption>) -> Outcome {
    let node = Replacement { types, allows_on_demand: true, ..Replacement::default() };
    Outcome { new_nodes: vec![node], ..Outcome::default() }
}

fn replace(types: Vec<usize>, pin_spot: bool) -> Decision {
    Decision::Replace(vec![Kept { types, pin_spot }])
}

fn names(chosen: &[&Candidate]) -> Vec<String> {
    chosen.iter().map(|c| c.node.to_string()).collect()
}

// Cases: ORD-1, SNG-1, SNG-3, BAL-43, BAL-44, BAL-45
#[test]
fn dear_nodes_with_few_pods_come_first_and_names_break_ties() {
    let mut all =
        [candidate("b", 100, 1), candidate("a", 100, 1), candidate("c", 300, 1), candidate("d", 300, 9)];
    all.sort_by(by_savings);
    assert_eq!(all.map(|c| c.node.to_string()), ["c", "a", "b", "d"]);
}

// Cases: EMP-14, MUL-5
#[test]
fn empty_nodes_go_together_within_the_allowance() {
    let candidates =
        [candidate("a", 100, 0), candidate("b", 200, 0), candidate("busy", 900, 2), candidate("c", 50, 0)];
    assert_eq!(names(&choose_empty(&candidates, Allowance::new())), ["b", "a", "c"]);
    let two = Allowance::from([(Arc::from("default"), 2)]);
    assert_eq!(names(&choose_empty(&candidates, two)), ["b", "a"]);
}

// Cases: EMP-21, BUF-1, BUF-3
#[test]
fn a_node_that_holds_buffer_pods_is_not_removed_as_empty() {
    let held = Candidate { holds_buffers: true, ..candidate("a", 100, 0) };
    assert!(choose_empty(std::slice::from_ref(&held), Allowance::new()).is_empty());
    let busy = Candidate { holds_buffers: true, ..candidate("b", 100, 2) };
    let both = [held, busy];
    let order: Vec<String> = SingleNode::new(&both, &Allowance::new()).map(|c| c.node.to_string()).collect();
    assert_eq!(order, ["b"], "a node with nothing but placeholders is not consolidated");
}

// Cases: DEL-1
#[test]
fn what_fits_elsewhere_is_deleted() {
    let node = candidate("a", 100, 3);
    assert_eq!(judge(&[&node], &Outcome::default(), Settings::default()), Decision::Delete);
}

// Cases: DEL-20
#[test]
fn a_removal_that_leaves_pods_without_a_place_is_refused_with_their_names() {
    let node = candidate("a", 100, 3);
    let outcome = Outcome { left_over: vec!["default/x".to_owned()], ..Outcome::default() };
    let Decision::Leave(refusal) = judge(&[&node], &outcome, Settings::default()) else {
        panic!("must be left")
    };
    assert!(refusal.to_string().contains("default/x"));
}

// Cases: REP-16
#[test]
fn a_replacement_keeps_only_types_that_are_cheaper_at_their_worst() {
    let node = candidate("a", 100, 3);
    let outcome = one_new(vec![option("cheap", 60), option("equal", 100), option("dear", 150)]);
    assert_eq!(judge(&[&node], &outcome, Settings::default()), replace(vec![0], false));
    let none = one_new(vec![option("equal", 100)]);
    assert_eq!(judge(&[&node], &none, Settings::default()), Decision::Leave(Refusal::NotCheaper));
}

#[test]
fn two_new_nodes_are_one_too_many() {
    let node = candidate("a", 100, 3);
    let outcome =
        Outcome { new_nodes: vec![Replacement::default(), Replacement::default()], ..Outcome::default() };
    assert_eq!(judge(&[&node], &outcome, Settings::default()), Decision::Leave(Refusal::TooManyNew(2)));
}

#[test]
fn many_for_many_keeps_the_sum_below_what_it_replaces() {
    let nodes: Vec<Candidate> = (0..3).map(|n| candidate(&format!("n{n}"), 100, 3)).collect();
    let removed: Vec<&Candidate> = nodes.iter().collect();
    let one = || Replacement {
        types: vec![option("cheap", 60), option("fair", 120), option("dear", 180)],
        allows_on_demand: true,
        ..Replacement::default()
    };
    let outcome = Outcome { new_nodes: vec![one(), one()], ..Outcome::default() };
    let many = Settings { many_for_many: true, ..Settings::default() };
    // 300 is replaced by at most 2 x (60 + 89).
    let Decision::Replace(kept) = judge(&removed, &outcome, many) else { panic!("must be replaced") };
    assert_eq!(kept, vec![Kept { types: vec![0, 1], pin_spot: false }; 2]);
    assert_eq!(judge(&removed, &outcome, Settings::default()), Decision::Leave(Refusal::TooManyNew(2)));
    // One by two is as good, where these are cheaper together.
    assert_eq!(judge(&removed[..1], &outcome, many), Decision::Leave(Refusal::NotCheaper));
    let dear = candidate("dear", 200, 3);
    let Decision::Replace(kept) = judge(&[&dear], &outcome, many) else { panic!("must be replaced") };
    assert_eq!(kept, vec![Kept { types: vec![0], pin_spot: false }; 2]);
    let spot = Candidate { spot: true, ..dear };
    let mut again = outcome.clone();
    again.new_nodes.iter_mut().for_each(|new| new.allows_spot = true);
    let gate = Settings { spot_to_spot: true, ..many };
    let few = Decision::Leave(Refusal::TooFewSpotTypes { found: 1 });
    assert_eq!(judge(&[&spot], &again, gate), few, "one spot node by several, each of too few types");
}

#[test]
fn a_node_of_unknown_price_is_deleted_but_never_replaced() {
    let node = candidate("a", 0, 3);
    assert_eq!(judge(&[&node], &Outcome::default(), Settings::default()), Decision::Delete);
    let outcome = one_new(vec![option("free", 0)]);
    assert_eq!(judge(&[&node], &outcome, Settings::default()), Decision::Leave(Refusal::NotCheaper));
}

#[test]
fn a_replacement_that_could_be_either_is_pinned_to_spot() {
    let node = candidate("a", 100, 3);
    let mut outcome = one_new(vec![option("cheap", 60)]);
    outcome.new_nodes[0].allows_spot = true;
    assert_eq!(judge(&[&node], &outcome, Settings::default()), replace(vec![0], true));
}

// Cases: REP-2, REP-3, REP-4, REP-5
#[test]
fn spot_replaces_spot_only_with_the_gate_and_enough_cheaper_types() {
    let node = Candidate { spot: true, ..candidate("a", 100, 3) };
    let types = |count: i64| -> Vec<TypeOption> {
        (0..count)
            .map(|n| TypeOption {
                worst_spot_price: Some(MicroDollars::new(10 + n)),
                ..option(&format!("t{n}"), 500)
            })
            .collect()
    };
    let outcome = |count| {
        let mut outcome = one_new(types(count));
        outcome.new_nodes[0].allows_spot = true;
        outcome
    };
    let on = Settings { spot_to_spot: true, ..Settings::default() };
    assert_eq!(
        judge(&[&node], &outcome(20), Settings::default()),
        Decision::Leave(Refusal::SpotToSpotDisabled)
    );
    assert_eq!(judge(&[&node], &outcome(14), on), Decision::Leave(Refusal::TooFewSpotTypes { found: 14 }));
    assert_eq!(judge(&[&node], &outcome(20), on), replace((0..15).collect(), true));
    let other = Candidate { spot: true, ..candidate("b", 100, 3) };
    assert_eq!(judge(&[&node, &other], &outcome(3), on), replace(vec![0, 1, 2], true));
}

// Cases: REP-9
#[test]
fn min_values_must_hold_among_the_cheaper_types() {
    let node = candidate("a", 100, 3);
    let mut outcome = one_new(vec![option("m5.a", 50), option("m6.a", 60), option("m7.a", 170)]);
    let value = |text: &str| BTreeSet::from([text.to_owned()]);
    let demand = |wanted| MinValues {
        key: "family".to_owned(),
        wanted,
        values: vec![value("m5"), value("m6"), value("m7")],
    };
    outcome.new_nodes[0].min_values = vec![demand(2)];
    assert!(matches!(judge(&[&node], &outcome, Settings::default()), Decision::Replace(_)));
    outcome.new_nodes[0].min_values = vec![demand(3)];
    assert_eq!(
        judge(&[&node], &outcome, Settings::default()),
        Decision::Leave(Refusal::MinValues { key: "family".to_owned() })
    );
}

// Cases: MUL-3
#[test]
fn several_nodes_are_not_replaced_by_one_of_their_own_type_at_its_price() {
    let (a, b) = (candidate("a", 100, 3), candidate("b", 100, 3));
    let outcome = one_new(vec![option("t3.large", 80), option("m5.large", 100)]);
    let decision = judge(&[&a, &b], &outcome, Settings::default());
    assert_eq!(decision, replace(vec![0, 1], false));
    assert_eq!(same_type_guard(&[&a, &b], &outcome.new_nodes, decision), replace(vec![0], false));
    let same = one_new(vec![option("m5.large", 100)]);
    let decision = judge(&[&a, &b], &same, Settings::default());
    assert_eq!(same_type_guard(&[&a, &b], &same.new_nodes, decision), Decision::Leave(Refusal::NotCheaper));
}

#[test]
fn the_search_finds_the_longest_prefix_that_can_go() {
    let candidates: Vec<Candidate> = (0..40).map(|n| candidate(&format!("n{n:02}"), 1000 - n, 1)).collect();
    for longest in [0, 2, 3, 17, 39, 40] {
        let mut search = MultiNode::new(&candidates, Allowance::new());
        let mut probes = 0;
        while let Some(tried) = search.next() {
            let fits = tried.len() <= longest;
            let decision = if fits { Decision::Delete } else { Decision::Leave(Refusal::NotCheaper) };
            search.tell(decision);
            probes += 1;
        }
        assert!(probes <= 6, "{probes} probes for 40 candidates");
        let found = search.best().map_or(0, |(nodes, _)| nodes.len());
        assert_eq!(found, longest);
    }
}

#[test]
fn one_command_takes_at_most_a_hundred_nodes() {
    let candidates: Vec<Candidate> = (0..500).map(|n| candidate(&format!("n{n:03}"), 1000 - n, 1)).collect();
    let mut search = MultiNode::new(&candidates, Allowance::new());
    while search.next().is_some() {
        search.tell(Decision::Delete);
    }
    assert_eq!(search.best().unwrap().0.len(), 100);
}

// Cases: CBU-5, SNG-1
#[test]
fn single_nodes_are_tried_pool_by_pool_in_turn() {
    let mut candidates = vec![candidate("a1", 100, 1), candidate("a2", 90, 1), candidate("a3", 80, 1)];
    candidates.push(Candidate { pool: Arc::from("other"), ..candidate("b1", 10, 1) });
    let order: Vec<String> =
        SingleNode::new(&candidates, &Allowance::new()).map(|c| c.node.to_string()).collect();
    assert_eq!(order, ["a1", "b1", "a2", "a3"]);
    let closed = Allowance::from([(Arc::from("default"), 0)]);
    let order: Vec<String> = SingleNode::new(&candidates, &closed).map(|c| c.node.to_string()).collect();
    assert_eq!(order, ["b1"]);
}

// Cases: BAL-1, BAL-2, BAL-3, BAL-4, BAL-5
#[test]
fn balanced_weighs_savings_against_disturbance() {
    // Figures of the reference's worked example, in millionths of a dollar and whole costs.
    let totals = PoolTotals { price: MicroDollars::new(58_080_000), cost: 90 };
    let share = |savings: i64, cost: i64| Share {
        savings: MicroDollars::new(savings),
        pool_price: MicroDollars::new(1),
        all_price: MicroDollars::new(1),
        cost,
    };
    assert!(approves(share(7_260_000, 4), totals));
    assert!(approves(share(4_840_000, 5), totals));
    assert!(!approves(share(2_420_000, 9), totals));
    let uniform = PoolTotals { price: MicroDollars::new(48_400_000), cost: 90 };
    assert!(approves(share(2_420_000, 9), uniform));
    assert!(!approves(share(0, 9), uniform));
}

/// Nodes of pools with so many nodes each, and what a budget leaves of them.
fn pools(pools: usize, nodes: usize, budget: &str, pods: i64) -> (Vec<Candidate>, Allowance) {
    let budgets = crate::budget::Budgets::read(&[crate::budget::Spec {
        nodes: budget.to_owned(),
        ..crate::budget::Spec::default()
    }]);
    let counts = crate::budget::Counts { total: u32::try_from(nodes).unwrap(), away: 0 };
    let now = jiff::Timestamp::UNIX_EPOCH;
    let left = budgets.state(crate::Reason::Underutilized, counts, now).available();
    let pool = |p: usize| Arc::<str>::from(format!("pool-{p}"));
    let node = |p: usize, n: usize| Candidate { pool: pool(p), ..candidate(&format!("{p}-{n}"), 100, pods) };
    let all = (0..pools).flat_map(|p| (0..nodes).map(move |n| node(p, n))).collect();
    (all, (0..pools).map(|p| (pool(p), left)).collect())
}

// Cases: EMP-2, EMP-3, EMP-4, EMP-5, EMP-6, CBU-1, CBU-2, CBU-3, CBU-6, CBU-7
#[test]
fn budgets_bound_how_many_empty_nodes_go_per_pool() {
    for (count, nodes, budget, expected) in
        [(1, 10, "100%", 10), (1, 10, "0%", 0), (1, 10, "30%", 3), (10, 3, "50%", 20), (10, 3, "100%", 30)]
    {
        let (candidates, allowance) = pools(count, nodes, budget, 0);
        let chosen = choose_empty(&candidates, allowance);
        assert_eq!(chosen.len(), expected, "{count} pools of {nodes} at {budget}");
        for p in 0..count {
            let own = chosen.iter().filter(|c| *c.pool == *format!("pool-{p}")).count();
            assert_eq!(own, expected / count, "each pool by its own budget");
        }
    }
}

// Cases: CBU-4, CBU-6
#[test]
fn budgets_bound_how_many_nodes_go_together() {
    for (count, nodes, budget, expected) in
        [(1, 10, "30%", 3), (10, 3, "50%", 20), (1, 10, "0%", 0), (1, 10, "10%", 0)]
    {
        let (candidates, allowance) = pools(count, nodes, budget, 2);
        let mut search = MultiNode::new(&candidates, allowance);
        while search.next().is_some() {
            search.tell(Decision::Delete);
        }
        let found = search.best().map_or(0, |(nodes, _)| nodes.len());
        assert_eq!(found, expected, "{count} pools of {nodes} at {budget}");
    }
}

fn worth(saving: i64) -> Option<crate::churn::Worth> {
    Some(crate::churn::Worth { saving: MicroDollars::new(saving), payback: jiff::SignedDuration::ZERO })
}

#[test]
fn of_several_for_several_the_set_that_saves_most_is_taken() {
    let candidates: Vec<Candidate> = (0..20).map(|n| candidate(&format!("n{n:02}"), 1000 - n, 1)).collect();
    let mut search = ManyForMany::new(&candidates, Allowance::new(), |_| true);
    let mut lengths = Vec::new();
    while let Some(tried) = search.next() {
        let length = tried.len();
        lengths.push(length);
        // The longest does not fit, ten save most.
        let decision =
            if length == 20 { Decision::Leave(Refusal::NotCheaper) } else { replace(vec![0], false) };
        search.tell(decision, worth(if length == 10 { 500 } else { 100 }));
    }
    assert_eq!(lengths, [20, 10, 5, 2, 1]);
    let (nodes, _, worth) = search.best().unwrap();
    assert_eq!((nodes.len(), worth.saving.get()), (10, 500));
}

#[test]
fn several_for_several_leaves_pools_alone_that_did_not_opt_in_and_what_is_not_worth_it() {
    let mut candidates: Vec<Candidate> = (0..4).map(|n| candidate(&format!("n{n}"), 100, 1)).collect();
    candidates[0].pool = Arc::from("other");
    let mut search = ManyForMany::new(&candidates, Allowance::new(), |pool| pool == "default");
    assert_eq!(search.next().map(<[&Candidate]>::len), Some(3));
    search.tell(replace(vec![0], false), None);
    assert_eq!(search.next().map(<[&Candidate]>::len), Some(1));
    search.tell(replace(vec![0], false), None);
    assert!(search.next().is_none() && search.best().is_none());
    let closed = Allowance::from([(Arc::from("default"), 1)]);
    assert!(ManyForMany::new(&candidates, closed, |_| true).next().is_some_and(|tried| tried.len() == 2));
}

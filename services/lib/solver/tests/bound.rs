//! The lower bound: never above what any plan costs, found by trying them all on tiny inputs; and the same, like the cost, for
//! inputs that differ in nothing that matters.

mod fixture;
mod scenario;
mod tiny;

use std::sync::Arc;

use model::pool::ClusterInput;
use scenario::Scenario;
use scenario::catalogue::families;
use scenario::generate::{anything, deployments};
use scenario::random::Random;
use solver::check::check;
use solver::{Options, Plan, Snapshot, solve};
use tiny::Tiny;

#[expect(clippy::disallowed_methods, reason = "a test has no arguments of its own")]
fn cases(default: u64) -> u64 {
    std::env::var("SOLVER_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn plan(input: &ClusterInput) -> Plan {
    let plan = solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    let wrong: Vec<String> =
        check(input, &plan, &Options::default()).iter().map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    plan
}

#[test]
fn no_bound_is_above_the_best_of_all_plans() {
    let (mut bounds, mut close) = (0, 0);
    let tried = cases(4000);
    for seed in 0..tried {
        let tiny = Tiny::random(&mut Random::new(seed));
        let plan = plan(&tiny.to_input());
        let names =
            plan.new_nodes.iter().flat_map(|n| &n.pods).chain(plan.existing.iter().flat_map(|n| &n.pods));
        let best = tiny.least_cost(names.map(|pod| &*pod.name)).expect("what was placed has a place");
        assert!(
            plan.cost.get() >= best,
            "seed {seed}: costs {}, which is less than {best}\n{tiny:#?}",
            plan.cost
        );
        let Some(bound) = plan.lower_bound else { continue };
        assert!(bound.get() <= best, "seed {seed}: bound {} above {best}\n{tiny:#?}", bound.get());
        bounds += 1;
        close += u64::from(bound.get() * 10 >= best * 7);
    }
    assert!(bounds * 3 > tried * 2, "only {bounds} of {tried} have a bound");
    assert!(close * 2 > bounds, "only {close} of {bounds} bounds are close to the best plan");
}

fn cost_and_bound(plan: &Plan) -> (i64, Option<i64>) {
    (plan.cost.get(), plan.lower_bound.map(|bound| bound.get()))
}

/// Plain workloads of the given seed, on the families of the benchmark.
fn plain(seed: u64, pods: usize) -> Scenario {
    deployments(pods, 5 + usize::try_from(seed).unwrap_or(0) * 4, families(), seed)
}

fn with_pools(mut input: ClusterInput, count: usize) -> ClusterInput {
    let first = input.pools[0].clone();
    input.pools.extend((1..count).map(|n| {
        let mut other = first.clone();
        other.name = Arc::from(format!("{}-{n}", first.name));
        other
    }));
    input
}

#[test]
fn identical_pools_change_neither_cost_nor_bound() {
    for seed in 0..4 {
        let input = plain(seed, 1000).to_input();
        let one = plan(&input);
        for pools in [2, 8] {
            let several = plan(&with_pools(input.clone(), pools));
            assert_eq!(cost_and_bound(&one), cost_and_bound(&several), "seed {seed}, {pools} pools");
        }
    }
    for seed in 0..cases(40) {
        let mut scenario = anything(seed.wrapping_add(5_000_000));
        scenario.pools.truncate(1);
        scenario.nodes.clear();
        scenario.workloads.retain(|workload| workload.on.is_none());
        let input = scenario.to_input();
        let (one, two) = (plan(&input), plan(&with_pools(input.clone(), 2)));
        assert_eq!(cost_and_bound(&one), cost_and_bound(&two), "seed {seed}");
    }
}

#[test]
fn plain_workloads_stay_within_three_percent_of_the_bound_with_one_pool_and_with_eight() {
    for seed in 0..6 {
        for pools in [1, 8] {
            let plan = plan(&with_pools(
                plain(seed, 1000 + 300 * usize::try_from(seed).unwrap_or(0)).to_input(),
                pools,
            ));
            let gap = plan.gap().expect("a plain workload has a bound");
            assert!(gap <= 0.03, "seed {seed}, {pools} pools: {gap}");
        }
    }
}

#[test]
fn names_and_order_of_pods_change_neither_cost_nor_bound() {
    for seed in 0..cases(40) {
        let input = anything(seed.wrapping_add(6_000_000)).to_input();
        let mut other = input.clone();
        other.pods.reverse();
        for pod in &mut other.pods {
            pod.name = Arc::from(format!("renamed-{}", pod.name));
        }
        assert_eq!(cost_and_bound(&plan(&input)), cost_and_bound(&plan(&other)), "seed {seed}");
    }
}

#[test]
fn the_order_in_which_nodes_pools_and_daemons_are_listed_changes_nothing() {
    for seed in 0..cases(40) {
        let input = anything(seed.wrapping_add(7_000_000)).to_input();
        let mut other = input.clone();
        other.nodes.reverse();
        other.pools.reverse();
        other.daemon_sets.reverse();
        let (one, two) = (plan(&input), plan(&other));
        assert_eq!(cost_and_bound(&one), cost_and_bound(&two), "seed {seed}");
        assert_eq!((&one.new_nodes, &one.existing), (&two.new_nodes, &two.existing), "seed {seed}");
    }
}

#[test]
fn the_order_in_which_instance_types_are_listed_changes_neither_cost_nor_bound() {
    for seed in 0..4 {
        let input = plain(seed, 1000).to_input();
        let mut other = input.clone();
        Arc::make_mut(&mut other.pools[0].instance_types).reverse();
        assert_eq!(cost_and_bound(&plan(&input)), cost_and_bound(&plan(&other)), "seed {seed}");
    }
}

/// Ten copies of a plan are a plan for ten times the pods: its cost is at most ten times as much, and its bound at least.
#[test]
fn ten_times_the_replicas_cost_at_most_ten_times_as_much() {
    for seed in 0..5 {
        let (small, large) = (plain(seed, 400), plain(seed, 4000));
        let (small, large) = (plan(&small.to_input()), plan(&large.to_input()));
        let ratio = large.cost.to_f64() / (10.0 * small.cost.to_f64());
        assert!(ratio <= 1.0, "seed {seed}: {ratio}");
        let (least, more) = (small.lower_bound.expect("a bound"), large.lower_bound.expect("a bound"));
        let ratio = more.to_f64() / (10.0 * least.to_f64());
        assert!((0.97..=1.03).contains(&ratio), "seed {seed}: bound {ratio}");
    }
}

//! New nodes: what they may be, limits, minValues, reservations.

use std::sync::Arc;

use model::catalog::CapacityType;
use model::labels::INSTANCE_TYPE;
use model::pool::ClusterInput;
use model::requirement::{Operator, Requirement};
use solver::{MinValuesPolicy, Options};

use crate::by_hand::{broken, broken_without, large, new_node, plan, small};
use crate::fixture::{CAPACITY_TYPE, PoolBuilder, ZONES, cluster, node, pod, pool};

fn with_pool(pool: PoolBuilder) -> ClusterInput {
    let types = vec![small().build(), large().build()];
    cluster().pool(pool.types(types)).pods(pod("web").cpu("500m").times(2)).input()
}

const WEB: [&str; 2] = ["web-0", "web-1"];

#[test]
fn a_new_node_belongs_to_a_pool_that_may_grow() {
    let input = with_pool(pool("default"));
    let elsewhere = new_node(&["small"], &WEB).but(|n| n.pool = Arc::from("nobody"));
    assert_eq!(broken(&input, &plan(&input, vec![elsewhere], &[])), ["UnknownPool"]);
    let fixed = with_pool(pool("default").fixed_size());
    assert_eq!(broken(&fixed, &plan(&fixed, vec![new_node(&["small"], &WEB)], &[])), ["FixedSizePool"]);
}

#[test]
fn a_new_node_has_pods() {
    let input = with_pool(pool("default"));
    let new = vec![new_node(&["small"], &WEB), new_node(&["small"], &[])];
    assert_eq!(broken(&input, &plan(&input, new, &[])), ["NodeWithoutPods"]);
}

#[test]
fn a_new_node_lists_types_of_its_pool_once() {
    let input = with_pool(pool("default"));
    let listed = |types: &[&str]| broken(&input, &plan(&input, vec![new_node(types, &WEB)], &[]));
    assert!(listed(&["small", "large"]).is_empty());
    assert_eq!(listed(&[]), ["NoTypes", "LaunchNotOffered"]);
    assert_eq!(listed(&["small", "giant"]), ["UnknownType"]);
    assert_eq!(listed(&["small", "small"]), ["TypeTwice"]);
}

#[test]
fn a_new_node_lists_no_more_types_than_allowed() {
    let input = with_pool(pool("default"));
    let both = plan(&input, vec![new_node(&["small", "large"], &WEB)], &[]);
    let one = Options { max_instance_types: 1, ..Options::default() };
    assert_eq!(broken_without(&input, &[], &both, &one), ["TooManyTypes"]);
}

// Cases: SCH-A.6-3, SCH-D-3, SCH-D-11, SCH-D-12, SCH-D-13, SCH-D-15, SCH-D-17
#[test]
fn a_listed_type_can_be_launched() {
    let mut input = with_pool(pool("default"));
    input.pools[0].instance_types = Arc::new(vec![small().build(), large().unavailable().build()]);
    let both = plan(&input, vec![new_node(&["small", "large"], &WEB)], &[]);
    assert_eq!(broken(&input, &both), ["TypeCannotLaunch"]);
    let on_demand = [(ZONES[0], CapacityType::OnDemand)];
    input.pools[0].instance_types = Arc::new(vec![small().build(), large().offered(&on_demand).build()]);
    let spot_only = new_node(&["small", "large"], &WEB).requires(Requirement::is(CAPACITY_TYPE, "spot"));
    assert_eq!(broken(&input, &plan(&input, vec![spot_only], &[])), ["TypeCannotLaunch"]);
}

#[test]
fn a_new_node_is_no_wider_than_its_pool() {
    let input = with_pool(pool("default").requires(CAPACITY_TYPE, Operator::In, &["spot"]));
    let wide = plan(&input, vec![new_node(&["small"], &WEB)], &[]);
    assert_eq!(broken(&input, &wide), ["WiderThanPool"]);
    let narrow = new_node(&["small"], &WEB).requires(Requirement::is(CAPACITY_TYPE, "spot"));
    assert!(broken(&input, &plan(&input, vec![narrow], &[])).is_empty());
}

#[test]
fn limits_hold_even_for_the_largest_listed_type() {
    let input = with_pool(pool("default").limit("cpu", "5"));
    let two_nodes = |second: &[&str]| {
        let new = vec![new_node(&["small"], &WEB[..1]), new_node(second, &WEB[1..])];
        broken(&input, &plan(&input, new, &[]))
    };
    assert!(two_nodes(&["small"]).is_empty());
    assert_eq!(two_nodes(&["small", "large"]), ["LimitExceeded"]);
}

// Cases: SCH-A.3-6, SCH-H.8-6
#[test]
fn running_nodes_of_the_pool_count_against_its_limits() {
    let mut input = with_pool(pool("default").limit("cpu", "5"));
    let new = || plan(&input, vec![new_node(&["small"], &WEB)], &[]);
    let plan = new();
    assert!(broken(&input, &plan).is_empty());
    input.nodes.push(node("n").of_pool("default").build());
    assert_eq!(broken(&input, &plan), ["LimitExceeded"]);
    assert!(broken_without(&input, &["n"], &plan, &Options::default()).is_empty());
    input.nodes[0].state = model::node::NodeState::Deleting;
    assert!(broken(&input, &plan).is_empty());
}

// Cases: SCH-A.3-7
#[test]
fn the_number_of_nodes_is_limited() {
    let input = with_pool(pool("default").limit("nodes", "1"));
    let two = vec![new_node(&["small"], &WEB[..1]), new_node(&["small"], &WEB[1..])];
    assert_eq!(broken(&input, &plan(&input, two, &[])), ["LimitExceeded"]);
    assert!(broken(&input, &plan(&input, vec![new_node(&["small"], &WEB)], &[])).is_empty());
}

// Cases: SCH-D-33
#[test]
fn min_values_stay_possible_or_the_node_says_otherwise() {
    let input = with_pool(pool("default").min_values(INSTANCE_TYPE, Operator::Exists, &[], 2));
    let listed = |types: &[&str]| plan(&input, vec![new_node(types, &WEB)], &[]);
    assert!(broken(&input, &listed(&["small", "large"])).is_empty());
    let mut few = listed(&["small"]);
    assert_eq!(broken(&input, &few), ["TooFewValues"]);
    let best_effort = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    assert_eq!(broken_without(&input, &[], &few, &best_effort), ["RelaxationNotStated"]);
    few.new_nodes[0].min_values_relaxed = true;
    assert!(broken_without(&input, &[], &few, &best_effort).is_empty());
}

#[test]
fn a_reservation_is_promised_no_more_often_than_it_has_instances() {
    let mut input = with_pool(pool("default"));
    input.pools[0].instance_types = Arc::new(vec![small().reserved("cr-1", 1, 0.001).build()]);
    let reserved = |pod: &'static str| {
        let node = new_node(&["small"], &[pod]).requires(Requirement::is(CAPACITY_TYPE, "reserved"));
        node.but(|n| {
            n.launch.capacity_type = CapacityType::Reserved;
            n.launch.reservation = Some(Arc::from("cr-1"));
        })
    };
    let ordinary =
        new_node(&["small"], &["web-1"]).requires(Requirement::one_of(CAPACITY_TYPE, ["spot", "on-demand"]));
    assert!(broken(&input, &plan(&input, vec![reserved("web-0"), ordinary], &[])).is_empty());
    let twice = plan(&input, vec![reserved("web-0"), reserved("web-1")], &[]);
    assert_eq!(broken(&input, &twice), ["ReservationOvercommitted"]);
    let unused = Options { use_reserved: false, ..Options::default() };
    let found = broken_without(&input, &[], &twice, &unused);
    assert!(found.iter().all(|rule| rule != "ReservationOvercommitted"), "{found:?}");
    assert!(found.contains(&"TypeCannotLaunch".to_owned()), "{found:?}");
}

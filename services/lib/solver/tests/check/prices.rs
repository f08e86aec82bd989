use std::sync::Arc;

use model::catalog::CapacityType;
use model::pool::ClusterInput;
use model::price::MicroDollars;
use model::requirement::Requirement;
use solver::Plan;

use crate::by_hand::{NewNodeByHand, broken, large, new_node, plan, small};
use crate::fixture::{CAPACITY_TYPE, ZONES, cluster, pod, pool};

fn input() -> ClusterInput {
    let types = vec![small().build(), large().build()];
    cluster().pool(pool("default").types(types)).pod(pod("web").cpu("500m")).input()
}

fn one(node: NewNodeByHand) -> Plan {
    plan(&input(), vec![node], &[])
}

// Cases: REP-5
#[test]
fn types_are_listed_cheapest_first() {
    assert!(broken(&input(), &one(new_node(&["small", "large"], &["web"]))).is_empty());
    let dear_first =
        new_node(&["large", "small"], &["web"]).but(|n| n.launch.instance_type = Arc::from("small"));
    assert_eq!(broken(&input(), &one(dear_first)), ["TypesNotByPrice"]);
}

#[test]
fn the_launch_is_one_that_the_node_may_become() {
    let unlisted = new_node(&["small"], &["web"]).but(|n| n.launch.instance_type = Arc::from("large"));
    assert_eq!(broken(&input(), &one(unlisted)), ["LaunchNotOffered"]);
    let other_zone =
        new_node(&["small"], &["web"]).in_zone(ZONES[0]).but(|n| n.launch.zone = Arc::from(ZONES[1]));
    assert_eq!(broken(&input(), &one(other_zone)), ["LaunchNotOffered"]);
}

// Cases: SCH-D-1, SCH-D-3, SCH-D-11, SCH-D-12, SCH-D-13, SCH-D-15, SCH-D-17
#[test]
fn the_launch_is_the_cheapest_of_the_preferred_capacity_type() {
    let on_demand = |node: NewNodeByHand| node.but(|n| n.launch.capacity_type = CapacityType::OnDemand);
    let dearer_kind = on_demand(new_node(&["small"], &["web"]));
    assert_eq!(broken(&input(), &one(dearer_kind)), ["LaunchNotPreferred"]);
    let only_kind =
        on_demand(new_node(&["small"], &["web"])).requires(Requirement::is(CAPACITY_TYPE, "on-demand"));
    assert!(broken(&input(), &one(only_kind)).is_empty());
    let dearer_type =
        new_node(&["small", "large"], &["web"]).but(|n| n.launch.instance_type = Arc::from("large"));
    assert_eq!(broken(&input(), &one(dearer_type)), ["LaunchNotPreferred"]);
}

#[test]
fn prices_and_sums_are_those_of_the_catalogue() {
    let good = one(new_node(&["small"], &["web"]));
    assert_eq!(good.cost, MicroDollars::new(100_000));
    let mut wrong = good.clone();
    wrong.new_nodes[0].launch.price = MicroDollars::new(90_000);
    wrong.cost = MicroDollars::new(90_000);
    assert_eq!(broken(&input(), &wrong), ["WrongPrice"]);
    let mut wrong = good.clone();
    wrong.cost = MicroDollars::new(99_999);
    assert_eq!(broken(&input(), &wrong), ["WrongCost"]);
    let mut wrong = good;
    wrong.lower_bound = Some(MicroDollars::new(100_001));
    assert_eq!(broken(&input(), &wrong), ["BoundAboveCost"]);
}

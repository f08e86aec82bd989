use std::sync::Arc;

use model::pool::ClusterInput;
use solver::check::check;
use solver::{Explanation, Options, Plan, Rule, Unschedulable};

use crate::by_hand::{broken, broken_without, new_node, plan, pod_ref, small};
use crate::fixture::{cluster, node, pod, pool};

fn two_pods() -> ClusterInput {
    let pods = pod("web").cpu("500m").times(2);
    cluster().pool(pool("default").types(vec![small().build()])).pods(pods).input()
}

fn left_over(name: &str) -> Unschedulable {
    let why = Explanation {
        verdict: "nothing takes it".to_owned(),
        rule: Rule::NoPools,
        pools: Vec::new(),
        existing: None,
    };
    Unschedulable { pod: pod_ref(name), why: Arc::new(why) }
}

#[test]
fn a_plan_with_every_pod_once_is_fine() {
    let input = two_pods();
    assert!(broken(&input, &plan(&input, vec![new_node(&["small"], &["web-0", "web-1"])], &[])).is_empty());
    let mut partly = plan(&input, vec![new_node(&["small"], &["web-0"])], &[]);
    partly.unreached.push(pod_ref("web-1"));
    assert!(broken(&input, &partly).is_empty());
    let left = Plan { unschedulable: vec![left_over("web-0"), left_over("web-1")], ..Plan::default() };
    assert!(broken(&input, &left).is_empty());
}

#[test]
fn a_forgotten_pod_is_found() {
    let input = two_pods();
    let plan = plan(&input, vec![new_node(&["small"], &["web-0"])], &[]);
    assert_eq!(broken(&input, &plan), ["PodForgotten"]);
    let words = check(&input, &plan, &Options::default())[0].to_string();
    assert_eq!(words, "pod default/web-1 needs a place and is neither placed nor reported as left over");
}

#[test]
fn a_pod_in_two_places_is_found() {
    let input = two_pods();
    let new = vec![new_node(&["small"], &["web-0", "web-1"]), new_node(&["small"], &["web-1"])];
    assert_eq!(broken(&input, &plan(&input, new, &[])), ["PodTwice"]);
    let mut both = plan(&input, vec![new_node(&["small"], &["web-0", "web-1"])], &[]);
    both.unschedulable.push(left_over("web-0"));
    assert_eq!(broken(&input, &both), ["PodTwice"]);
}

#[test]
fn a_pod_that_needs_no_place_is_found() {
    let mut input = two_pods();
    input.nodes.push(node("n").build());
    input.pods.push(pod("settled").on_node("n").build());
    let new = vec![new_node(&["small"], &["web-0", "web-1", "settled"])];
    assert!(broken(&input, &plan(&input, new, &[])).contains(&"PodNotAsked".to_owned()));
}

#[test]
fn pods_of_deleting_and_removed_nodes_need_a_place() {
    let mut input = two_pods();
    input.pods.clear();
    for (name, built) in [("going", node("going").deleting().build()), ("removed", node("removed").build())] {
        input.nodes.push(built);
        input.pods.push(pod(&format!("of-{name}")).on_node(name).build());
    }
    let nothing = Plan::default();
    assert_eq!(broken(&input, &nothing), ["PodForgotten"]);
    assert_eq!(
        broken_without(&input, &["removed"], &nothing, &Options::default()),
        ["PodForgotten", "PodForgotten"]
    );
    let new = vec![new_node(&["small"], &["of-going", "of-removed"])];
    let moved = plan(&input, new, &[]);
    assert!(broken_without(&input, &["removed"], &moved, &Options::default()).is_empty());
}

// Cases: SCH-B.16-1
#[test]
fn a_pod_that_must_not_be_scheduled_is_found_when_placed() {
    let mut input = two_pods();
    input.pods[0].rejected = Some("it names a restricted label".to_owned());
    let placed = plan(&input, vec![new_node(&["small"], &["web-0", "web-1"])], &[]);
    assert_eq!(broken(&input, &placed), ["RefusedPodPlaced"]);
    let mut left = plan(&input, vec![new_node(&["small"], &["web-1"])], &[]);
    left.unschedulable.push(left_over("web-0"));
    assert!(broken(&input, &left).is_empty());

    let mut input = two_pods();
    Arc::make_mut(&mut input.pods[0].spec).uses_resource_claims = true;
    let placed = plan(&input, vec![new_node(&["small"], &["web-0", "web-1"])], &[]);
    assert_eq!(broken(&input, &placed), ["RefusedPodPlaced"]);
}

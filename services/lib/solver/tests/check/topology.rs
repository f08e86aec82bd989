use model::pod::{LabelSelector, NodeInclusionPolicy, Pod};
use model::pool::ClusterInput;
use model::taint::Effect;

use crate::by_hand::{NewNodeByHand, broken, new_node, plan, small};
use crate::fixture::{HOST, ZONE, ZONES, cluster, node, pod, pool, spread, term};

fn with_pods(pods: Vec<Pod>) -> ClusterInput {
    cluster().pool(pool("default").types(vec![small().build()])).pods(pods).input()
}

fn at(zone: &str, pods: &[&str]) -> NewNodeByHand {
    new_node(&["small"], pods).in_zone(zone)
}

#[test]
fn spread_pods_keep_within_the_skew() {
    let input = with_pods(pod("web").app("web").spread(spread(ZONE, 1, &[("app", "web")])).times(4));
    let balanced =
        vec![at(ZONES[0], &["web-0", "web-1"]), at(ZONES[1], &["web-2"]), at(ZONES[2], &["web-3"])];
    assert!(broken(&input, &plan(&input, balanced, &[])).is_empty());
    let skewed = vec![at(ZONES[0], &["web-0", "web-1"]), at(ZONES[1], &["web-2", "web-3"])];
    assert_eq!(broken(&input, &plan(&input, skewed, &[])), ["SpreadSkewed", "SpreadSkewed"]);
}

#[test]
fn a_spread_pod_needs_to_know_its_domain() {
    let input = with_pods(pod("web").app("web").spread(spread(ZONE, 3, &[("app", "web")])).times(1));
    let open = vec![new_node(&["small"], &["web-0"])];
    assert_eq!(broken(&input, &plan(&input, open, &[])), ["SpreadUndecided"]);
    assert!(broken(&input, &plan(&input, vec![at(ZONES[0], &["web-0"])], &[])).is_empty());
}

#[test]
fn a_node_without_the_label_takes_no_spread_pod() {
    let mut input = with_pods(pod("web").app("web").spread(spread(ZONE, 3, &[("app", "web")])).times(1));
    input.nodes.push(node("n").without_label(ZONE).build());
    assert_eq!(broken(&input, &plan(&input, vec![], &[("n", &["web-0"])])), ["SpreadUndecided"]);
}

#[test]
fn pods_that_run_already_count_in_the_skew() {
    let mut pods = pod("web").app("web").spread(spread(ZONE, 1, &[("app", "web")])).times(1);
    pods.push(pod("old").app("web").on_node("n").build());
    let mut input = with_pods(pods);
    input.nodes.push(node("n").build());
    let same_zone = plan(&input, vec![at(ZONES[0], &["web-0"])], &[]);
    assert_eq!(broken(&input, &same_zone), ["SpreadSkewed"]);
    assert!(broken(&input, &plan(&input, vec![at(ZONES[1], &["web-0"])], &[])).is_empty());
    input.pods[1].terminating = true;
    assert!(broken(&input, &same_zone).is_empty());
}

/// Who had to put up with a soft taint counts nodes that have it, wherever it lands in the end.
#[test]
fn a_pod_on_a_node_with_a_soft_taint_evens_out_a_spread_that_honors_taints() {
    let mut constraint = spread(ZONE, 1, &[("app", "web")]);
    constraint.node_taints_policy = NodeInclusionPolicy::Honor;
    let mut input = with_pods(pod("web").app("web").spread(constraint).times(4));
    input.nodes.push(node("soft").zone(ZONES[1]).taint("soft", Effect::PreferNoSchedule).build());
    let new = || vec![at(ZONES[0], &["web-0", "web-1"]), at(ZONES[2], &["web-2"])];
    assert!(broken(&input, &plan(&input, new(), &[("soft", &["web-3"])])).is_empty());
    let without = vec![at(ZONES[0], &["web-0", "web-1"]), at(ZONES[2], &["web-2", "web-3"])];
    assert_eq!(broken(&input, &plan(&input, without, &[])), ["SpreadSkewed", "SpreadSkewed"]);
}

#[test]
fn too_few_domains_for_min_domains_count_as_an_empty_one() {
    let mut constraint = spread(ZONE, 1, &[("app", "web")]);
    constraint.min_domains = Some(4);
    let input = with_pods(pod("web").app("web").spread(constraint).times(6));
    let two_each = || {
        let pairs = [["web-0", "web-1"], ["web-2", "web-3"], ["web-4", "web-5"]];
        pairs.iter().zip(ZONES).map(|(pods, zone)| at(zone, pods)).collect()
    };
    assert!(broken(&input, &plan(&input, two_each(), &[])).contains(&"SpreadSkewed".to_owned()));
    let relaxed = with_pods(pod("web").app("web").spread(spread(ZONE, 1, &[("app", "web")])).times(6));
    assert!(broken(&relaxed, &plan(&relaxed, two_each(), &[])).is_empty());
}

#[test]
fn spread_over_hosts_bounds_the_pods_of_each() {
    let input = with_pods(pod("web").app("web").spread(spread(HOST, 1, &[("app", "web")])).times(2));
    let together = vec![new_node(&["small"], &["web-0", "web-1"])];
    assert_eq!(broken(&input, &plan(&input, together, &[])), ["SpreadSkewed"]);
    let apart = vec![new_node(&["small"], &["web-0"]), new_node(&["small"], &["web-1"])];
    assert!(broken(&input, &plan(&input, apart, &[])).is_empty());
}

#[test]
fn zones_that_the_pod_cannot_use_do_not_hold_it_back() {
    let pods = pod("web").app("web").in_zone(ZONES[0]).spread(spread(ZONE, 1, &[("app", "web")])).times(3);
    let input = with_pods(pods);
    let all_in_one = plan(&input, vec![at(ZONES[0], &["web-0", "web-1", "web-2"])], &[]);
    assert!(broken(&input, &all_in_one).is_empty());
}

#[test]
fn company_must_be_certain() {
    let mut pods = pod("web").with(term(ZONE, &[("app", "db")])).times(1);
    pods.extend(pod("db").app("db").times(1));
    let input = with_pods(pods);
    let open = vec![new_node(&["small"], &["db-0"]), at(ZONES[0], &["web-0"])];
    assert_eq!(broken(&input, &plan(&input, open, &[])), ["AffinityUnmet"]);
    let pinned = vec![at(ZONES[0], &["db-0"]), at(ZONES[0], &["web-0"])];
    assert!(broken(&input, &plan(&input, pinned, &[])).is_empty());
    let same_node = vec![new_node(&["small"], &["db-0", "web-0"])];
    assert!(broken(&input, &plan(&input, same_node, &[])).is_empty());
    let elsewhere = vec![at(ZONES[1], &["db-0"]), at(ZONES[0], &["web-0"])];
    assert_eq!(broken(&input, &plan(&input, elsewhere, &[])), ["AffinityUnmet"]);
}

#[test]
fn only_the_first_of_a_kind_comes_without_company() {
    let input = with_pods(pod("web").app("web").with(term(ZONE, &[("app", "web")])).times(2));
    let together = vec![at(ZONES[0], &["web-0"]), at(ZONES[0], &["web-1"])];
    assert!(broken(&input, &plan(&input, together, &[])).is_empty());
    let apart = vec![at(ZONES[0], &["web-0"]), at(ZONES[1], &["web-1"])];
    assert_eq!(broken(&input, &plan(&input, apart, &[])), ["AffinityUnmet"]);
}

/// The scheduler looks for company in the whole cluster, whatever the pod's own selector says.
// Cases: SCH-C.8-6
#[test]
fn company_where_the_pod_may_not_go_is_company_still() {
    let wish = || term(ZONE, &[("app", "web")]);
    let mut pods = pod("web").app("web").with(wish()).in_zone(ZONES[1]).times(1);
    pods.push(pod("old").app("web").on_node("n").build());
    let mut input = with_pods(pods);
    let alone = || vec![at(ZONES[1], &["web-0"])];
    assert!(broken(&input, &plan(&input, alone(), &[])).is_empty(), "its kind runs nowhere yet");
    input.nodes.push(node("n").build());
    assert_eq!(broken(&input, &plan(&input, alone(), &[])), ["AffinityUnmet"]);
}

#[test]
fn two_pods_do_not_vouch_for_each_other() {
    let mut pods = pod("a").app("a").with(term(HOST, &[("app", "b")])).times(1);
    pods.extend(pod("b").app("b").with(term(HOST, &[("app", "a")])).times(1));
    let input = with_pods(pods);
    let together = plan(&input, vec![new_node(&["small"], &["a-0", "b-0"])], &[]);
    assert_eq!(broken(&input, &together), ["AffinityUnmet", "AffinityUnmet"]);
}

#[test]
fn affinity_looks_into_the_namespaces_that_it_names() {
    let mut everywhere = term(HOST, &[("app", "db")]);
    everywhere.namespace_selector = Some(LabelSelector::default());
    let mut pods = pod("web").with(everywhere).times(1);
    pods.push(pod("db").namespace("data").app("db").on_node("n").build());
    let mut input = with_pods(pods);
    input.nodes.push(node("n").build());
    let joined = plan(&input, vec![], &[("n", &["web-0"])]);
    assert!(broken(&input, &joined).is_empty());
    input.pods[0] = pod("web-0").with(term(HOST, &[("app", "db")])).build();
    assert_eq!(broken(&input, &joined), ["AffinityUnmet"]);
}

#[test]
fn pods_that_keep_apart_may_not_even_possibly_meet() {
    let input = with_pods(pod("web").app("web").apart_from(term(ZONE, &[("app", "web")])).times(2));
    let certain = vec![at(ZONES[0], &["web-0"]), at(ZONES[1], &["web-1"])];
    assert!(broken(&input, &plan(&input, certain, &[])).is_empty());
    let possible = vec![at(ZONES[0], &["web-0"]), new_node(&["small"], &["web-1"])];
    assert_eq!(broken(&input, &plan(&input, possible, &[])), ["AntiAffinityBroken"]);
    let same_node = vec![at(ZONES[0], &["web-0", "web-1"])];
    assert_eq!(broken(&input, &plan(&input, same_node, &[])), ["AntiAffinityBroken"]);
}

// Cases: SCH-H.4-1
#[test]
fn a_running_pod_keeps_new_ones_away() {
    let mut pods = pod("web").app("web").times(1);
    pods.push(pod("loner").apart_from(term(ZONE, &[("app", "web")])).on_node("n").build());
    let mut input = with_pods(pods);
    input.nodes.push(node("n").build());
    let same_zone = vec![at(ZONES[0], &["web-0"])];
    assert_eq!(broken(&input, &plan(&input, same_zone, &[])), ["AntiAffinityBroken"]);
    assert!(broken(&input, &plan(&input, vec![at(ZONES[1], &["web-0"])], &[])).is_empty());
}

#[test]
fn a_constraint_that_is_stated_twice_counts_its_pods_once() {
    let twice = spread(ZONE, 1, &[("app", "web")]);
    let input = with_pods(pod("web").app("web").spread(twice.clone()).spread(twice).times(1));
    assert!(broken(&input, &plan(&input, vec![at(ZONES[0], &["web-0"])], &[])).is_empty());
}

//! What one pod asks of its node: selectors, ports, volumes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use model::pod::{HostPort, Protocol};
use model::pool::ClusterInput;
use model::requirement::{Operator, Requirement};

use crate::by_hand::{broken, new_node, plan, small};
use crate::fixture::{CAPACITY_TYPE, PodBuilder, ZONE, ZONES, cluster, is, node, pod, pool, requires};

fn with_pods(pods: Vec<PodBuilder>) -> ClusterInput {
    let start = cluster().pool(pool("default").types(vec![small().build()]));
    pods.into_iter().fold(start, |cluster, pod| cluster.pod(pod)).input()
}

#[test]
fn a_node_selector_must_hold_in_every_zone_that_is_left_open() {
    let input = with_pods(vec![pod("web").in_zone(ZONES[1])]);
    let open = plan(&input, vec![new_node(&["small"], &["web"])], &[]);
    assert_eq!(broken(&input, &open), ["NotSelected"]);
    let pinned = plan(&input, vec![new_node(&["small"], &["web"]).in_zone(ZONES[1])], &[]);
    assert!(broken(&input, &pinned).is_empty());
}

#[test]
fn one_of_the_required_terms_must_hold_in_every_outcome() {
    let any_zone =
        pod("web").or_requires(is(ZONE, &[ZONES[0]])).or_requires(is(CAPACITY_TYPE, &["on-demand"]));
    let input = with_pods(vec![any_zone]);
    // Spot in zone 2 satisfies neither.
    let open = plan(&input, vec![new_node(&["small"], &["web"])], &[]);
    assert_eq!(broken(&input, &open), ["NotSelected"]);
    let first = plan(&input, vec![new_node(&["small"], &["web"]).in_zone(ZONES[0])], &[]);
    assert!(broken(&input, &first).is_empty());
}

#[test]
fn a_label_that_neither_pool_nor_type_gives_is_not_there() {
    let input = with_pods(vec![pod("web").select("team", "red")]);
    let claimed = new_node(&["small"], &["web"]).requires(Requirement::is("team", "red"));
    assert!(broken(&input, &plan(&input, vec![claimed], &[])).contains(&"TypeCannotLaunch".to_owned()));
    let mut given = input.clone();
    given.pools[0].labels.insert("team".to_owned(), "red".to_owned());
    assert!(broken(&given, &plan(&given, vec![new_node(&["small"], &["web"])], &[])).is_empty());
}

#[test]
fn an_existing_node_that_lacks_a_label_really_lacks_it() {
    let mut input = with_pods(vec![pod("web").or_requires(requires("rack", Operator::Exists, &[]))]);
    input.nodes.push(node("n").build());
    let on_node = plan(&input, vec![], &[("n", &["web"])]);
    assert_eq!(broken(&input, &on_node), ["NotSelected"]);
    input.nodes[0].labels.insert("rack".to_owned(), "r1".to_owned());
    assert!(broken(&input, &on_node).is_empty());
}

/// Their intersection must not be taken for "nodes without the label".
#[test]
fn a_selector_against_the_required_affinity_matches_no_node() {
    let mut input = with_pods(vec![pod("web").select("rack", "r1").or_requires(is("rack", &["r2"]))]);
    input.nodes.push(node("n").build());
    assert_eq!(broken(&input, &plan(&input, vec![], &[("n", &["web"])])), ["NotSelected"]);
}

// Cases: SCH-I.3-8
#[test]
fn two_pods_cannot_have_the_same_host_port() {
    let mut input = with_pods(vec![pod("a").host_port(80), pod("b").host_port(80)]);
    let together = plan(&input, vec![new_node(&["small"], &["a", "b"])], &[]);
    assert_eq!(broken(&input, &together), ["PortConflict"]);
    for (pod, last) in input.pods.iter_mut().zip([1, 2]) {
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        Arc::make_mut(&mut pod.spec).host_ports = vec![HostPort::new(Some(address), 80, Protocol::Tcp)];
    }
    assert!(broken(&input, &together).is_empty());
}

// Cases: SCH-H.2-4
#[test]
fn ports_of_daemons_and_of_bound_pods_are_taken() {
    let mut input = with_pods(vec![pod("a").host_port(80), pod("old").host_port(80).on_node("n")]);
    input.nodes.push(node("n").build());
    assert_eq!(broken(&input, &plan(&input, vec![], &[("n", &["a"])])), ["PortConflict"]);
    let on_new = plan(&input, vec![new_node(&["small"], &["a"])], &[]);
    assert!(broken(&input, &on_new).is_empty());
    input.daemon_sets = cluster().daemon(pod("agent").host_port(80)).input().daemon_sets;
    assert_eq!(broken(&input, &on_new), ["PortConflict"]);
}

#[test]
fn a_volume_must_be_within_reach_in_every_outcome() {
    let somewhere = vec![is(ZONE, &[ZONES[0]]), is(ZONE, &[ZONES[1]])];
    let input = with_pods(vec![pod("db").volume("default/data", None, somewhere)]);
    let open = plan(&input, vec![new_node(&["small"], &["db"])], &[]);
    assert_eq!(broken(&input, &open), ["VolumeOutOfReach"]);
    let two = new_node(&["small"], &["db"]).requires(Requirement::one_of(ZONE, [ZONES[0], ZONES[1]]));
    assert!(broken(&input, &plan(&input, vec![two], &[])).is_empty());
}

// Cases: SCH-H.2-1, SCH-H.2-3
#[test]
fn a_node_attaches_no_more_volumes_than_its_driver_can() {
    let with_volume = |name: &str, claim: &str| pod(name).volume(claim, Some("ebs"), Vec::new());
    let mut input = with_pods(vec![
        with_volume("old", "default/one").on_node("n"),
        with_volume("db", "default/two"),
        with_volume("reader", "default/one"),
    ]);
    input.nodes.push(node("n").csi_limit("ebs", 1).build());
    let reader = plan(&input, vec![new_node(&["small"], &["db"])], &[("n", &["reader"])]);
    assert!(broken(&input, &reader).is_empty());
    let both = plan(&input, vec![], &[("n", &["reader", "db"])]);
    assert_eq!(broken(&input, &both), ["TooManyVolumes"]);
}

//! Spread over hostnames, as kube-scheduler 1.33 to 1.35 counts it: the nodes that the pod could go to are the domains, and the
//! minimum is over them.

mod fixture;

use fixture::*;
use model::pod::{NodeInclusionPolicy, Pod, TopologySpread};
use model::taint::Effect;
use solver::check::check;
use solver::{Options, Plan, Snapshot, simulate};

const APP: &[(&str, &str)] = &[("app", "web")];

fn apart() -> TopologySpread {
    spread(HOST, 1, APP)
}

fn web(name: &str, constraint: TopologySpread) -> PodBuilder {
    pod(name).app("web").cpu("100m").spread(constraint)
}

/// Nodes of nobody with some pods each that the constraint counts.
fn with_pods(nodes: &[(&str, usize)]) -> ClusterBuilder {
    nodes.iter().fold(default_cluster(), |cluster, (name, count)| {
        let running = pod(&format!("on-{name}")).app("web").cpu("100m").on_node(name).times(*count);
        cluster.node(node(name)).pods(running)
    })
}

/// A plan that the checker has nothing against: pods on nodes that exist, by node, and new nodes.
fn sound(cluster: ClusterBuilder) -> (Vec<usize>, usize) {
    let input = cluster.input();
    let plan = solver::solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    assert_eq!(check(&input, &plan, &Options::default()), []);
    summary(&plan)
}

fn summary(plan: &Plan) -> (Vec<usize>, usize) {
    (plan.existing.iter().map(|node| node.pods.len()).collect(), plan.new_nodes.len())
}

fn pending(count: usize, constraint: TopologySpread) -> Vec<Pod> {
    web("new", constraint).times(count)
}

#[test]
fn nodes_that_all_have_one_already_take_one_more() {
    let even = || with_pods(&[("a", 1), ("b", 1), ("c", 1)]);
    assert_eq!(sound(even().pods(pending(1, apart()))), (vec![1], 0));
    assert_eq!(sound(even().pods(pending(3, apart()))), (vec![1, 1, 1], 0));
    assert_eq!(sound(even().pods(pending(7, apart()))), (vec![3, 2, 2], 0));
    let uneven = || with_pods(&[("a", 2), ("b", 1)]);
    assert_eq!(sound(uneven().pods(pending(1, apart()))), (vec![1], 0));
    assert_eq!(sound(uneven().pods(pending(4, apart()))), (vec![2, 2], 0));
}

#[test]
fn an_empty_node_that_the_pod_could_go_to_keeps_the_minimum_at_zero() {
    let beside = |empty: NodeBuilder, constraint: TopologySpread| {
        let full = empty.has("cpu", "50m").label("team", "x");
        sound(with_pods(&[("a", 1), ("b", 1)]).node(full).pods(pending(1, constraint)))
    };
    let joins = (vec![1], 0);
    let new_node = (vec![], 1);
    assert_eq!(beside(node("full"), apart()), new_node);
    assert_eq!(beside(node("starting").of_pool("default").starting(), apart()), new_node);
    assert_eq!(beside(node("going").deleting(), apart()), joins, "it will be no domain");

    let tainted = || node("tainted").taint("other", Effect::NoSchedule);
    assert_eq!(beside(tainted(), apart()), new_node, "nodeTaintsPolicy Ignore");
    let honor = TopologySpread { node_taints_policy: NodeInclusionPolicy::Honor, ..apart() };
    assert_eq!(beside(tainted(), honor), joins);
}

#[test]
fn nodes_outside_the_node_affinity_are_no_domains_unless_the_policy_ignores_it() {
    let choosy = |policy: NodeInclusionPolicy| {
        let constraint = TopologySpread { node_affinity_policy: policy, ..apart() };
        let ours = |name: &str| node(name).label("team", "x");
        let running = |name: &str| pod(&format!("on-{name}")).app("web").on_node(name);
        let cluster = cluster()
            .pool(pool("default").label("team", "x"))
            .node(ours("a"))
            .pod(running("a"))
            .node(node("other"))
            .pods(web("new", constraint).select("team", "x").times(1));
        sound(cluster)
    };
    assert_eq!(choosy(NodeInclusionPolicy::Honor), (vec![1], 0));
    assert_eq!(choosy(NodeInclusionPolicy::Ignore), (vec![], 1));
}

#[test]
fn fewer_nodes_than_min_domains_make_the_minimum_zero() {
    let least = |nodes: u32| TopologySpread { min_domains: Some(nodes), ..apart() };
    let even = || with_pods(&[("a", 1), ("b", 1)]);
    assert_eq!(sound(even().pods(pending(1, least(2)))), (vec![1], 0));
    assert_eq!(sound(even().pods(pending(1, least(3)))), (vec![], 1));
}

#[test]
fn replicas_without_nodes_still_get_a_node_each() {
    assert_eq!(sound(default_cluster().pods(pending(3, apart()))), (vec![], 3));
}

#[test]
fn replicas_that_must_move_are_never_gathered_on_fewer_nodes() {
    let cluster = ["a", "b", "c"].iter().fold(default_cluster(), |cluster, name| {
        cluster.node(node(name)).pod(web(&format!("on-{name}"), apart()).on_node(name))
    });
    let snapshot = cluster.snapshot();
    let gone = [snapshot.node_id("c").unwrap()];
    let plan = simulate(&snapshot, &gone, &[], &Options::default(), &|| true);
    assert_eq!(summary(&plan), (vec![], 1));
}

#[test]
fn a_checker_refuses_a_node_that_is_ahead_of_another() {
    let input = with_pods(&[("a", 2), ("b", 1)]).pods(pending(1, apart())).input();
    let mut plan = solver::solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    assert_eq!(&*plan.existing[0].node, "b");
    plan.existing[0].node = "a".into();
    assert_eq!(check(&input, &plan, &Options::default()).len(), 1);
}

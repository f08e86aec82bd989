//! Nodes that exist, and what fits on a node.

use std::sync::Arc;

use model::pool::ClusterInput;
use model::requirement::Operator;
use model::taint::Effect;
use solver::Options;

use crate::by_hand::{broken, broken_without, large, new_node, plan, small};
use crate::fixture::{PodBuilder, ZONES, cluster, node, pod, pool, quantity, requires};

fn with_pods(pods: Vec<PodBuilder>) -> ClusterInput {
    let types = vec![small().build(), large().build()];
    let start = cluster().pool(pool("default").types(types));
    pods.into_iter().fold(start, |cluster, pod| cluster.pod(pod)).input()
}

#[test]
fn nodes_that_are_unknown_or_go_away_take_nothing() {
    let mut input = with_pods(vec![pod("web")]);
    input.nodes.push(node("stays").build());
    input.nodes.push(node("going").deleting().build());
    let on = |name: &'static str| plan(&input, vec![], &[(name, &["web"])]);
    assert!(broken(&input, &on("stays")).is_empty());
    assert_eq!(broken(&input, &on("nobody")), ["UnknownNode"]);
    assert_eq!(broken(&input, &on("going")), ["NodeGoesAway"]);
    assert_eq!(broken_without(&input, &["stays"], &on("stays"), &Options::default()), ["NodeGoesAway"]);
}

// Cases: DEL-15
#[test]
fn moved_pods_do_not_go_where_it_is_still_unsettled() {
    let mut input = with_pods(vec![pod("moved").on_node("old"), pod("pending")]);
    input.nodes.push(node("old").build());
    input.nodes.push(node("busy").of_pool("default").but(|n| n.settling = true).build());
    let both = plan(&input, vec![], &[("busy", &["moved", "pending"])]);
    let careful = Options { protect_settling: true, ..Options::default() };
    assert_eq!(broken_without(&input, &["old"], &both, &careful), ["NodeSettles"]);
    assert!(broken_without(&input, &["old"], &both, &Options::default()).is_empty());
}

// Cases: SIM-1, DEL-14
#[test]
fn moved_pods_do_not_wait_for_nodes_that_start() {
    let mut input = with_pods(vec![pod("moved").on_node("old"), pod("leaving").on_node("going")]);
    input.nodes.push(node("old").build());
    input.nodes.push(node("going").deleting().build());
    input.nodes.push(node("new").of_pool("default").starting().build());
    let both = plan(&input, vec![], &[("new", &["moved", "leaving"])]);
    let careful = Options { distrust_uninitialized: true, ..Options::default() };
    assert_eq!(broken_without(&input, &["old"], &both, &careful), ["NodeNotInitialized"]);
    assert!(broken_without(&input, &["old"], &both, &Options::default()).is_empty());
}

// Cases: SCH-A.6-5, SCH-D-24
#[test]
fn pods_must_fit_every_listed_type() {
    let input = with_pods(vec![pod("web-0").cpu("1"), pod("web-1").cpu("1500m")]);
    let listed = |types: &[&str]| plan(&input, vec![new_node(types, &["web-0", "web-1"])], &[]);
    assert!(broken(&input, &listed(&["large"])).is_empty());
    assert_eq!(broken(&input, &listed(&["small", "large"])), ["DoesNotFit"]);
}

#[test]
fn the_number_of_pods_is_a_resource() {
    let mut input = with_pods(vec![pod("web-0"), pod("web-1")]);
    let one_pod = small().pods(1).build();
    input.pools[0].instance_types = Arc::new(vec![one_pod]);
    assert_eq!(
        broken(&input, &plan(&input, vec![new_node(&["small"], &["web-0", "web-1"])], &[])),
        ["DoesNotFit"]
    );
}

// Cases: SCH-D-24
#[test]
fn daemons_need_their_share_of_a_new_node() {
    let mut input = with_pods(vec![pod("web").cpu("1800m")]);
    assert!(broken(&input, &plan(&input, vec![new_node(&["small"], &["web"])], &[])).is_empty());
    input.daemon_sets = cluster().daemon(pod("agent").cpu("200m")).input().daemon_sets;
    let squeezed = plan(&input, vec![new_node(&["small"], &["web"])], &[]);
    assert_eq!(broken(&input, &squeezed), ["DoesNotFit"]);
    let elsewhere = pod("agent").cpu("200m").select("kubernetes.io/arch", "arm64");
    input.daemon_sets = cluster().daemon(elsewhere).input().daemon_sets;
    assert!(broken(&input, &squeezed).is_empty());
}

// Cases: SCH-J-5
#[test]
fn huge_pages_take_memory() {
    let mut input = with_pods(vec![pod("web").memory("3Gi")]);
    let fine = plan(&input, vec![new_node(&["small"], &["web"])], &[]);
    assert!(broken(&input, &fine).is_empty());
    let paged = small().with("hugepages-2Mi", 1 << 30).build();
    input.pools[0].instance_types = Arc::new(vec![paged]);
    assert_eq!(broken(&input, &fine), ["DoesNotFit"]);
}

// Cases: SCH-B.8-14, SCH-H.3-3, SCH-H.3-10
#[test]
fn pods_and_daemons_of_an_existing_node_leave_only_the_rest() {
    let mut input = with_pods(vec![pod("web").cpu("2"), pod("old").cpu("1500m").on_node("n")]);
    input.nodes.push(node("n").build());
    let on_node = plan(&input, vec![], &[("n", &["web"])]);
    assert!(broken(&input, &on_node).is_empty());
    input.daemon_sets = cluster().daemon(pod("agent").cpu("600m")).input().daemon_sets;
    assert_eq!(broken(&input, &on_node), ["DoesNotFit"]);
    // A daemon that runs already is not waited for, so the same total fits.
    input.pods[1] = pod("agent-x").cpu("1500m").on_node("n").but(|p| p.daemon = true).build();
    assert!(broken(&input, &on_node).is_empty());
    input.pods[0] = pod("web").cpu("2600m").build();
    assert_eq!(broken(&input, &on_node), ["DoesNotFit"]);
}

// Cases: SCH-A.6-9
#[test]
fn stated_requests_are_those_of_the_pods_and_at_most_all_daemons() {
    let mut input = with_pods(vec![pod("web").cpu("1")]);
    input.daemon_sets = cluster().daemon(pod("agent").cpu("200m")).input().daemon_sets;
    let stating = |cpu: &'static str| {
        let mut plan = plan(&input, vec![new_node(&["small"], &["web"])], &[]);
        plan.new_nodes[0].requests.insert("cpu", quantity(cpu));
        plan
    };
    assert!(broken(&input, &stating("1200m")).is_empty());
    assert_eq!(broken(&input, &stating("900m")), ["WrongRequests"]);
    assert_eq!(broken(&input, &stating("1300m")), ["WrongRequests"]);
}

// Cases: SCH-C.10-3
#[test]
fn pods_tolerate_the_taints_of_their_node() {
    let mut input = with_pods(vec![pod("web"), pod("bold").tolerates("dedicated")]);
    input.nodes.push(node("n").taint("dedicated", Effect::NoExecute).build());
    let on_node = plan(&input, vec![new_node(&["small"], &["bold"])], &[("n", &["web"])]);
    assert_eq!(broken(&input, &on_node), ["Untolerated"]);
    let swapped = plan(&input, vec![new_node(&["small"], &["web"])], &[("n", &["bold"])]);
    assert!(broken(&input, &swapped).is_empty());

    let tainted =
        |effect| pool("default").types(vec![small().build()]).taint("dedicated", "x", effect).build();
    input.pools[0] = tainted(Effect::NoSchedule);
    assert_eq!(broken(&input, &swapped), ["Untolerated"]);
    input.pools[0] = tainted(Effect::PreferNoSchedule);
    assert!(broken(&input, &swapped).is_empty());
    input.pools[0] = pool("default").types(vec![small().build()]).startup_taint("booting").build();
    assert!(broken(&input, &swapped).is_empty());
}

/// A claim states the daemons of its types as Karpenter does: also those that only run in other zones than its own.
#[test]
fn daemons_of_other_zones_may_be_stated() {
    let input = cluster()
        .pool(pool("default").types(vec![small().build()]))
        .daemon(pod("zonal").cpu("100m").in_zone(ZONES[1]))
        .pods(vec![pod("web").cpu("1").in_zone(ZONES[0]).build()])
        .input();
    let options = Options::default();
    let plan = solver::solve(&solver::Snapshot::build(input.clone()), &options, &|| true);
    assert_eq!(plan.new_nodes[0].requests.get("pods"), quantity("2"));
    assert_eq!(solver::check::check(&input, &plan, &options), []);
}

/// A well-known label that no type has is absent from every new node.
#[test]
fn pods_and_daemons_may_ask_for_the_absence_of_a_label_that_no_type_has() {
    let absent = || requires("special", Operator::DoesNotExist, &[]);
    let input = cluster()
        .pool(pool("default").types(vec![small().build()]))
        .daemon(pod("everywhere").cpu("1").or_requires(absent()))
        .pods(vec![pod("web").cpu("800m").or_requires(absent()).build()])
        .input();
    let options = Options::default();
    let plan = solver::solve(&solver::Snapshot::build(input.clone()), &options, &|| true);
    assert_eq!(plan.new_nodes[0].requests.get("cpu"), quantity("1800m"));
    assert_eq!(solver::check::check(&input, &plan, &options), []);
}

/// A DaemonSet with resource claims is overhead for neither solver nor checker, on new nodes and on those that exist.
// Cases: SCH-B.16-2
#[test]
fn daemons_with_resource_claims_are_no_overhead() {
    let daemon = || pod("driver").cpu("1").host_port(8080).with_spec(|spec| spec.uses_resource_claims = true);
    let tight = |name: &str| pod(name).cpu("1500m").host_port(8080).build();
    let of_pool = || cluster().pool(pool("default").types(vec![small().build()])).daemon(daemon());
    for input in [
        of_pool().pods(vec![tight("new")]).input(),
        of_pool().node(node("node-1").has("cpu", "2")).pods(vec![tight("existing")]).input(),
    ] {
        let options = solver::Options::default();
        let plan = solver::solve(&solver::Snapshot::build(input.clone()), &options, &|| true);
        assert!(plan.is_complete(), "{plan:?}");
        assert_eq!(solver::check::check(&input, &plan, &options), []);
    }
}

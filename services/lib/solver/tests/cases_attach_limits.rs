//! Volumes that new nodes can have attached: limits come from the instance type, as nodes will report them once they run.

mod fixture;

use fixture::*;
use model::catalog::InstanceType;
use model::pod::{EBS_DRIVER, Pod};
use solver::check::check;
use solver::{Change, NeedsRebuild, Options, Plan, Snapshot};

const OTHER: &str = "other.csi.example.com";

fn types() -> Vec<InstanceType> {
    let kind = |name: &str, most: u32, price: f64| {
        instance_type(name).cpu(16).memory(64).pods(100).price(price).attaches(EBS_DRIVER, most).build()
    };
    vec![kind("few", 3, 1.0), kind("many", 8, 2.0)]
}

fn limited() -> ClusterBuilder {
    cluster().pool(pool("default").types(types()))
}

/// A pod with so many claims of its own.
fn with_volumes(name: &str, driver: &str, claims: usize) -> PodBuilder {
    let claim = |n: usize| format!("default/{name}-{n}");
    (0..claims).fold(pod(name).cpu("10m"), |pod, n| pod.volume(&claim(n), Some(driver), Vec::new()))
}

fn replicas(count: usize, driver: &str, claims: usize) -> Vec<Pod> {
    (0..count).map(|n| with_volumes(&format!("db-{n}"), driver, claims).build()).collect()
}

/// The plan, which the checker must find nothing wrong with.
fn sound(cluster: ClusterBuilder) -> Plan {
    let input = cluster.input();
    let plan = solver::solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    assert_eq!(check(&input, &plan, &Options::default()), []);
    plan
}

#[test]
fn a_new_node_gets_no_more_volumes_than_its_type_attaches() {
    let plan = sound(limited().pods(replicas(12, EBS_DRIVER, 1)));
    assert!(left_over(&plan).is_empty());
    for node in &plan.new_nodes {
        let most = if type_names(node).contains(&"few") { 3 } else { 8 };
        assert!(node.pods.len() <= most, "{} volumes on {:?}", node.pods.len(), node.instance_types);
        let asked: Vec<&str> = node.requests.iter().map(|(name, _)| name).collect();
        assert_eq!(asked, ["cpu", "pods"], "volumes are no resource that a NodeClaim asks for");
    }
}

#[test]
fn other_drivers_and_types_without_a_limit_are_not_limited() {
    let pods_of = |plan: Plan| pods_per_node(&plan);
    assert_eq!(pods_of(sound(limited().pods(replicas(12, OTHER, 1)))), [12]);
    let unlimited = instance_type("any").cpu(16).memory(64).pods(100).build();
    let cluster = cluster().pool(pool("default").types(vec![unlimited]));
    assert_eq!(pods_of(sound(cluster.pods(replicas(12, EBS_DRIVER, 1)))), [12]);
}

#[test]
fn a_pod_chooses_a_type_that_attaches_all_its_volumes_or_is_told_that_none_does() {
    let plan = sound(limited().pods(replicas(1, EBS_DRIVER, 5)));
    assert_eq!(type_names(&plan.new_nodes[0]), ["many"]);
    let plan = sound(limited().pods(replicas(1, EBS_DRIVER, 9)));
    assert_eq!(left_over(&plan), ["db-0"]);
    let why = plan.unschedulable[0].why.to_string();
    assert!(why.contains("no type has 9 attachable-volumes-csi-ebs.csi.aws.com; the largest has 8"), "{why}");
}

#[test]
fn nodes_that_exist_are_limited_by_what_they_report() {
    let plan = sound(limited().node(node("n").csi_limit(EBS_DRIVER, 10)).pods(replicas(10, EBS_DRIVER, 1)));
    assert_eq!(plan.existing[0].pods.len(), 10);
    let plan = sound(limited().node(node("n")).pods(replicas(30, EBS_DRIVER, 1)));
    assert_eq!(plan.existing[0].pods.len(), 30, "no figure, no limit");
}

#[test]
fn the_first_pod_with_volumes_is_planned_like_any_other() {
    let snapshot = limited().pods(pod("plain").times(1)).snapshot();
    let added = replicas(1, EBS_DRIVER, 1).remove(0);
    let changed = snapshot.apply(&[Change::PodAdded(added.clone())]);
    assert_eq!(changed.err(), Some(NeedsRebuild), "nothing was compiled for volumes");
    let snapshot = limited().pods(vec![added]).snapshot();
    let more = replicas(12, EBS_DRIVER, 1).into_iter().skip(1).map(Change::PodAdded);
    let grown = snapshot.apply(&more.collect::<Vec<_>>()).unwrap();
    let rebuilt = limited().pods(replicas(12, EBS_DRIVER, 1)).plan();
    assert_eq!(solver::solve(&grown, &Options::default(), &|| true), rebuilt);
}

#[test]
fn a_checker_refuses_a_new_node_with_too_many_volumes() {
    let input = limited().pods(replicas(12, EBS_DRIVER, 1)).input();
    let mut plan = solver::solve(&Snapshot::build(input.clone()), &Options::default(), &|| true);
    let moved = plan.new_nodes.pop().unwrap();
    plan.cost -= moved.launch.price;
    plan.new_nodes[0].requests.add(&moved.requests);
    plan.new_nodes[0].pods.extend(moved.pods);
    let found: Vec<String> =
        check(&input, &plan, &Options::default()).iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|violation| violation.contains("volumes of ebs.csi.aws.com")), "{found:?}");
}

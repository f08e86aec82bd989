//! Pools, nodes with pods, daemons and pending workloads.

use std::sync::Arc;

use model::pod::Pod;
use model::pool::ClusterInput;
use model::requirement::Operator;
use model::taint::Effect;

use super::pods::{bound_port, namespaces, node_term, shape, volumes, workload};
use super::types::catalogue;
use crate::fixture::{
    CAPACITY_TYPE, ClusterBuilder, NodeBuilder, PoolBuilder, ZONE, ZONES, cluster, node, pod, pool,
};
use crate::scenario::random::Random;

pub(crate) fn random_cluster(seed: u64) -> ClusterInput {
    let mut random = Random::new(seed);
    let random = &mut random;
    let types = catalogue(random);
    let mut out = cluster();
    for (name, labels) in namespaces() {
        out.0.namespaces.insert(name, labels);
    }
    for n in 0..random.between(1, 3) {
        out = out.pool(random_pool(n, random).types(types.clone()));
    }
    for _ in 0..[0, 0, 1, 2][random.below(4)] {
        out = out.daemon(random_daemon(random));
    }
    for n in 0..[0, 0, 2, 4][random.below(4)] {
        out = with_node(out, n, random);
    }
    for n in 0..random.between(1, 5) {
        out = out.pods(workload(n, random));
    }
    let mut input = out.input();
    // Types are one shared list, as real pools of one node class have them, in half of the cases.
    if random.one_in(2) {
        let first = Arc::clone(&input.pools[0].instance_types);
        for pool in &mut input.pools {
            pool.instance_types = Arc::clone(&first);
        }
    }
    input
}

fn random_pool(n: usize, random: &mut Random) -> PoolBuilder {
    let mut out = pool(&format!("pool-{n}")).weight(random.pick(&[0, 0, 10, 50]));
    if random.one_in(3) {
        out = out.limit("cpu", random.pick(&["2", "6", "12"]));
    }
    if random.one_in(6) {
        out = out.limit("nodes", random.pick(&["1", "3"]));
    }
    if random.one_in(10) {
        out = out.limit("memory", random.pick(&["8Gi", "20Gi"]));
    }
    if random.one_in(4) {
        out = out.taint("dedicated", random.pick(&["x", "y"]), Effect::NoSchedule);
    }
    if random.one_in(8) {
        out = out.taint("soft", "yes", Effect::PreferNoSchedule);
    }
    if random.one_in(8) {
        out = out.startup_taint("startup");
    }
    if random.one_in(3) {
        out = out.label("team", random.pick(&["red", "blue"]));
    }
    if random.one_in(3) {
        out = out.requires(CAPACITY_TYPE, Operator::In, random.pick(&[&["spot"][..], &["on-demand"][..]]));
    }
    if random.one_in(4) {
        out = out.requires(ZONE, Operator::In, random.pick(&[&ZONES[..2], &ZONES[1..], &ZONES[..1]]));
    }
    if random.one_in(6) {
        out = out.requires("integer", Operator::Lt, &["8"]);
    }
    if random.one_in(5) {
        out = out.requires("rack", Operator::In, random.pick(&[&["r1"][..], &["r1", "r2"][..]]));
    }
    if random.one_in(5) {
        let least = random.pick(&[1, 2, 3]);
        let key = random.pick(&["node.kubernetes.io/instance-type", "integer", ZONE]);
        out = out.min_values(key, Operator::Exists, &[], least);
    }
    if random.one_in(20) {
        out = out.fixed_size();
    }
    out
}

fn random_daemon(random: &mut Random) -> crate::fixture::PodBuilder {
    let mut out = pod("daemon").cpu(random.pick(&["50m", "100m"])).memory("64Mi");
    if random.one_in(3) {
        out = out.select("kubernetes.io/arch", "amd64");
    }
    if random.one_in(4) {
        out = out.select("size", "large");
    }
    if random.one_in(3) {
        out = out.tolerates("dedicated");
    }
    if random.one_in(6) {
        out = out.host_port(8080);
    }
    if random.one_in(4) {
        out = out.or_requires(node_term(random));
    }
    if random.one_in(8) {
        out = out.tolerates_value("soft", "yes", Effect::PreferNoSchedule);
    }
    if random.one_in(12) {
        out = out.request("fake.com/gpu", "1");
    }
    let (port, claims) = (random.one_in(8).then(|| bound_port(random)), random.one_in(4));
    out.with_spec(|spec| {
        spec.host_ports.extend(port);
        spec.uses_resource_claims = claims;
    })
}

fn with_node(mut out: ClusterBuilder, n: usize, random: &mut Random) -> ClusterBuilder {
    let name = format!("node-{n}");
    let mut made: NodeBuilder = node(&name)
        .zone(random.pick(&ZONES))
        .label(CAPACITY_TYPE, random.pick(&["spot", "on-demand"]))
        .has("cpu", random.pick(&["2", "4"]));
    if !random.one_in(3) {
        let owner = format!("pool-{}", random.below(3));
        made = made.of_pool(&owner);
        match random.below(6) {
            0 => made = made.starting(),
            1 => made = made.starting().but(|n| n.registered = false),
            2 => made = made.deleting(),
            _ => {}
        }
    }
    if random.one_in(6) {
        made = made.label("rack", random.pick(&["r1", "r2", "r3"]));
    }
    if random.one_in(6) {
        made = made.taint("dedicated", Effect::NoSchedule);
    }
    if random.one_in(6) {
        made = made.csi_limit("ebs.csi.aws.com", random.pick(&[1, 2]));
    }
    if random.one_in(4) {
        made = made.but(|n| n.settling = true);
    }
    out = out.node(made);
    let pods: Vec<Pod> = (0..random.below(4)).map(|m| bound(&name, m, random)).collect();
    out.pods(pods)
}

fn bound(node: &str, m: usize, random: &mut Random) -> Pod {
    let mut pod = shape(&format!("{node}-pod-{m}"), random).cpu("200m").memory("128Mi").on_node(node).build();
    if random.one_in(6) {
        // Numbers of its own, so that no pending pod has the same volume.
        pod.volumes = volumes(100, m, random);
    }
    pod.terminating = random.one_in(8);
    pod.reschedulable = !pod.terminating && !random.one_in(5);
    if random.one_in(8) {
        pod.daemon = true;
        pod.bound_to_node = true;
        pod.reschedulable = false;
    }
    pod
}

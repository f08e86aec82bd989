//! Where kube-scheduler puts the pods of removed nodes: beside a literal version of its scores, and who comes first.

mod fixture;
mod scenario;

use std::collections::BTreeMap;
use std::sync::Arc;

use fixture::*;
use model::pod::Pod;
use model::pool::ClusterInput;
use model::resources::{CPU, MEMORY, PODS};
use scenario::catalogue::families;
use scenario::generate::fragmented_cluster;
use scenario::random::Random;
use solver::{NodeId, Options, Order, Scheduled, Scheduler, Snapshot, Target};

fn amounts(of: &model::resources::Resources) -> [i128; 3] {
    [CPU, MEMORY, PODS].map(|name| of.get(name).nano())
}

/// Of 200: the mean of what is left free, and how alike both shares are.
fn score(used: [i128; 3], all: [i128; 3]) -> i128 {
    let share = |dim: usize| used[dim] * 10_000 / all[dim];
    let (cpu, memory) = (share(0), share(1));
    ((10_000 - cpu) / 100 + (10_000 - memory) / 100) / 2 + 100 - (cpu - memory).abs() / 200
}

/// Requests and node of each pod of the removed nodes, the largest placed first, every node looked at for every pod.
fn literally(input: &ClusterInput, removed: &[&str]) -> Vec<([i128; 3], bool, Option<String>)> {
    let mut nodes: BTreeMap<&str, ([i128; 3], [i128; 3], bool)> = input
        .nodes
        .iter()
        .filter(|node| !removed.contains(&&*node.name))
        .map(|node| (&*node.name, ([0; 3], amounts(&node.allocatable), false)))
        .collect();
    let requests = |pod: &Pod| {
        let [cpu, memory, _] = amounts(&pod.spec.requests);
        ([cpu, memory, 1_000_000_000], !pod.spec.host_ports.is_empty())
    };
    let mut moved = Vec::new();
    for pod in &input.pods {
        let (wanted, port) = requests(pod);
        match nodes.get_mut(pod.node.as_deref().expect("all run")) {
            None => moved.push((wanted, port)),
            Some((used, _, taken)) => {
                (0..3).for_each(|dim| used[dim] += wanted[dim]);
                *taken |= port;
            }
        }
    }
    moved.sort_by_key(|(wanted, port)| (-wanted[0], -wanted[1], *port));
    let mut out = Vec::new();
    for (wanted, port) in moved {
        let mut best: Option<(i128, &str)> = None;
        for (name, (used, all, taken)) in &nodes {
            let after: [i128; 3] = std::array::from_fn(|dim| used[dim] + wanted[dim]);
            let fits = (0..3).all(|dim| after[dim] <= all[dim]) && !(port && *taken);
            if fits && best.is_none_or(|(known, _)| score(after, *all) > known) {
                best = Some((score(after, *all), name));
            }
        }
        let target = best.map(|(_, name)| name);
        if let Some((used, _, taken)) = target.and_then(|name| nodes.get_mut(name)) {
            (0..3).for_each(|dim| used[dim] += wanted[dim]);
            *taken |= port;
        }
        out.push((wanted, port, target.map(str::to_owned)));
    }
    out.sort();
    out
}

#[test]
fn every_pod_goes_where_looking_at_all_nodes_finds_the_highest_score() {
    let mut left = 0;
    for seed in 0..20 {
        let mut input = fragmented_cluster(40, families(), seed).to_input();
        let mut random = Random::new(seed);
        // Those that want a port of their host are larger than others, so that equals are placed one after the other.
        for pod in &mut input.pods {
            if random.one_in(8) {
                let spec = Arc::make_mut(&mut pod.spec);
                spec.requests.insert(CPU, quantity("1700m"));
                spec.host_ports = self::pod("port").host_port(80).spec().host_ports.clone();
            }
        }
        let names: Vec<String> = input.nodes.iter().map(|node| node.name.to_string()).collect();
        let removed: Vec<&str> =
            names.iter().filter(|_| random.one_in(1 + seed as usize % 10)).map(String::as_str).collect();
        let snapshot = Snapshot::build(input.clone());
        let ids: Vec<NodeId> = removed.iter().filter_map(|name| snapshot.node_id(name)).collect();
        let scheduler = Scheduler::new(&snapshot, &ids, &Options::default());
        let scheduled = scheduler.schedule(&[], Order::LargestFirst);
        assert_eq!(scheduled, scheduler.schedule(&[], Order::LargestFirst), "nothing is left of the first");
        let by_name: BTreeMap<String, &Pod> = input.pods.iter().map(|pod| (pod.key(), pod)).collect();
        let of = |pod: String, target: Option<String>| {
            let [cpu, memory, _] = amounts(&by_name[&pod].spec.requests);
            ([cpu, memory, 1_000_000_000], !by_name[&pod].spec.host_ports.is_empty(), target)
        };
        let placed = scheduled.placed.iter().map(|(pod, target)| match target {
            Target::Existing(node) => of(pod.to_string(), Some(snapshot.node_name(*node).to_string())),
            Target::New(_) => panic!("there is no new node"),
        });
        let pending = scheduled.left.iter().map(|pod| of(pod.to_string(), None));
        let mut found: Vec<_> = placed.chain(pending).collect();
        found.sort();
        assert_eq!(found, literally(&input, &removed), "seed {seed}");
        left += scheduled.left.len();
    }
    assert!(left > 0, "some seed leaves pods pending");
}

/// `old` goes, `stays` has room for two CPUs.
fn with_room_for_two(pods: Vec<PodBuilder>) -> ClusterBuilder {
    let cluster =
        default_cluster().node(node("old").of_pool("default")).node(node("stays").of_pool("default"));
    let cluster = cluster.pod(pod("fills").cpu("2").on_node("stays"));
    pods.into_iter().fold(cluster, ClusterBuilder::pod)
}

fn left(cluster: ClusterBuilder) -> Vec<String> {
    let snapshot = cluster.snapshot();
    let old = snapshot.node_id("old").expect("it is there");
    let scheduler = Scheduler::new(&snapshot, &[old], &Options::default());
    let Scheduled { left, .. } = scheduler.schedule(&[], Order::LargestFirst);
    left.iter().map(|pod| pod.name.to_string()).collect()
}

#[test]
fn pods_of_a_higher_priority_are_placed_first() {
    let pods = |high: i32| {
        vec![pod("large").cpu("2").on_node("old"), pod("small").cpu("1").priority(high).on_node("old")]
    };
    assert_eq!(left(with_room_for_two(pods(0))), ["small"], "the largest first");
    assert_eq!(left(with_room_for_two(pods(10))), ["large"]);
}

#[test]
fn pods_that_wait_take_the_room_first_and_are_not_reported() {
    let moved = || pod("moved").cpu("2").on_node("old");
    assert!(left(with_room_for_two(vec![moved()])).is_empty(), "alone it fits");
    assert_eq!(left(with_room_for_two(vec![moved(), pod("waits").cpu("1")])), ["moved"]);
    let unimportant = pod("waits").cpu("1").priority(-1);
    assert!(left(with_room_for_two(vec![moved(), unimportant])).is_empty(), "it comes after");
    let impossible = pod("waits").cpu("1").select("team", "nobody");
    assert!(left(with_room_for_two(vec![moved(), impossible])).is_empty(), "it fits nowhere");
}

#[test]
fn pods_of_nodes_that_are_being_deleted_compete_for_the_room() {
    let cluster = with_room_for_two(vec![
        pod("moved").cpu("1500m").on_node("old"),
        pod("evicted").cpu("1").on_node("dying"),
    ]);
    assert_eq!(left(cluster.node(node("dying").of_pool("default").deleting())), ["evicted"]);
    let cluster = with_room_for_two(vec![
        pod("moved").cpu("1").on_node("old"),
        pod("evicted").cpu("1500m").on_node("dying"),
    ]);
    assert_eq!(left(cluster.node(node("dying").of_pool("default").deleting())), ["moved"]);
}

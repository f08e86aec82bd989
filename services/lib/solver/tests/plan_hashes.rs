//! Plans, byte by byte: hashes of recorded ones. The hash is made of integers only, so that equal plans have equal hashes on
//! every machine; a machine that rounds otherwise, or a change that was not meant to change plans, shows here.
//!
//! A change that is meant to change plans replaces `data/plan-hashes.tsv` by what the failing test prints.

mod fixture;
#[allow(dead_code, reason = "no case is made smaller or described here")]
mod random;
mod scenario;

use std::fmt::Write as _;

use model::pool::ClusterInput;
use random::cluster::random_cluster;
use random::options;
use scenario::catalogue::families;
use scenario::generate::{anything, benchmark_mix, deployments, limited, preferences, zonal_apart};
use scenario::hard;
use scenario::random::Random;
use solver::{NodeId, Options, Plan, Snapshot, simulate, solve};

const RECORDED: &str = include_str!("data/plan-hashes.tsv");

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Everything that a plan decides, as text.
fn text(plan: &Plan) -> String {
    let mut out = format!("{} {:?}\n", plan.cost.get(), plan.lower_bound.map(|bound| bound.get()));
    for node in &plan.new_nodes {
        let launch = &node.launch;
        let pods: Vec<String> = node.pods.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "{} {} {} {:?} {:?} {} {} {:?} {:?}",
            node.pool,
            launch.instance_type,
            launch.zone,
            launch.capacity_type,
            launch.reservation,
            launch.price.get(),
            node.requirements,
            node.instance_types,
            pods
        )
        .expect("a string takes everything");
    }
    for node in &plan.existing {
        let pods: Vec<String> = node.pods.iter().map(ToString::to_string).collect();
        writeln!(out, "{} {pods:?}", node.node).expect("a string takes everything");
    }
    for left in &plan.unschedulable {
        writeln!(out, "{} {}", left.pod, left.why).expect("a string takes everything");
    }
    out
}

fn solved(input: ClusterInput) -> Plan {
    solve(&Snapshot::build(input), &Options::default(), &|| true)
}

/// Random clusters, some of which lose nodes, under random options.
fn what_if(seed: u64) -> Plan {
    let mut random = Random::new(!seed);
    let snapshot = Snapshot::build(random_cluster(seed.wrapping_add(1 << 49)));
    let remove: Vec<NodeId> = snapshot.node_ids().filter(|_| random.one_in(3)).collect();
    simulate(&snapshot, &remove, &[], &options(&mut random), &|| true)
}

/// By name: plans of every kind of input that the packing tells apart.
fn plans() -> Vec<(String, Plan)> {
    let mut all: Vec<(String, Plan)> = Vec::new();
    all.extend((0..150).map(|seed| (format!("random-{seed}"), what_if(seed))));
    all.extend((0..60).map(|seed| (format!("anything-{seed}"), solved(anything(seed).to_input()))));
    let named = [
        ("mix-200", benchmark_mix(200, 42).to_input()),
        ("preferences-100", preferences(100, 42).to_input()),
        ("plain-600", deployments(600, 12, families(), 1).to_input()),
        ("plain-10", deployments(10, 10, families(), 2).to_input()),
        ("plain-1000-in-200", deployments(1000, 200, families(), 3).to_input()),
        ("zonal-apart", zonal_apart(3).to_input()),
        ("limited", limited(10, 64).to_input()),
        ("gpu", hard::gpu_mix(500, 1).to_input()),
        ("teams", hard::teams(5, 40, 1).to_input()),
        ("storage", hard::storage(300, 1)),
        ("volumes", hard::with_volumes(150)),
        ("pools", hard::many_pools(20, 20).to_input()),
        ("sets", hard::requirement_sets(100).to_input()),
        ("tenants", hard::tenants(40)),
        ("odd", hard::odd_sizes(300).to_input()),
        ("spread-thrice", hard::spread_thrice(400, families()).to_input()),
    ];
    all.extend(named.map(|(name, input)| (name.to_owned(), solved(input))));
    all
}

#[test]
fn recorded_plans_are_the_same_byte_by_byte() {
    let recorded: Vec<&str> = RECORDED.lines().filter(|line| !line.starts_with('#')).collect();
    let line = |(name, plan): &(String, Plan)| {
        format!("{name}\t{:016x}\t{}\t{}", hash(&text(plan)), plan.new_nodes.len(), plan.cost.get())
    };
    let now: Vec<String> = plans().iter().map(line).collect();
    let differing = now.iter().filter(|line| !recorded.contains(&line.as_str())).count();
    assert!(
        now == recorded,
        "{differing} of {} plans differ from the recorded ones; now they are:\n{}",
        now.len(),
        now.join("\n")
    );
}

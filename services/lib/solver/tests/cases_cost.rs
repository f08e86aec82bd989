//! Cost: price decides, bounds hold, and equal input gives an equal plan.

mod fixture;

use std::sync::Arc;

use fixture::*;
use model::catalog::{CapacityType, InstanceType};
use model::pod::Pod;
use model::requirement::Operator;
use solver::{Effort, Options, Plan};

/// Three families in six sizes, priced as such families are: by processor, dearer with more memory.
fn families() -> Vec<InstanceType> {
    let mut out = Vec::new();
    for (family, memory_per_cpu, price_per_cpu) in [("c", 2, 0.0425), ("m", 4, 0.048), ("r", 8, 0.063)] {
        for cpu in [2, 4, 8, 16, 32, 64] {
            let name = format!("{family}-{cpu}");
            let offered: Vec<(&str, CapacityType)> =
                ZONES.iter().map(|z| (*z, CapacityType::OnDemand)).collect();
            let built = instance_type(&name)
                .cpu(cpu)
                .memory(cpu * memory_per_cpu)
                .pods(if cpu < 16 { 58 } else { 234 })
                .price(price_per_cpu * cpu as f64)
                .offered(&offered);
            out.push(built.build());
        }
    }
    out
}

fn priced(pods: Vec<Vec<Pod>>) -> ClusterBuilder {
    let mut all = cluster().pool(pool("default").types(families()));
    for group in pods {
        all = all.pods(group);
    }
    all
}

fn gap(plan: &Plan) -> f64 {
    plan.gap().expect("a bound was computed")
}

#[track_caller]
fn within_three_percent(pods: Vec<Vec<Pod>>) {
    let plan = priced(pods).plan();
    assert!(plan.is_complete());
    assert!(plan.lower_bound.expect("a price") <= plan.cost);
    assert!(gap(&plan) <= 0.03, "cost {} bound {:?} gap {}", plan.cost, plan.lower_bound, gap(&plan));
}

#[test]
fn plain_workloads_cost_at_most_three_percent_more_than_the_bound() {
    within_three_percent(vec![
        pod("a").cpu("900m").memory("3100Mi").times(500),
        pod("b").cpu("3500m").memory("28Gi").times(500),
    ]);
    within_three_percent(vec![pod("a").cpu("500m").memory("1Gi").times(1000)]);
    let sizes =
        [("100m", "256Mi"), ("250m", "512Mi"), ("500m", "4Gi"), ("1", "1Gi"), ("1500m", "2Gi"), ("2", "8Gi")];
    within_three_percent(
        sizes
            .iter()
            .enumerate()
            .map(|(i, (cpu, memory))| pod(&format!("d{i}")).cpu(cpu).memory(memory).times(150 + 40 * i))
            .collect(),
    );
}

#[test]
fn a_node_that_grows_by_price_beats_one_that_only_grows() {
    // Memory-heavy and processor-heavy pods: one node of each kind is cheaper than two of the middle.
    let plan = priced(vec![
        pod("cpu").cpu("1").memory("1Gi").times(30),
        pod("memory").cpu("500m").memory("7Gi").times(30),
    ])
    .plan();
    assert!(plan.is_complete());
    assert!(gap(&plan) < 0.1, "gap {}", gap(&plan));
}

#[test]
fn effort_never_makes_a_plan_dearer() {
    let input = || {
        priced(vec![
            pod("a").cpu("700m").memory("2Gi").times(37),
            pod("b").cpu("2300m").memory("3Gi").times(11),
            pod("c").app("x").cpu("300m").memory("1Gi").spread(spread(ZONE, 1, &[("app", "x")])).times(20),
            pod("d").app("y").cpu("100m").apart_from(term(HOST, &[("app", "y")])).times(9),
        ])
    };
    let quick = input().plan_with(&Options { effort: Effort::Quick, ..Options::default() });
    let full = input().plan();
    assert!(full.cost <= quick.cost, "{} > {}", full.cost, quick.cost);
    assert!(quick.is_complete() && full.is_complete());
    assert_eq!(skew_of(&full, "c"), [6, 7, 7]);
}

fn skew_of(plan: &Plan, prefix: &str) -> Vec<usize> {
    let mut counts = std::collections::BTreeMap::new();
    for node in &plan.new_nodes {
        let own = node.pods.iter().filter(|p| p.name.starts_with(prefix)).count();
        if own > 0 {
            *counts.entry(zone_of(node).expect("a pinned zone")).or_insert(0) += own;
        }
    }
    let mut out: Vec<usize> = counts.into_values().collect();
    out.sort_unstable();
    out
}

#[test]
fn pods_that_must_be_together_do_not_hold_others_on_a_dear_node() {
    let together =
        || pod("pair").app("pair").cpu("1").memory("1Gi").with(term(HOST, &[("app", "pair")])).times(2);
    let plan = priced(vec![together(), pod("a").cpu("500m").memory("1Gi").times(400)]).plan();
    let alone = priced(vec![pod("a").cpu("500m").memory("1Gi").times(400)]).plan();
    assert!(plan.is_complete());
    assert_eq!(
        plan.new_nodes.iter().filter(|n| n.pods.iter().any(|p| p.name.starts_with("pair"))).count(),
        1
    );
    let more = plan.cost.to_f64() / alone.cost.to_f64();
    assert!(more < 1.05, "two more pods made 400 others {more} times as dear");
}

#[test]
fn min_values_do_not_stop_price_from_deciding() {
    let key = "node.kubernetes.io/instance-type";
    let plan = cluster()
        .pool(pool("default").types(families()).min_values(key, Operator::Exists, &[], 3))
        .pods(pod("a").cpu("900m").memory("1Gi").times(200))
        .plan();
    assert!(plan.is_complete());
    assert!(plan.new_nodes.iter().all(|n| n.instance_types.len() >= 3));
    let free = priced(vec![pod("a").cpu("900m").memory("1Gi").times(200)]).plan();
    let more = plan.cost.to_f64() / free.cost.to_f64();
    assert!(more < 1.15, "keeping three types open cost {more} times as much");
}

#[test]
fn every_type_that_can_hold_a_node_stays_on_it() {
    let plan = priced(vec![pod("a").cpu("1500m").memory("2Gi").times(40)]).plan();
    for node in &plan.new_nodes {
        let launch = node.instance_types.iter().position(|t| *t == node.launch.instance_type);
        assert_eq!(launch, Some(0), "the cheapest is launched");
        let size: i64 = node.launch.instance_type.split('-').next_back().unwrap().parse().unwrap();
        let larger = families()
            .iter()
            .filter(|t| t.name.split('-').next_back().unwrap().parse::<i64>().unwrap() > size)
            .count();
        assert!(node.instance_types.len() > larger, "all larger types fit too: {:?}", node.instance_types);
    }
}

#[test]
fn important_pods_come_first_where_not_all_fit() {
    let plan = cluster()
        .pool(pool("default").types(families()).limit("cpu", "8"))
        .pods(pod("bulk").cpu("3").times(4))
        .pods(pod("vital").cpu("1").priority(1000).times(4))
        .plan();
    assert!(plan.unschedulable.iter().all(|u| u.pod.name.starts_with("bulk")), "{:?}", left_over(&plan));
    assert!(!plan.unschedulable.is_empty());
}

#[test]
fn placeholders_of_buffers_come_last() {
    let plan = cluster()
        .node(node("n").has("cpu", "4"))
        .pods(pod("buffer").cpu("3").but(|p| p.buffer = true).times(1))
        .pod(pod("real").cpu("2"))
        .plan();
    assert_eq!(left_over(&plan), ["buffer-0"]);
}

#[test]
fn equal_input_gives_an_equal_plan_whatever_the_sharing_of_specs() {
    let input = || {
        priced(vec![
            pod("a").app("x").cpu("700m").memory("2Gi").spread(spread(ZONE, 1, &[("app", "x")])).times(50),
            pod("b").cpu("2300m").memory("3Gi").times(30),
        ])
    };
    let shared = input().plan();
    let mut own = input().input();
    for pod in &mut own.pods {
        pod.spec = Arc::new((*pod.spec).clone());
    }
    let again = solver::solve(&solver::Snapshot::build(own), &Options::default(), &|| true);
    assert_eq!(shared, again);
}

#[test]
fn a_bound_beside_nodes_that_exist_still_holds() {
    let plan = priced(vec![pod("a").cpu("1").memory("2Gi").times(100)]).node(node("n")).plan();
    assert!(!plan.existing.is_empty() && !plan.new_nodes.is_empty());
    let bound = plan.lower_bound.unwrap();
    assert!(bound <= plan.cost && bound.get() > 0, "{bound} of {}", plan.cost);
}

#[test]
fn replicas_do_not_make_classes() {
    let snapshot = priced(vec![pod("a").cpu("1").times(5000), pod("b").cpu("2").times(5000)]).snapshot();
    assert_eq!((snapshot.class_count(), snapshot.pending_count()), (2, 10_000));
}

/// The same families at so many times their price.
fn at(times: i64) -> Vec<InstanceType> {
    let mut types = families();
    for instance in &mut types {
        for offering in &mut instance.offerings {
            offering.price = offering.price.saturating_mul(times);
        }
    }
    types
}

#[test]
fn price_decides_among_pools_of_equal_weight() {
    let plan = |dear: PoolBuilder, options: &Options| {
        cluster()
            .pool(dear.types(at(2)))
            .pool(pool("a-cheap").types(families()))
            .pods(pod("a").cpu("900m").memory("1Gi").times(40))
            .plan_with(options)
    };
    let pools = |plan: &Plan| -> Vec<String> {
        let mut names: Vec<String> = plan.new_nodes.iter().map(|n| n.pool.to_string()).collect();
        names.dedup();
        names
    };
    for effort in [Effort::Quick, Effort::Full] {
        let options = Options { effort, ..Options::default() };
        assert_eq!(pools(&plan(pool("z-dear"), &options)), ["a-cheap"]);
        assert_eq!(pools(&plan(pool("z-dear").weight(10), &options)), ["z-dear"], "weight comes first");
    }
    // One pod, one node: what a what-if about a replacement asks.
    let quick = Options { effort: Effort::Quick, ..Options::default() };
    let one = cluster()
        .pool(pool("z-dear").types(at(2)))
        .pool(pool("a-cheap").types(families()))
        .pod(pod("a").cpu("1"))
        .plan_with(&quick);
    assert_eq!(pools(&one), ["a-cheap"]);
}

#[test]
fn price_decides_among_the_terms_of_node_affinity() {
    let key = "node.kubernetes.io/instance-type";
    // A what-if keeps one node one node; a plan need not.
    for (effort, count) in [(Effort::Quick, 1), (Effort::Full, 1), (Effort::Full, 20)] {
        let options = Options { effort, ..Options::default() };
        let wanting = || pod("a").cpu("1").or_requires(is(key, &["r-64"])).or_requires(is(key, &["c-4"]));
        let plan = cluster()
            .pool(pool("default").types(families()))
            .pods(wanting().times(count))
            .plan_with(&options);
        assert!(plan.is_complete());
        let dear = plan.new_nodes.iter().filter(|n| &*n.launch.instance_type == "r-64").count();
        assert_eq!(dear, 0, "{effort:?}, {count} pods: {}", plan.cost);
    }
    // A node that exists and that any term allows costs nothing.
    let plan = cluster()
        .pool(pool("default").types(families()))
        .node(node("n").label("disk", "ssd"))
        .pod(pod("a").cpu("1").or_requires(is(key, &["r-64"])).or_requires(is("disk", &["ssd"])))
        .plan();
    assert!(plan.new_nodes.is_empty(), "{}", plan.cost);
}

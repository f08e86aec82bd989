//! Inputs that are hard for packing, and inputs whose size is hard on everything else.

use std::sync::Arc;

use model::pod::{LabelSelector, PodAffinityTerm, PodSpec, SelectorOperator, SelectorRequirement, Volume};
use model::pool::ClusterInput;
use model::quantity::Quantity;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::EPHEMERAL_STORAGE;

use super::catalogue::{Kind, ZONES, families, many};
use super::generate::{deployments, pool};
use super::random::Random;
use super::{CAPACITY_TYPE, HOSTNAME, Pool, Scenario, Spread, Term, Workload, ZONE, labels};

fn amount(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(1)
}

/// Whole-GPU pods of several sizes beside CPU pods: a third of the workloads want 1 to 8 GPUs.
pub fn gpu_mix(pods: usize, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let mut scenario = deployments(pods, 24, families(), seed);
    for workload in scenario.workloads.iter_mut().step_by(3) {
        workload.gpus = random.pick(&[1, 1, 2, 4, 8]);
        workload.milli_cpu = workload.gpus * 1000 * amount(random.between(1, 6));
        workload.mib = workload.gpus * 1024 * amount(random.between(2, 24));
        workload.replicas = (workload.replicas / 4).max(1);
    }
    scenario.name = format!("gpu-{pods}-seed-{seed}");
    scenario
}

/// A pool for each team, tainted for it, with a few Deployments each.
pub fn teams(count: usize, pods_each: usize, seed: u64) -> Scenario {
    let mut scenario = deployments(count * pods_each, count * 5, families(), seed);
    let team = |n: usize| format!("team-{n}");
    scenario.pools = (0..count)
        .map(|n| Pool {
            name: team(n),
            labels: labels(&[("team", &team(n))]),
            taints: vec![("team".to_owned(), team(n))],
            ..pool(&["spot", "on-demand"])
        })
        .collect();
    for (n, workload) in scenario.workloads.iter_mut().enumerate() {
        workload.selector = labels(&[("team", &team(n % count))]);
        workload.tolerations = vec![("team".to_owned(), team(n % count))];
    }
    scenario.name = format!("teams-{count}-of-{pods_each}-seed-{seed}");
    scenario
}

/// Gives every pod its own spec, changed by `change`.
fn changed(mut input: ClusterInput, mut change: impl FnMut(usize, &mut PodSpec)) -> ClusterInput {
    for (number, pod) in input.pods.iter_mut().enumerate() {
        let mut spec = (*pod.spec).clone();
        change(number, &mut spec);
        pod.spec = Arc::new(spec);
    }
    input
}

/// Pods that need little but ephemeral storage.
pub fn storage(pods: usize, seed: u64) -> ClusterInput {
    let mut random = Random::new(seed);
    let gib: Vec<i64> = (0..20).map(|_| amount(random.between(1, 8))).collect();
    changed(deployments(pods, 20, families(), seed).to_input(), |number, spec| {
        let own = gib[number * 20 / pods.max(1) % 20];
        spec.requests.insert(EPHEMERAL_STORAGE, Quantity::from_bytes(own << 30));
    })
}

/// A volume of its own for every pod, which makes it a class of its own.
pub fn with_volumes(pods: usize) -> ClusterInput {
    let mut input = deployments(pods, 50, families(), 3).to_input();
    for (number, pod) in input.pods.iter_mut().enumerate() {
        let zone = Requirement::is(ZONE, ZONES[number % 3].0);
        pod.volumes = vec![Volume {
            claim: Arc::from(format!("claim-{number}")),
            driver: Some(Arc::from("ebs.csi.aws.com")),
            alternatives: vec![Requirements::new().with(zone)],
        }];
    }
    input
}

/// Many pools that differ in types and labels, and classes that may go to all of them.
pub fn many_pools(pools: usize, classes: usize) -> Scenario {
    let mut scenario = deployments(classes * 10, classes, families(), 4);
    scenario.pools = (0..pools)
        .map(|n| {
            let mut own = Pool { name: format!("pool-{n:03}"), ..pool(&["spot", "on-demand"]) };
            own.labels = labels(&[("example.com/pool", &format!("p{n}"))]);
            own.requirements.push(Term {
                key: "karpenter.k8s.aws/instance-cpu".to_owned(),
                operator: "Lt",
                values: vec![(5 + n % 90).to_string()],
            });
            own
        })
        .collect();
    for (n, workload) in scenario.workloads.iter_mut().enumerate() {
        workload.selector = labels(&[(ZONE, ZONES[n % 3].0)]);
    }
    scenario
}

/// Every workload asks for other types.
pub fn requirement_sets(count: usize) -> Scenario {
    let mut scenario = deployments(count * 2, count, families(), 5);
    let names: Vec<String> = scenario.kinds.iter().map(|kind| kind.name.clone()).collect();
    for (n, workload) in scenario.workloads.iter_mut().enumerate() {
        let without = [n % names.len(), n / names.len() % names.len(), (n * 7 + 3) % names.len()];
        workload.required = vec![vec![Term {
            key: "node.kubernetes.io/instance-type".to_owned(),
            operator: "NotIn",
            values: without.iter().map(|kind| names[*kind].clone()).collect(),
        }]];
    }
    scenario
}

/// Tenants none of which shares a node with another.
pub fn tenants(count: usize) -> ClusterInput {
    changed(deployments(count * 4, count, families(), 6).to_input(), |_, spec| {
        let own = spec.labels["app"].clone();
        let others = SelectorRequirement {
            key: "app".to_owned(),
            operator: SelectorOperator::NotIn,
            values: [own].into_iter().collect(),
        };
        spec.anti_affinity.push(PodAffinityTerm {
            topology_key: HOSTNAME.to_owned(),
            selector: Some(LabelSelector { requirements: vec![others] }),
            namespaces: Vec::new(),
            namespace_selector: None,
            match_label_keys: Vec::new(),
            mismatch_label_keys: Vec::new(),
        });
    })
}

/// Nine of ten pods have requests that no other has.
pub fn odd_sizes(pods: usize) -> Scenario {
    let mut random = Random::new(7);
    let mut scenario = deployments(pods / 10, 10, families(), 7);
    scenario.workloads.extend((0..pods - pods / 10).map(|n| Workload {
        name: format!("odd-{n}"),
        replicas: 1,
        bare: true,
        milli_cpu: 50 + amount(n) % 3000,
        mib: 64 + amount(random.between(0, 6000)),
        ..Workload::default()
    }));
    scenario
}

/// Replicas spread over zones, capacity types and nodes.
pub fn spread_thrice(pods: usize, kinds: Vec<Kind>) -> Scenario {
    let mut scenario = deployments(pods, 40, kinds, 8);
    for workload in &mut scenario.workloads {
        let own = workload.labels.clone();
        let over = |key, skew| Spread { key, skew, hard: true, labels: own.clone() };
        workload.spread = vec![over(ZONE, 1), over(CAPACITY_TYPE, 1), over(HOSTNAME, 20)];
    }
    scenario
}

/// By name: inputs whose size is hard, each of which is to be planned within two seconds.
pub fn large(name: &str) -> Option<ClusterInput> {
    match name {
        "volumes-5000" => Some(with_volumes(5000)),
        "pools-500" => Some(many_pools(500, 200).to_input()),
        "sets-3000" => Some(requirement_sets(3000).to_input()),
        "tenants-500" => Some(tenants(500)),
        "classes-2000" => Some(deployments(100_000, 2000, many(400), 9).to_input()),
        "odd-10000" => Some(odd_sizes(10_000).to_input()),
        "spread-20000" => Some(spread_thrice(20_000, families()).to_input()),
        _ => None,
    }
}

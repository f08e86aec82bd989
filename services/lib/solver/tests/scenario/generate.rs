//! The scenarios themselves.

use super::catalogue::{Kind, ZONES, families, linear};
use super::random::Random;
use super::{
    ARCH, CAPACITY_TYPE, HOSTNAME, Labels, Pool, RunningNode, Scenario, Spread, Term, Together, Workload,
    ZONE, labels,
};

const CPUS: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEMORIES: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

pub fn pool(capacity_types: &[&str]) -> Pool {
    Pool {
        name: "default".to_owned(),
        requirements: vec![Term::within(CAPACITY_TYPE, capacity_types)],
        ..Pool::default()
    }
}

fn bare(name: String, random: &mut Random) -> Workload {
    Workload {
        name,
        replicas: 1,
        bare: true,
        milli_cpu: random.pick(&CPUS),
        mib: random.pick(&MEMORIES),
        ..Workload::default()
    }
}

/// The reference's benchmark mix: a fifth each of plain pods, zonal spread, hostname spread, zonal affinity to their own kind,
/// and hostname anti-affinity; 400 linear types.
pub fn benchmark_mix(pods: usize, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let fifth = pods / 5;
    let counts = [
        ("generic", pods - 4 * fifth),
        ("zonal", fifth),
        ("hostspread", fifth),
        ("affine", fifth),
        ("apart", fifth),
    ];
    let mut workloads = Vec::with_capacity(pods);
    for (kind, count) in counts {
        for n in 0..count {
            let mut pod = bare(format!("{kind}-{n}"), &mut random);
            let mut letter = |key: &str| labels(&[(key, random.pick(&LETTERS))]);
            match kind {
                "zonal" | "hostspread" => {
                    let key = if kind == "zonal" { ZONE } else { HOSTNAME };
                    pod.labels = letter("my-label");
                    pod.spread = vec![Spread { key, skew: 1, hard: true, labels: letter("my-label") }];
                }
                "affine" => {
                    pod.labels = letter("my-affinity");
                    let own = pod.labels.clone();
                    pod.affinity = vec![Together { key: ZONE, labels: own, apart: false, weight: None }];
                }
                "apart" => {
                    pod.labels = labels(&[("app", "nginx")]);
                    let own = pod.labels.clone();
                    pod.affinity = vec![Together { key: HOSTNAME, labels: own, apart: true, weight: None }];
                }
                _ => pod.labels = letter("my-label"),
            }
            workloads.push(pod);
        }
    }
    Scenario {
        name: format!("mix-{pods}-seed-{seed}"),
        kinds: linear(400),
        pools: vec![pool(&["spot", "on-demand"])],
        workloads,
        ..Scenario::default()
    }
}

/// Pods of one kind with a node preference that can be met, and two wishes to be apart, of which one cannot.
pub fn preferences(pods: usize, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let own = labels(&[("app", "nginx")]);
    let apart = |key, weight| Together { key, labels: own.clone(), apart: true, weight: Some(weight) };
    let workload = Workload {
        name: "preferring".to_owned(),
        replicas: pods,
        labels: own.clone(),
        preferred: vec![(1, Term::within(ZONE, &[ZONES[0].0]))],
        affinity: vec![apart(ZONE, 10), apart(HOSTNAME, 1)],
        bare: false,
        ..bare(String::new(), &mut random)
    };
    Scenario {
        name: format!("preferences-{pods}-seed-{seed}"),
        kinds: linear(400),
        pools: vec![pool(&["spot", "on-demand"])],
        workloads: vec![workload],
        ..Scenario::default()
    }
}

/// Many replicas of plain Deployments.
pub fn deployments(pods: usize, count: usize, kinds: Vec<Kind>, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let workloads = (0..count)
        .map(|n| Workload {
            name: format!("deployment-{n}"),
            replicas: pods / count + usize::from(n < pods % count),
            bare: false,
            labels: labels(&[("app", &format!("app-{n}"))]),
            milli_cpu: 50 * i64::try_from(random.between(1, 60)).unwrap_or(1),
            mib: 64 * i64::try_from(random.between(1, 100)).unwrap_or(1),
            ..Workload::default()
        })
        .collect();
    Scenario {
        name: format!("deployments-{pods}-in-{count}-seed-{seed}"),
        kinds,
        pools: vec![pool(&["spot", "on-demand"])],
        workloads,
        ..Scenario::default()
    }
}

/// Deployments that spread over zones, on nodes of their team's pool: five pods fit the largest type that a pool allows.
pub fn teams(pods: usize, count: usize, teams: usize) -> Scenario {
    let team = |n: usize| labels(&[("example.com/team", &format!("team-{n}"))]);
    let pools = (0..teams).map(|n| Pool {
        name: format!("team-{n}"),
        labels: team(n),
        requirements: vec![
            Term::within(CAPACITY_TYPE, &["spot", "on-demand"]),
            Term { key: "karpenter.k8s.aws/instance-cpu".into(), operator: "Lt", values: vec!["9".into()] },
        ],
        ..Pool::default()
    });
    let workloads = (0..count).map(|n| {
        let own = labels(&[("app", &format!("app-{n}"))]);
        Workload {
            name: format!("spread-{n}"),
            replicas: pods / count + usize::from(n < pods % count),
            milli_cpu: 1500,
            mib: 512,
            selector: team(n % teams),
            spread: vec![Spread { key: ZONE, skew: 1, hard: true, labels: own.clone() }],
            labels: own,
            ..Workload::default()
        }
    });
    Scenario {
        name: format!("teams-{pods}-in-{count}-of-{teams}"),
        kinds: families(),
        pools: pools.collect(),
        workloads: workloads.collect(),
        ..Scenario::default()
    }
}

/// Replicas that keep away from each other: one in each zone, or one on each node.
fn apart(name: String, replicas: usize, key: &'static str, pool: Pool) -> Scenario {
    let own = labels(&[("app", "apart")]);
    let workload = Workload {
        name: "apart".to_owned(),
        replicas,
        labels: own.clone(),
        milli_cpu: 500,
        mib: 512,
        affinity: vec![Together { key, labels: own, apart: true, weight: None }],
        ..Workload::default()
    };
    Scenario { name, kinds: families(), pools: vec![pool], workloads: vec![workload], ..Scenario::default() }
}

/// One replica in each zone.
pub fn zonal_apart(replicas: usize) -> Scenario {
    apart(format!("zonal-apart-{replicas}"), replicas, ZONE, pool(&["on-demand"]))
}

/// One replica on each node, in a pool that may have so many processors.
pub fn limited(replicas: usize, cpus: i64) -> Scenario {
    let pool = Pool { cpu_limit: Some(cpus), ..pool(&["on-demand"]) };
    apart(format!("limited-{replicas}-to-{cpus}"), replicas, HOSTNAME, pool)
}

/// A running cluster: nodes of 4 to 16 vCPU, filled to between 30 and 90 %.
pub fn cluster(nodes: usize, kinds: Vec<Kind>, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let usable: Vec<usize> = (0..kinds.len())
        .filter(|&k| {
            (4_000..=16_000).contains(&kinds[k].milli_cpu)
                && kinds[k].labels[ARCH] == "amd64"
                && kinds[k].gpus == 0
        })
        .collect();
    let mut scenario = Scenario {
        name: format!("cluster-{nodes}-seed-{seed}"),
        pools: vec![pool(&["on-demand"])],
        ..Scenario::default()
    };
    for n in 0..nodes {
        let node = RunningNode {
            name: format!("node-{n:05}"),
            pool: "default".to_owned(),
            kind: random.pick(&usable),
            zone: random.below(ZONES.len()),
            spot: false,
        };
        let kind = &kinds[node.kind];
        let share = 30 + i64::try_from(random.below(61)).unwrap_or(0);
        let (cpu, mib) = kind.allocatable();
        let (cpu, mib) = (cpu * share / 100, mib * share / 100);
        let (mut used_cpu, mut used_mib, mut misses, mut count) = (0, 0, 0, 0);
        while misses < 20 && count < kind.pods {
            let (c, m) = (random.pick(&CPUS), random.pick(&MEMORIES));
            if used_cpu + c > cpu || used_mib + m > mib {
                misses += 1;
                continue;
            }
            used_cpu += c;
            used_mib += m;
            count += 1;
            let number = scenario.workloads.len();
            scenario.workloads.push(Workload {
                name: format!("app-{number:06}"),
                replicas: 1,
                bare: true,
                labels: labels(&[("app", &format!("app-{}", number % 100))]),
                milli_cpu: c,
                mib: m,
                on: Some(node.name.clone()),
                ..Workload::default()
            });
        }
        scenario.nodes.push(node);
    }
    scenario.kinds = kinds;
    scenario
}

/// Anything: a few pools, some nodes, a daemon or two, and workloads that use every rule now and then.
pub fn anything(seed: u64) -> Scenario {
    let mut random = Random::new(seed.wrapping_add(1_000_003));
    let kinds = families();
    let mut scenario = Scenario { name: format!("anything-{seed}"), ..Scenario::default() };
    scenario.pools = pools(&mut random);
    if random.one_in(2) {
        let nodes = random.between(1, 6);
        let running = cluster(nodes, kinds.clone(), seed.wrapping_add(77));
        scenario.nodes = running.nodes;
        scenario.workloads = running.workloads;
        let owner = scenario.pools[0].name.clone();
        for node in &mut scenario.nodes {
            node.pool.clone_from(&owner);
        }
    }
    scenario.kinds = kinds;
    for n in 0..random.below(3) {
        scenario.daemons.push(Workload {
            name: format!("daemon-{n}"),
            labels: labels(&[("daemon", &n.to_string())]),
            milli_cpu: random.pick(&[50, 100, 200]),
            mib: random.pick(&[64, 128, 256]),
            selector: if random.one_in(3) { labels(&[(ARCH, "amd64")]) } else { Labels::new() },
            ..Workload::default()
        });
    }
    for n in 0..random.between(1, 8) {
        let workload = workload(n, &mut random);
        scenario.workloads.push(workload);
    }
    scenario
}

fn pools(random: &mut Random) -> Vec<Pool> {
    let mut pools = Vec::new();
    for n in 0..random.between(1, 3) {
        let capacity: &[&str] = random.pick(&[&["on-demand"][..], &["spot"][..], &["spot", "on-demand"][..]]);
        let mut pool = Pool { name: format!("pool-{n}"), ..self::pool(capacity) };
        pool.requirements.push(Term::within(
            ARCH,
            random.pick(&[&["amd64"][..], &["amd64"][..], &["arm64"][..], &["amd64", "arm64"][..]]),
        ));
        if random.one_in(4) {
            let categories: &[&str] = random.pick(&[&["c", "m"][..], &["m", "r"][..], &["c"][..]]);
            pool.requirements.push(Term::within("karpenter.k8s.aws/instance-category", categories));
        }
        if random.one_in(4) {
            pool.requirements.push(Term {
                key: "karpenter.k8s.aws/instance-cpu".to_owned(),
                operator: "Lt",
                values: vec!["33".to_owned()],
            });
        }
        if random.one_in(3) {
            pool.weight = Some(i32::try_from(random.between(1, 100)).unwrap_or(1));
        }
        if random.one_in(4) {
            pool.taints.push(("dedicated".to_owned(), format!("team-{}", random.below(2))));
        }
        if random.one_in(3) {
            pool.labels.insert("example.com/team".to_owned(), format!("team-{}", random.below(2)));
        }
        pools.push(pool);
    }
    pools
}

fn workload(n: usize, random: &mut Random) -> Workload {
    let app = format!("app-{}", if random.one_in(4) { 0 } else { n });
    let own = labels(&[("app", &app)]);
    let mut workload = Workload {
        name: format!("work-{n}"),
        replicas: random.between(1, 40),
        bare: false,
        labels: own.clone(),
        mib: 128 * i64::try_from(random.between(1, 64)).unwrap_or(1),
        milli_cpu: 50 * i64::try_from(random.between(1, 60)).unwrap_or(1),
        ..Workload::default()
    };
    if random.one_in(5) {
        workload.selector = match random.below(4) {
            0 => labels(&[(ARCH, "arm64")]),
            1 => labels(&[(ZONE, ZONES[random.below(3)].0)]),
            2 => labels(&[(CAPACITY_TYPE, "on-demand")]),
            _ => labels(&[("example.com/team", "team-0")]),
        };
    }
    if random.one_in(6) {
        let zones = [ZONES[0].0, ZONES[1].0];
        workload.required = vec![
            vec![Term::within(ZONE, &zones)],
            vec![Term::within("karpenter.k8s.aws/instance-family", &["m5", "c5"])],
        ];
    }
    if random.one_in(6) {
        workload.preferred = vec![(10, Term::within(ZONE, &[ZONES[random.below(3)].0]))];
    }
    if random.one_in(3) {
        workload.tolerations = vec![("dedicated".to_owned(), format!("team-{}", random.below(2)))];
    }
    if random.one_in(4) {
        let key = if random.one_in(2) { ZONE } else { HOSTNAME };
        let skew = u32::try_from(random.between(1, 3)).unwrap_or(1);
        workload.spread = vec![Spread { key, skew, hard: !random.one_in(4), labels: own.clone() }];
    }
    if random.one_in(6) {
        let weight = random.one_in(3).then_some(50);
        let apart = !random.one_in(3);
        let key = if apart { HOSTNAME } else { ZONE };
        workload.affinity = vec![Together { key, labels: own.clone(), apart, weight }];
    }
    if random.one_in(12) {
        workload.host_port = Some(8080);
        workload.replicas = workload.replicas.min(8);
    }
    if random.one_in(14) {
        workload.gpus = 1;
        workload.replicas = workload.replicas.min(6);
    }
    if random.one_in(20) {
        workload.milli_cpu = 200_000;
        workload.replicas = 2;
    }
    workload
}

/// A running cluster of about so many pods a node, of 500 applications; nodes of 16 vCPU, about half full.
pub fn dense_cluster(nodes: usize, pods_each: usize, kinds: Vec<Kind>, seed: u64) -> Scenario {
    let sizes = (&[100, 150, 200, 250, 400][..], &[128, 256, 384, 512][..]);
    running(format!("dense-{nodes}-by-{pods_each}-seed-{seed}"), nodes, kinds, seed, sizes, |random, _, _| {
        random.between(pods_each / 2, pods_each * 3 / 2)
    })
}

/// Nodes of 4 to 16 vCPU of any family, each filled to somewhere between 30 % and 90 % with pods of thirty sizes: the reference's
/// generated cluster for consolidation.
pub fn fragmented_cluster(nodes: usize, kinds: Vec<Kind>, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let is_usable = |kind: &Kind| {
        (4000..=16_000).contains(&kind.milli_cpu) && kind.labels[ARCH] == "amd64" && kind.gpus == 0
    };
    let usable: Vec<usize> = (0..kinds.len()).filter(|&kind| is_usable(&kinds[kind])).collect();
    let name = format!("fragmented-{nodes}-seed-{seed}");
    let mut scenario = Scenario { name, pools: vec![pool(&["on-demand"])], ..Scenario::default() };
    for n in 0..nodes {
        let node = RunningNode {
            name: format!("node-{n:05}"),
            pool: "default".to_owned(),
            kind: random.pick(&usable),
            zone: random.below(ZONES.len()),
            spot: false,
        };
        let kind = &kinds[node.kind];
        let (cpu, mib) = kind.allocatable();
        let per_mille = i64::try_from(random.between(300, 900)).unwrap_or(300);
        let (mut cpu, mut mib) = (cpu * per_mille / 1000, mib * per_mille / 1000);
        let (mut pods, mut misses) = (0, 0);
        while pods < kind.pods && misses < 20 {
            let (milli_cpu, requested_mib) = (random.pick(&CPUS), random.pick(&MEMORIES));
            if milli_cpu > cpu || requested_mib > mib {
                misses += 1;
                continue;
            }
            (cpu, mib, pods) = (cpu - milli_cpu, mib - requested_mib, pods + 1);
            scenario.workloads.push(Workload {
                name: format!("app-{:06}", scenario.workloads.len()),
                bare: true,
                replicas: 1,
                milli_cpu,
                mib: requested_mib,
                on: Some(node.name.clone()),
                ..Workload::default()
            });
        }
        scenario.nodes.push(node);
    }
    scenario.kinds = kinds;
    scenario
}

/// As [`dense_cluster`], with about thirty larger pods a node and no room left for another: when a node goes, its pods need a
/// new one.
pub fn full_cluster(nodes: usize, kinds: Vec<Kind>, seed: u64) -> Scenario {
    let sizes = (&[400, 450, 500, 550, 600][..], &[256, 384, 512][..]);
    // More attempts than there is room for: what is too large for the rest is passed over.
    let fill =
        |_: &mut Random, kind: &Kind, pod: i64| usize::try_from(4 * kind.allocatable().0 / pod).unwrap_or(0);
    running(format!("full-{nodes}-seed-{seed}"), nodes, kinds, seed, sizes, fill)
}

/// Nodes of 16 vCPU and pods of 500 applications on them; `fill` says how many a node gets, given the mean request in
/// thousandths of a processor.
fn running(
    name: String,
    nodes: usize,
    kinds: Vec<Kind>,
    seed: u64,
    (cpus, memories): (&[i64], &[i64]),
    fill: impl Fn(&mut Random, &Kind, i64) -> usize,
) -> Scenario {
    let mut random = Random::new(seed);
    let usable: Vec<usize> = (0..kinds.len())
        .filter(|&k| kinds[k].milli_cpu == 16_000 && kinds[k].labels[ARCH] == "amd64" && kinds[k].gpus == 0)
        .collect();
    let sizes: Vec<(i64, i64)> = (0..500).map(|_| (random.pick(cpus), random.pick(memories))).collect();
    let mean = cpus.iter().sum::<i64>() / i64::try_from(cpus.len()).unwrap_or(1);
    let mut scenario = Scenario { name, pools: vec![pool(&["on-demand"])], ..Scenario::default() };
    for n in 0..nodes {
        let node = RunningNode {
            name: format!("node-{n:05}"),
            pool: "default".to_owned(),
            kind: random.pick(&usable),
            zone: random.below(ZONES.len()),
            spot: false,
        };
        let kind = &kinds[node.kind];
        let (mut cpu, mut mib) = kind.allocatable();
        for _ in 0..fill(&mut random, kind, mean) {
            let app = random.below(sizes.len());
            if sizes[app].0 > cpu || sizes[app].1 > mib {
                continue;
            }
            (cpu, mib) = (cpu - sizes[app].0, mib - sizes[app].1);
            scenario.workloads.push(Workload {
                name: format!("app-{:06}", scenario.workloads.len()),
                replicas: 1,
                bare: true,
                labels: labels(&[("app", &format!("app-{app}"))]),
                milli_cpu: sizes[app].0,
                mib: sizes[app].1,
                on: Some(node.name.clone()),
                ..Workload::default()
            });
        }
        scenario.nodes.push(node);
    }
    scenario.kinds = kinds;
    scenario
}

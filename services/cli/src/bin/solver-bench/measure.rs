//! Single measurements, each run in a process of its own, so that memory and warm caches of one do not colour the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::pool::ClusterInput;
use serde::{Deserialize, Serialize};
use solver::{Effort, Options, Snapshot};

use crate::scenario::Scenario;
use crate::scenario::catalogue::{families, many};
use crate::scenario::generate::{benchmark_mix, dense_cluster, deployments, full_cluster, preferences};
use crate::scenario::hard;

/// What a measurement found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The figure that the bar is about: seconds, bytes or a share.
    pub(crate) value: f64,
    /// Processor time of the same run, which a busy machine does not stretch as much.
    #[serde(default)]
    pub(crate) cpu: f64,
    /// Second figure where there is one: p99 beside a median, the mean beside a maximum.
    pub(crate) other: f64,
    pub(crate) cost: f64,
    pub(crate) bound: f64,
    pub(crate) nodes: usize,
    pub(crate) left_over: usize,
    /// The deadline came before the end.
    #[serde(default)]
    pub(crate) timed_out: bool,
    /// What first fit costs, where it is compared.
    #[serde(default)]
    pub(crate) first_fit: f64,
    pub(crate) peak_rss: u64,
}

/// The scenario behind a measurement that the oracle can run, too.
pub(crate) fn scenario(name: &str) -> Option<Scenario> {
    match name {
        "mix-1000" => Some(benchmark_mix(1000, 42)),
        "mix-5000" => Some(benchmark_mix(5000, 42)),
        "mix-20000" => Some(benchmark_mix(20_000, 42)),
        "preferences-4000" => Some(preferences(4000, 42)),
        "plain-2000" => Some(deployments(2000, 20, families(), 42)),
        "deployments-100000" => Some(deployments(100_000, 200, many(1000), 42)),
        "removal-1000" | "removal-full-1000" | "removals-10000" => running(name),
        _ => None,
    }
}

/// The clusters that nodes are removed from.
fn running(name: &str) -> Option<Scenario> {
    match name {
        "removal-1000" => Some(dense_cluster(1000, 30, families(), 42)),
        "removal-full-1000" => Some(full_cluster(1000, families(), 42)),
        "removals-10000" => Some(dense_cluster(10_000, 30, families(), 42)),
        _ => None,
    }
}

pub(crate) fn run(name: &str, catalog: Option<&str>) -> anyhow::Result<Figures> {
    if let Some(scenario) = running(name) {
        let input = scenario.to_input();
        return Ok(if name == "removals-10000" { all_removals(input) } else { removals(input) });
    }
    if let Some(input) = hard::large(name) {
        return Ok(under_deadline(&input));
    }
    if let Some(scenario) = scenario(name) {
        return Ok(solve(&scenario.to_input(), if scenario.pod_count() > 10_000 { 3 } else { 5 }));
    }
    let growth = name.strip_prefix("growth-").and_then(|rest| rest.split_once("-in-"));
    if let Some((pods, classes)) = growth {
        let (pods, classes) = (pods.parse().context("pods")?, classes.parse().context("classes")?);
        return Ok(solve(&deployments(pods, classes, many(400), 7).to_input(), 3));
    }
    match name {
        "ten-pods" => Ok(ten_pods()),
        "allocations" => allocations(),
        "check-5000" => Ok(checked()),
        "snapshot-10000" => Ok(snapshot_bytes()),
        "gap" => gaps(catalog, plain),
        "gap-eight-pools" => gaps(catalog, |seed| eight_pools(plain(seed))),
        "gap-gpu" => gaps(catalog, |seed| hard::gpu_mix(500 << (seed % 6), seed).to_input()),
        "gap-teams" => gaps(catalog, |seed| hard::teams(20, 10 + index(seed) * 4, seed).to_input()),
        "gap-storage" => gaps(catalog, |seed| hard::storage(1000, seed)),
        "gap-ten-pods" => gaps(catalog, |seed| deployments(10, 10, families(), seed).to_input()),
        "removal-backlog" => Ok(removals(with_backlog(dense_cluster(1000, 30, families(), 42).to_input()))),
        "removals-backlog" => {
            Ok(all_removals(with_backlog(dense_cluster(10_000, 30, families(), 42).to_input())))
        }
        _ => bail!("no measurement is called {name}"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Snapshot and solve together: what a plan from nothing takes.
fn solve(input: &ClusterInput, runs: usize) -> Figures {
    let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
    let mut figures = Figures::default();
    for _ in 0..runs {
        let input = input.clone();
        let (began, used) = (Instant::now(), cli::process_usage::cpu_seconds());
        let snapshot = Snapshot::build(input);
        let plan = solver::solve(&snapshot, &Options::default(), &|| true);
        seconds.push(began.elapsed().as_secs_f64());
        cpu.push(cli::process_usage::cpu_seconds() - used);
        figures.cost = plan.cost.to_f64();
        figures.bound = plan.lower_bound.map_or(0.0, |b| b.to_f64());
        figures.nodes = plan.new_nodes.len();
        figures.left_over = plan.unschedulable.len() + plan.unreached.len();
    }
    figures.value = median(seconds);
    figures.cpu = median(cpu);
    figures.peak_rss = cli::process_usage::peak_rss_bytes();
    figures
}

/// Ten new pods in a cluster of a thousand nodes whose snapshot is there.
fn ten_pods() -> Figures {
    let mut input = dense_cluster(1000, 30, families(), 42).to_input();
    let arriving = deployments(10, 2, families(), 5).to_input().pods;
    // The snapshot knows these kinds of pods, as that of a running service does.
    let known = arriving.iter().map(|p| model::pod::Pod {
        name: Arc::from(format!("known-{}", p.name)),
        node: Some(Arc::clone(&input.nodes[0].name)),
        ..p.clone()
    });
    let known: Vec<_> = known.collect();
    input.pods.extend(known);
    let snapshot = Snapshot::build(input);
    let mut seconds = Vec::new();
    for _ in 0..51 {
        let began = Instant::now();
        let plan = solver::simulate(&snapshot, &[], &arriving, &Options::default(), &|| true);
        seconds.push(began.elapsed().as_secs_f64());
        assert!(plan.is_complete(), "ten small pods must find room");
    }
    Figures { value: median(seconds), ..Figures::default() }
}

fn what_if() -> Options {
    Options {
        effort: Effort::Quick,
        protect_settling: true,
        distrust_uninitialized: true,
        report_pending: false,
        ..Options::default()
    }
}

/// Removals of single nodes, one after the other: median and p99, and how many of them need new nodes.
fn removals(input: ClusterInput) -> Figures {
    let (snapshot, options) = (Snapshot::build(input), what_if());
    let (mut seconds, mut replaced) = (Vec::new(), 0);
    let used = cli::process_usage::cpu_seconds();
    for id in snapshot.node_ids() {
        let began = Instant::now();
        let plan = solver::simulate(&snapshot, &[id], &[], &options, &|| true);
        seconds.push(began.elapsed().as_secs_f64());
        assert!(plan.unreached.is_empty(), "nothing stops a removal");
        replaced += usize::from(!plan.new_nodes.is_empty());
    }
    let cpu = (cli::process_usage::cpu_seconds() - used) / seconds.len() as f64;
    seconds.sort_by(f64::total_cmp);
    Figures {
        value: seconds[seconds.len() / 2],
        cpu,
        other: seconds[seconds.len() * 99 / 100],
        nodes: replaced,
        ..Figures::default()
    }
}

/// Removals of all single nodes, on all cores: the total.
fn all_removals(input: ClusterInput) -> Figures {
    let nodes = input.nodes.len();
    let snapshot = Snapshot::build(input);
    let sets: Vec<Vec<_>> = snapshot.node_ids().map(|id| vec![id]).collect();
    let (began, used) = (Instant::now(), cli::process_usage::cpu_seconds());
    let plans = solver::simulate_many(&snapshot, &sets, &what_if(), &|| true);
    assert_eq!(plans.len(), nodes, "every removal has an answer");
    Figures {
        value: began.elapsed().as_secs_f64(),
        cpu: cli::process_usage::cpu_seconds() - used,
        peak_rss: cli::process_usage::peak_rss_bytes(),
        ..Figures::default()
    }
}

/// Most bytes that one removal allocates with 10,000 nodes, and with 1,000.
fn allocations() -> anyhow::Result<Figures> {
    let program = std::env::current_exe().context("find this program")?.with_file_name("solver-allocations");
    let most = |nodes: &str| -> anyhow::Result<f64> {
        let output = std::process::Command::new(&program)
            .arg(nodes)
            .output()
            .with_context(|| format!("run {}", program.display()))?;
        let found: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("read what was allocated")?;
        found["most"].as_f64().context("bytes")
    };
    Ok(Figures { value: most("10000")?, other: most("1000")?, ..Figures::default() })
}

/// The second opinion on a plan for 5,000 new pods in a cluster of 1,000 nodes and 30,000 pods.
fn checked() -> Figures {
    let mut input = dense_cluster(1000, 30, families(), 42).to_input();
    input.pods.extend(deployments(5000, 100, families(), 5).to_input().pods);
    let options = Options::default();
    let plan = solver::solve(&Snapshot::build(input.clone()), &options, &|| true);
    let mut seconds = Vec::new();
    let used = cli::process_usage::cpu_seconds();
    for _ in 0..5 {
        let began = Instant::now();
        let wrong = solver::check::check(&input, &plan, &options);
        seconds.push(began.elapsed().as_secs_f64());
        assert!(wrong.is_empty(), "{}", wrong[0]);
    }
    let cpu = (cli::process_usage::cpu_seconds() - used) / seconds.len() as f64;
    Figures { value: median(seconds), cpu, nodes: plan.new_nodes.len(), ..Figures::default() }
}

/// Memory of one snapshot: what two further ones add to a process that has built one already, so that room which the
/// allocator kept from inputs and scratch is not counted.
fn snapshot_bytes() -> Figures {
    let input = || dense_cluster(10_000, 30, families(), 42).to_input();
    let pods = input().pods.len();
    let mut kept = vec![Snapshot::build(input())];
    let before = cli::process_usage::rss_bytes();
    let mut seconds = 0.0;
    for _ in 0..2 {
        let input = input();
        let began = Instant::now();
        kept.push(Snapshot::build(input));
        seconds = began.elapsed().as_secs_f64();
    }
    let value = cli::process_usage::rss_bytes().saturating_sub(before) as f64 / 2.0;
    assert!(kept.iter().all(|snapshot| snapshot.node_count() == 10_000), "all three are alive");
    Figures { value, other: seconds, peak_rss: before, nodes: pods, ..Figures::default() }
}

/// How long a plan may take where the input is large.
const LONG: Duration = Duration::from_millis(1700);

/// Snapshot and a plan under a deadline, which must be valid.
fn under_deadline(input: &ClusterInput) -> Figures {
    let (began, used) = (Instant::now(), cli::process_usage::cpu_seconds());
    let snapshot = Snapshot::build(input.clone());
    let plan = solver::solve(&snapshot, &Options::default(), &|| began.elapsed() < LONG);
    let figures = Figures {
        value: began.elapsed().as_secs_f64(),
        cpu: cli::process_usage::cpu_seconds() - used,
        cost: plan.cost.to_f64(),
        bound: plan.lower_bound.map_or(0.0, |b| b.to_f64()),
        nodes: plan.new_nodes.len(),
        left_over: plan.unschedulable.len() + plan.unreached.len(),
        timed_out: plan.timed_out,
        peak_rss: cli::process_usage::peak_rss_bytes(),
        ..Figures::default()
    };
    let wrong = solver::check::check(input, &plan, &Options::default());
    assert!(wrong.is_empty(), "{}", wrong[0]);
    figures
}

/// The cluster with 5,000 pods that nothing can take, of fifty kinds.
fn with_backlog(mut input: ClusterInput) -> ClusterInput {
    let mut waiting = deployments(5000, 50, families(), 11);
    for (n, workload) in waiting.workloads.iter_mut().enumerate() {
        match n % 2 {
            0 => workload.milli_cpu = 500_000,
            _ => workload.selector = crate::scenario::labels(&[("example.com/team", "nobody")]),
        }
    }
    input.pods.extend(waiting.to_input().pods);
    input
}

fn index(seed: u64) -> usize {
    usize::try_from(seed).unwrap_or(0)
}

fn plain(seed: u64) -> ClusterInput {
    deployments(1000 + 200 * index(seed), 5 + index(seed) * 3, families(), seed).to_input()
}

fn eight_pools(mut input: ClusterInput) -> ClusterInput {
    let first = input.pools[0].clone();
    input.pools.extend(
        (1..8).map(|n| model::pool::NodePool {
            name: Arc::from(format!("{}-{n}", first.name)),
            ..first.clone()
        }),
    );
    input
}

/// Gap to the bound on a catalogue, the built-in one where none is given: greatest and mean; and what first fit costs.
fn gaps(catalog: Option<&str>, input: impl Fn(u64) -> ClusterInput) -> anyhow::Result<Figures> {
    let types = cli::catalogue::load(catalog)?.types;
    let (mut gaps, mut figures) = (Vec::new(), Figures::default());
    for seed in 0..22_u64 {
        let mut input = input(seed);
        for pool in &mut input.pools {
            pool.instance_types = Arc::clone(&types);
        }
        let snapshot = Snapshot::build(input);
        let plan = solver::solve(&snapshot, &Options::default(), &|| true);
        gaps.push(plan.gap().context("the workload has a bound")?);
        figures.cost += plan.cost.to_f64();
        figures.bound += plan.lower_bound.map_or(0.0, |b| b.to_f64());
        figures.first_fit += solver::first_fit(&snapshot, &Options::default()).cost.to_f64();
    }
    figures.other = gaps.iter().sum::<f64>() / gaps.len() as f64;
    figures.value = gaps.iter().copied().fold(0.0, f64::max);
    Ok(figures)
}

//! Ours against the reference on random scenarios, now; and the recording of its verdicts for the tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use solver::{Options, Snapshot};

use crate::manifests;
use crate::reference::{self, Verdict, by_workload};
use crate::scenario::Scenario;
use crate::scenario::generate::{anything, benchmark_mix, deployments, limited, preferences, zonal_apart};

/// Our verdict.
pub(crate) fn ours(scenario: &Scenario) -> Verdict {
    let input = scenario.to_input();
    let began = Instant::now();
    let plan = solver::solve(&Snapshot::build(input), &Options::default(), &|| true);
    let seconds = began.elapsed().as_secs_f64();
    let left: Vec<String> = plan.unschedulable.iter().map(|u| u.pod.to_string()).collect();
    Verdict {
        cost: plan.cost.get(),
        nodes: plan.new_nodes.len(),
        left_over: by_workload(left.iter().map(String::as_str)),
        seconds,
        cpu: 0.0,
        peak_rss: cli::process_usage::peak_rss_bytes(),
        probe: None,
        timed_out: plan.timed_out,
        answer: serde_json::Value::Null,
    }
}

/// Prints a line for each scenario; those that are dearer, or leave more pods, are marked and written to `keep`.
pub(crate) fn random(
    oracle: &Path,
    seeds: std::ops::Range<u64>,
    runs: usize,
    keep: &Path,
) -> anyhow::Result<()> {
    let (mut dearer, mut fewer, mut total_ours, mut total_theirs) = (0, 0, 0, 0);
    for seed in seeds {
        let scenario = anything(seed);
        let directory = keep.join(format!("anything-{seed}"));
        manifests::write(&scenario, &directory)?;
        let mut theirs = (0..runs.max(1))
            .map(|_| reference::run(oracle, &directory, &[]))
            .collect::<anyhow::Result<Vec<_>>>()?;
        theirs.sort_by_key(|v| v.cost);
        let theirs = theirs[theirs.len() / 2].clone();
        let own = ours(&scenario);
        let mark = if own.left_over != theirs.left_over {
            fewer += 1;
            "LEFT"
        } else if own.cost > theirs.cost {
            dearer += 1;
            "DEARER"
        } else {
            std::fs::remove_dir_all(&directory).context("remove an equal scenario")?;
            "ok"
        };
        total_ours += own.cost;
        total_theirs += theirs.cost;
        println!(
            "{mark}\t{}\tours {} in {} nodes {:?}\ttheirs {} in {} nodes {:?}",
            scenario.name, own.cost, own.nodes, own.left_over, theirs.cost, theirs.nodes, theirs.left_over
        );
    }
    println!(
        "dearer {dearer}, other pods left over {fewer}, cost in all {total_ours} against {total_theirs}"
    );
    Ok(())
}

/// What the differential test replays.
pub(crate) fn recorded() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = (0..120).map(anything).collect();
    all.extend([50, 200, 500, 1000].map(|pods| benchmark_mix(pods, 42)));
    all.push(preferences(200, 42));
    all.extend([1, 2, 3].map(|seed| deployments(600, 12, crate::scenario::catalogue::families(), seed)));
    all.extend([zonal_apart(3), limited(10, 64)]);
    all
}

/// Runs the reference several times on every recorded scenario whose name contains `only`, and writes its verdicts.
pub(crate) fn record(oracle: &Path, runs: usize, only: &str, out: &Path) -> anyhow::Result<()> {
    let scratch: PathBuf = std::env::temp_dir().join(format!("solver-bench-{}", std::process::id()));
    let mut text = String::from(
        "# Verdicts of the reference (Karpenter 1.14.1) on the scenarios of tests/scenario, written by\n\
         #   solver-bench record --oracle ORACLE --out FILE\n\
         # scenario, pods, nodes of the median run, cost in millionths of a dollar an hour: least, median, most of the runs,\n\
         # pods left over by workload\n",
    );
    for scenario in recorded().into_iter().filter(|scenario| scenario.name.contains(only)) {
        manifests::write(&scenario, &scratch)?;
        let mut verdicts = (0..runs.max(1))
            .map(|_| reference::run(oracle, &scratch, &["--quick-truncate"]))
            .collect::<anyhow::Result<Vec<_>>>()?;
        verdicts.sort_by_key(|v| v.cost);
        let median = &verdicts[verdicts.len() / 2];
        let left: Vec<String> =
            median.left_over.iter().map(|(name, count)| format!("{name}={count}")).collect();
        let costs = [verdicts[0].cost, median.cost, verdicts[verdicts.len() - 1].cost];
        writeln!(
            text,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}",
            scenario.name,
            scenario.pod_count(),
            median.nodes,
            costs[0],
            costs[1],
            costs[2],
            left.join(",")
        )?;
        eprintln!("{}: {:?}, left over {left:?}", scenario.name, costs);
    }
    std::fs::write(out, text).with_context(|| format!("write {}", out.display()))?;
    std::fs::remove_dir_all(&scratch).context("remove the scratch directory")
}

//! The reference's verdict on a scenario.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// Cost, nodes and what is left over. Of ours as well, so that the two compare.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Millionths of a dollar an hour.
    pub(crate) cost: i64,
    pub(crate) nodes: usize,
    /// Pods left over by workload.
    pub(crate) left_over: BTreeMap<String, usize>,
    /// Build, solve and truncate.
    pub(crate) seconds: f64,
    /// Processor time of solve and truncate.
    pub(crate) cpu: f64,
    pub(crate) peak_rss: u64,
    pub(crate) timed_out: bool,
    /// Single-node simulations, where they were asked for.
    pub(crate) probe: Option<Probe>,
    /// The whole answer, where there is one.
    pub(crate) answer: Value,
}

/// Seconds of one simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probe {
    pub(crate) median: f64,
    pub(crate) longest: f64,
}

/// Runs the oracle on what [`crate::manifests::write`] wrote.
pub(crate) fn run(oracle: &Path, directory: &Path, more: &[&str]) -> anyhow::Result<Verdict> {
    let output = Command::new(oracle)
        .arg("-f")
        .arg(directory.join("manifests.json"))
        .arg("--catalog")
        .arg(directory.join("catalogue.json"))
        .args(more)
        .output()
        .with_context(|| format!("run {}", oracle.display()))?;
    if !output.status.success() {
        bail!("the oracle failed on {}: {}", directory.display(), String::from_utf8_lossy(&output.stderr));
    }
    let answer: Value = serde_json::from_slice(&output.stdout).context("read the oracle's answer")?;
    Ok(verdict(answer))
}

fn verdict(answer: Value) -> Verdict {
    let stat = |key: &str| answer["stats"][key].as_f64().unwrap_or(0.0);
    let seconds = stat("buildSeconds") + stat("solveSeconds") + stat("truncateSeconds");
    let nodes = answer["nodes"].as_array().map_or(0, Vec::len);
    let price = |node: &Value| (node["launch"]["price"].as_f64().unwrap_or(0.0) * 1e6).round() as i64;
    let cost = answer["nodes"].as_array().into_iter().flatten().map(price).sum();
    let pods = answer["unschedulable"].as_array().into_iter().flatten().filter_map(|u| u["pod"].as_str());
    Verdict {
        cost,
        nodes,
        left_over: by_workload(pods),
        seconds,
        cpu: stat("solveCpuSeconds") + stat("truncateCpuSeconds"),
        peak_rss: answer["stats"]["peakRssBytes"].as_u64().unwrap_or(0),
        probe: probe(&answer),
        timed_out: answer["stats"]["timedOut"].as_bool().unwrap_or(false),
        answer,
    }
}

fn probe(answer: &Value) -> Option<Probe> {
    let stat = |key: &str| answer["stats"]["probe"][key].as_f64();
    Some(Probe { median: stat("medianSeconds")?, longest: stat("maxSeconds")? })
}

/// `default/web-3` counts for `web`.
pub(crate) fn by_workload<'a>(pods: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        let name = pod.split_once('/').map_or(pod, |(_, name)| name);
        let workload = name.rsplit_once('-').map_or(name, |(head, _)| head);
        *counts.entry(workload.to_owned()).or_insert(0) += 1;
    }
    counts
}

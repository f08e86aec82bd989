//! The table of bars: what, bar, measured, and the reference beside it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::Args;
use crate::manifests;
use crate::measure::{self, Figures};
use crate::reference::{self, Verdict};
use crate::scenario::Scenario;

/// How a figure is held against its bar.
#[derive(Clone, Copy)]
enum Bar {
    /// So many times as quick as the reference, at least.
    Times(f64),
    /// No dearer than the reference.
    Cost,
    /// At most so many seconds.
    Seconds(f64),
    /// Median and p99, at most.
    Distribution(f64, f64),
    /// At most so many bytes.
    Bytes(f64),
    /// At most this share.
    Share(f64),
    /// Bytes in a cluster of ten times the size: at most half as many again.
    SameBytes,
    /// No bar; shows growth.
    Shown,
}

const ROWS: [(&str, &str, Bar); 34] = [
    ("mix-5000", "benchmark mix, 5,000 pods, 400 types", Bar::Times(300.0)),
    ("mix-20000", "benchmark mix, 20,000 pods, 400 types", Bar::Times(300.0)),
    ("preferences-4000", "4,000 pods with preferences, Respect", Bar::Times(300.0)),
    ("ten-pods", "10 pods, warm snapshot of 1,000 nodes", Bar::Seconds(0.001)),
    ("deployments-100000", "100,000 pods in 200 Deployments, 1,000 types", Bar::Seconds(1.0)),
    ("removal-1000", "one removal, 1,000 nodes, 30,000 pods", Bar::Distribution(0.000_05, 0.010)),
    (
        "removal-backlog",
        "one removal, 1,000 nodes, 5,000 pods pending that nothing can take",
        Bar::Distribution(0.000_05, 0.010),
    ),
    (
        "removal-full-1000",
        "one removal, 1,000 full nodes: new ones are needed",
        Bar::Distribution(0.001, 0.010),
    ),
    ("allocations", "memory that one removal asks for, 10,000 nodes", Bar::SameBytes),
    ("removals-10000", "all single removals, 10,000 nodes, 300,000 pods", Bar::Seconds(1.0)),
    ("removals-backlog", "the same with 5,000 pods pending that nothing can take", Bar::Seconds(1.0)),
    ("check-5000", "checking a plan for 5,000 pods, 1,000 nodes, 30,000 pods", Bar::Shown),
    ("snapshot-10000", "snapshot of 10,000 nodes, 300,000 pods", Bar::Bytes(300e6)),
    ("plain-2000", "cost of 2,000 plain pods in 20 Deployments", Bar::Cost),
    ("gap", "cost above the bound, plain workloads of 1,000 pods and more", Bar::Share(0.03)),
    ("gap-eight-pools", "the same with eight identical pools", Bar::Share(0.03)),
    ("gap-gpu", "cost above the bound, whole-GPU pods beside others, 500 to 16,000 pods", Bar::Share(0.03)),
    ("gap-teams", "cost above the bound, twenty pools of one team each", Bar::Share(0.10)),
    ("gap-storage", "cost above the bound, ephemeral storage is scarce", Bar::Share(0.05)),
    ("gap-ten-pods", "cost above the bound, ten pods", Bar::Share(0.05)),
    ("volumes-5000", "5,000 pods with a volume each, every one a class", Bar::Seconds(2.0)),
    ("pools-500", "500 pools, 200 classes", Bar::Seconds(2.0)),
    ("sets-3000", "3,000 sets of requirements", Bar::Seconds(2.0)),
    ("tenants-500", "500 tenants that exclude each other", Bar::Seconds(2.0)),
    ("classes-2000", "100,000 pods in 2,000 classes", Bar::Seconds(2.0)),
    ("odd-10000", "10,000 pods, of which 9,000 differ in their requests", Bar::Seconds(2.0)),
    ("spread-20000", "20,000 pods with three spread constraints each", Bar::Seconds(2.0)),
    ("growth-1000-in-200", "growth: 1,000 pods in 200 classes", Bar::Shown),
    ("growth-10000-in-200", "growth: 10,000 pods in 200 classes", Bar::Shown),
    ("growth-100000-in-200", "growth: 100,000 pods in 200 classes", Bar::Shown),
    ("growth-20000-in-50", "growth: 20,000 pods in 50 classes", Bar::Shown),
    ("growth-20000-in-100", "growth: 20,000 pods in 100 classes", Bar::Shown),
    ("growth-20000-in-400", "growth: 20,000 pods in 400 classes", Bar::Shown),
    ("growth-20000-in-800", "growth: 20,000 pods in 800 classes", Bar::Shown),
];

#[derive(Serialize)]
struct Row {
    name: &'static str,
    what: &'static str,
    bar: String,
    measured: String,
    reference: String,
    verdict: &'static str,
    figures: Vec<Figure>,
}

/// A figure that `bench` compares: at most `bar`, where there is one.
#[derive(Serialize)]
struct Figure {
    what: String,
    measured: f64,
    unit: &'static str,
    bar: Option<f64>,
}

/// What the bar is about, in its unit. Bars beside the reference need its verdict.
fn compared(what: &str, bar: Bar, ours: &Figures, theirs: Option<&Verdict>) -> Vec<Figure> {
    let figure = |more: &str, measured: f64, unit: &'static str, bar: Option<f64>| Figure {
        what: format!("{what}{more}"),
        measured,
        unit,
        bar,
    };
    let cost = || figure(", cost", ours.cost, "$/h", theirs.map(|theirs| theirs.cost as f64 / 1e6));
    match bar {
        Bar::Times(times) => {
            let most = theirs.map(|theirs| theirs.seconds / times);
            vec![figure("", ours.value, "s", most), cost()]
        }
        Bar::Cost => vec![figure("", ours.value, "s", None), cost()],
        Bar::Seconds(most) => vec![figure("", ours.value, "s", Some(most))],
        Bar::Distribution(median, p99) => vec![
            figure(", median", ours.value, "s", Some(median)),
            figure(", p99", ours.other, "s", Some(p99)),
        ],
        Bar::Bytes(most) => vec![figure("", ours.value / 1e6, "MB", Some(most / 1e6))],
        Bar::Share(most) => vec![figure("", ours.value * 100.0, "%", Some(most * 100.0))],
        Bar::SameBytes => vec![figure("", ours.value, "bytes", Some(1.5 * ours.other))],
        Bar::Shown => vec![figure("", ours.value, "s", None)],
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (oracle, only, json) = (args.oracle.as_deref(), args.only.as_deref(), args.json);
    let mut rows = Vec::new();
    for (name, what, bar) in ROWS {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let figures = in_own_process(name, args.catalog.as_deref())?;
        let theirs = match (oracle, measure::scenario(name)) {
            (Some(oracle), Some(scenario)) => beside(oracle, name, bar, &scenario, &args.oracle_timeout)?,
            _ => None,
        };
        let row = judged(name, what, bar, figures, theirs.as_ref());
        if !json {
            print(&row);
        }
        rows.push(row);
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    }
    Ok(())
}

/// Single-node simulations of the reference that are timed.
const PROBES: &str = "20";

/// What the reference makes of the same scenario, where it gets done with it in a sensible time.
fn beside(
    oracle: &Path,
    name: &str,
    bar: Bar,
    scenario: &Scenario,
    timeout: &str,
) -> anyhow::Result<Option<Verdict>> {
    let more: &[&str] = match bar {
        Bar::Times(_) | Bar::Cost => &["--timeout", timeout],
        Bar::Distribution(..) => &["--timeout", timeout, "--probe", PROBES],
        _ => return Ok(None),
    };
    let scratch = std::env::temp_dir().join(format!("solver-bench-{}-{name}", std::process::id()));
    manifests::write(scenario, &scratch)?;
    let verdict = reference::run(oracle, &scratch, more);
    std::fs::remove_dir_all(&scratch).context("remove the scratch directory")?;
    verdict.map(Some)
}

fn in_own_process(name: &str, catalog: Option<&str>) -> anyhow::Result<Figures> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    command.args(["measure", name]);
    if let Some(catalog) = catalog {
        command.arg("--catalog").arg(catalog);
    }
    let output = command.output().context("run a measurement")?;
    if !output.status.success() {
        bail!("measuring {name} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("read a measurement")
}

fn judged(
    name: &'static str,
    what: &'static str,
    bar: Bar,
    figures: Figures,
    theirs: Option<&Verdict>,
) -> Row {
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    let gap = if figures.bound > 0.0 {
        format!(", {:.1} % above the bound", (figures.cost / figures.bound - 1.0) * 100.0)
    } else {
        String::new()
    };
    let spent = match figures.cpu {
        cpu if cpu > 0.0 => format!("{} s ({} s of processor time)", short(figures.value), short(cpu)),
        _ => format!("{} s", short(figures.value)),
    };
    let cut = if figures.timed_out { ", cut short by the deadline" } else { "" };
    let cost = format!("{spent}, ${:.3}/h in {} nodes{gap}{cut}", figures.cost, figures.nodes);
    let (bar_text, measured, met) = match bar {
        Bar::Times(times) => {
            let met =
                theirs.map(|t| t.seconds >= times * figures.value && figures.cost <= t.cost as f64 / 1e6);
            (format!("{times:.0} × the reference, no dearer"), cost, met)
        }
        Bar::Cost => {
            let met = theirs.map(|t| figures.cost <= t.cost as f64 / 1e6);
            ("no dearer than the reference".to_owned(), cost, met)
        }
        Bar::Seconds(most) => (
            format!("{} s", short(most)),
            if figures.cost > 0.0 { cost } else { spent },
            Some(figures.value <= most),
        ),
        Bar::Distribution(median, p99) => (
            format!("median {} s, p99 {} s", short(median), short(p99)),
            format!(
                "median {spent}, p99 {} s; {} of the removals need new nodes",
                short(figures.other),
                figures.nodes
            ),
            Some(figures.value <= median && figures.other <= p99),
        ),
        Bar::Bytes(most) => (
            format!("{:.0} MB", most / 1e6),
            format!("{:.0} MB, built in {} s", figures.value / 1e6, short(figures.other)),
            Some(figures.value <= most),
        ),
        Bar::Share(most) => (
            format!("{:.1} %", most * 100.0),
            format!(
                "{:.2} % at most, {:.2} % on average; first fit {:.2} % in all",
                figures.value * 100.0,
                figures.other * 100.0,
                (figures.first_fit / figures.bound - 1.0) * 100.0
            ),
            Some(figures.value <= most),
        ),
        Bar::SameBytes => (
            "no more than half as much again as with 1,000".to_owned(),
            format!("{:.0} bytes, {:.0} with 1,000 nodes", figures.value, figures.other),
            Some(figures.value <= 1.5 * figures.other),
        ),
        Bar::Shown => (String::new(), if figures.cost > 0.0 { cost } else { spent }, None),
    };
    let reference = theirs.map_or(String::new(), |theirs| told(theirs, &figures));
    let figures = compared(what, bar, &figures, theirs);
    Row { name, what, bar: bar_text, measured, reference, verdict: met.map_or("", verdict), figures }
}

/// What the reference took, as a multiple of ours.
fn told(theirs: &Verdict, ours: &Figures) -> String {
    let more = if theirs.timed_out { "more than " } else { "" };
    if let Some(probe) = theirs.probe {
        return format!(
            "median {} s = {:.0} ×, longest {} s, of {PROBES} nodes",
            short(probe.median),
            probe.median / ours.value,
            short(probe.longest)
        );
    }
    format!(
        "{more}{} s = {:.0} × ({} s of processor time = {:.0} ×), ${:.3}/h in {} nodes, {:.0} MB",
        short(theirs.seconds),
        theirs.seconds / ours.value,
        short(theirs.cpu),
        theirs.cpu / ours.cpu,
        theirs.cost as f64 / 1e6,
        theirs.nodes,
        theirs.peak_rss as f64 / 1e6
    )
}

/// Three significant digits.
fn short(value: f64) -> String {
    let digits = if value <= 0.0 { 0 } else { (2 - value.log10().floor() as i32).clamp(0, 9) };
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

fn print(row: &Row) {
    println!("{}", row.what);
    for (label, text) in [("bar", &row.bar), ("measured", &row.measured), ("reference", &row.reference)] {
        if !text.is_empty() {
            println!("    {label:<10} {text}");
        }
    }
    if !row.verdict.is_empty() {
        println!("    {}", row.verdict);
    }
}

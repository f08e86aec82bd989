//! `make bench`: runs every benchmark whatever the others end with, prints one table of bars, figures and ratios, writes it as
//! JSON, and ends with status 1 when a bar is missed or a benchmark failed.
//!
//! Figures are compared with the committed baseline. Times are compared in units of a calibration loop that runs beside them, so
//! that another machine or a busy one shows a similar ratio.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use integration::browser;
use integration::figures::{self, Figure, Measurement};
use integration::stack::root;
use serde::Deserialize;

#[derive(Parser)]
struct Options {
    /// Karpenter's own scheduler behind the plan format, for the solver's rows
    #[arg(long)]
    oracle: Option<PathBuf>,
    /// A catalogue in the plan format for the solver's rows
    #[arg(long)]
    catalog: Option<PathBuf>,
    /// Directory with ElasticMQ's jars; without it the interruption queue is not measured
    #[arg(long)]
    elasticmq: Option<PathBuf>,
    /// Only benchmarks whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Where the figures are written
    #[arg(long, default_value = ".local/bench.json")]
    out: PathBuf,
    /// Write the figures as the baseline that later runs are compared with
    #[arg(long)]
    write_baseline: bool,
}

/// A row of `solver-bench --json`.
#[derive(Deserialize)]
struct SolverRow {
    figures: Vec<Figure>,
    reference: String,
}

/// What `page-bench` prints.
#[derive(Deserialize)]
struct Drawn {
    /// At the slowest zoom.
    fps: f64,
    nodes: usize,
    pods: usize,
    zooms: Vec<Zoom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Zoom {
    slowest_frame_ms: f64,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let baseline_file = root().join("integration/baseline.json");
    let mut now = Measurement { calibration: figures::calibrate(), of: origin(), ..Measurement::default() };
    let mut failed = Vec::new();
    for program in programs(&options) {
        println!("== {} ==", program.name);
        match program.run() {
            Ok(found) => drop(now.figures.insert(program.name.to_owned(), found)),
            Err(error) => {
                eprintln!("error: {}: {error:#}", program.name);
                failed.push(program.name);
            }
        }
    }
    if options.elasticmq.is_none() {
        println!("bench-interruption was not run: it needs --elasticmq");
    }
    if browser::chromium().is_none() {
        println!("page-bench was skipped: no Chromium on the PATH");
    }
    let baseline: Option<Measurement> =
        baseline_file.exists().then(|| figures::load(&baseline_file)).transpose()?;
    println!("\n{}", figures::table(&now, baseline.as_ref()));
    println!("ratio: share of the bar, at most 1. baseline: times as much as in integration/baseline.json.");
    figures::save(&options.out, &now)?;
    if options.write_baseline {
        figures::save(&baseline_file, &now)?;
    }
    let missed = now.figures.values().flatten().filter(|figure| !figure.is_met()).count();
    println!("{missed} bars missed; failed: {failed:?}; figures in {}", options.out.display());
    Ok(if missed == 0 && failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where figures come from: a figure without these says little.
fn origin() -> BTreeMap<String, String> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let facts = [
        ("commit", said("git", &["rev-parse", "--short=12", "HEAD"])),
        ("date", said("date", &["-u", "+%Y-%m-%d"])),
        ("machine", said("uname", &["-sm"])),
        ("cores", Some(cores.to_string())),
        ("load", load.split(' ').next().map(str::to_owned)),
        ("build", Some(if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

struct Program {
    name: &'static str,
    arguments: Vec<PathBuf>,
}

fn programs(options: &Options) -> Vec<Program> {
    let given = |flag: &str, value: &Option<PathBuf>| -> Vec<PathBuf> {
        value.iter().flat_map(|value| [PathBuf::from(flag), value.clone()]).collect()
    };
    let solver = [given("--oracle", &options.oracle), given("--catalog", &options.catalog)].concat();
    let mut all = vec![
        Program { name: "bench-foundation", arguments: Vec::new() },
        Program { name: "bench-provisioning", arguments: Vec::new() },
        Program { name: "bench-disruption", arguments: Vec::new() },
        Program { name: "solver-bench", arguments: solver },
    ];
    if options.elasticmq.is_some() {
        let arguments = given("--elasticmq", &options.elasticmq);
        all.push(Program { name: "bench-interruption", arguments });
    }
    if browser::chromium().is_some() {
        all.push(Program { name: "page-bench", arguments: Vec::new() });
    }
    all.retain(|program| options.only.as_ref().is_none_or(|only| program.name.contains(only.as_str())));
    all
}

impl Program {
    fn run(&self) -> Result<Vec<Figure>> {
        let directory = std::env::current_exe()?.parent().context("this program's directory")?.to_owned();
        let mut command = Command::new(directory.join(self.name));
        command.args(&self.arguments).stdin(Stdio::null());
        match self.name {
            "solver-bench" => solver(command),
            "page-bench" => page(command),
            name => cluster(command, name),
        }
    }
}

/// Its table is the only thing it prints.
fn solver(mut command: Command) -> Result<Vec<Figure>> {
    let output = command.arg("--json").stderr(Stdio::inherit()).output().context("start it")?;
    ensure!(output.status.success(), "ended with {}", output.status);
    let rows: Vec<SolverRow> = serde_json::from_slice(&output.stdout).context("read its table")?;
    let noted = |row: SolverRow| {
        let note = row.reference;
        row.figures.into_iter().map(move |figure| Figure { note: note.clone(), ..figure })
    };
    Ok(rows.into_iter().flat_map(noted).collect())
}

/// One line. The frames are those of this machine's software rendering.
fn page(mut command: Command) -> Result<Vec<Figure>> {
    let output = command.stderr(Stdio::inherit()).output().context("start it")?;
    ensure!(output.status.success(), "ended with {}", output.status);
    let drawn: Drawn = serde_json::from_slice(&output.stdout).context("read what it measured")?;
    ensure!(
        drawn.nodes == 5_000 && drawn.pods == 150_000,
        "it drew {} nodes, {} pods",
        drawn.nodes,
        drawn.pods
    );
    let slowest = drawn.zooms.iter().map(|zoom| zoom.slowest_frame_ms).fold(0.0, f64::max);
    Ok(vec![
        Figure::new("live page, 5,000 nodes / 150,000 pods, frames per second", drawn.fps, "/s")
            .at_least(30.0),
        Figure::new("live page, 5,000 nodes / 150,000 pods, slowest frame", slowest, "ms"),
    ])
}

/// Its figures are in a file of their own: it prints as it goes.
fn cluster(mut command: Command, name: &str) -> Result<Vec<Figure>> {
    let file = root().join(".local").join(format!("{name}.json"));
    forget(&file)?;
    let status = command.arg("--figures").arg(&file).status().context("start it")?;
    ensure!(status.success(), "ended with {status}");
    figures::load(&file)
}

fn forget(file: &Path) -> Result<()> {
    if file.exists() {
        std::fs::remove_file(file)?;
    }
    Ok(())
}

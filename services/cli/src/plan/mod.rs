//! `kubectl karpenter plan`: what nodes the autoscaler would make for the pods in some manifests, at what price, and on
//! request which nodes it would take away. With `--live` the running provisioner answers for the cluster as it is.

mod answer;
mod args;
mod html;
pub(crate) mod live;
mod people;
mod table;

use std::io::Write;
use std::time::Instant;

use anyhow::Context;
use solver::{Options, Plan, Snapshot};

pub use answer::{Answer, Stats};
pub use args::Args;

use crate::cluster::Cluster;
use crate::progress::Progress;
use crate::{catalogue, cluster, manifest, process_usage};
use args::Output;

/// Name of the engine in the statistics.
pub const ENGINE: &str = concat!("kubectl-karpenter ", env!("CARGO_PKG_VERSION"));

/// Reads, plans and prints.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.live {
        return live::run(args);
    }
    let progress = Progress::start();
    progress.now("reading the catalogue");
    let catalogue = catalogue::load(args.catalog.as_deref())?;
    progress.now("reading manifests");
    let (objects, sources) = manifest::read(&args.paths(), &mut |line| eprintln!("{line}"))?;
    let cluster = cluster::build(objects, &sources, &catalogue, &args.feature_gates, jiff::Timestamp::now())?;
    for remark in catalogue.remarks.iter().chain(&cluster.remarks) {
        eprintln!("{remark}");
    }
    progress.now("planning");
    let (answer, people) = decide(cluster, args, &progress);
    drop(progress);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match args.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        Output::Table => table::print(&mut out, &answer, &people, &catalogue.origin, args.colour())?,
        Output::Html => html::print(&mut out, &answer, &people, &catalogue.origin)?,
    }
    out.flush().context("write the plan")?;
    Ok(())
}

/// Everything between the parsed input and the finished plan.
fn decide(cluster: Cluster, args: &Args, progress: &Progress) -> (Answer, people::People) {
    let options = args.options();
    let people = people::People::new(&cluster.input, args.output == Output::Html);
    let began = Instant::now();
    let cpu = process_usage::cpu_seconds();
    let deadline = args.deadline.as_ref().map(|d| began + d.to_std());
    let keep_going = || deadline.is_none_or(|deadline| Instant::now() < deadline);
    let pods = cluster.input.pods.iter().filter(|p| p.node.is_none() && p.rejected.is_none()).count();
    let later = args.consolidate.then(|| cluster.input.clone());
    let snapshot = Snapshot::build(cluster.input);
    let plan = solver::solve(&snapshot, &options, &keep_going);
    let stats = Stats {
        engine: ENGINE,
        pods,
        classes: snapshot.class_count(),
        solve_seconds: began.elapsed().as_secs_f64(),
        solve_cpu_seconds: process_usage::cpu_seconds() - cpu,
        timed_out: plan.timed_out,
        ..Stats::default()
    };
    let mut answer = Answer::of(&plan, stats);
    if let Some(input) = later {
        drop(snapshot);
        progress.now("consolidating");
        let rest = consolidation::Rest {
            facts: cluster.facts,
            pools: cluster.pools,
            held_nodes: cluster.held_nodes,
            spot_to_spot: args.feature_gates.spot_to_spot_consolidation,
        };
        let began = Instant::now();
        let found = consolidation::run(input, &rest, &plan, &options, &keep_going);
        answer.stats.consolidate_seconds = Some(began.elapsed().as_secs_f64());
        answer.consolidated(found);
    }
    answer.stats.peak_rss_bytes = process_usage::peak_rss_bytes();
    (answer, people)
}

/// Solves without reading or printing, for benchmarks.
pub fn solve_input(input: model::pool::ClusterInput, options: &Options) -> Plan {
    solver::solve(&Snapshot::build(input), options, &|| true)
}

//! Speed, memory and cost of the solver beside their bars, and beside the reference where its oracle is given; comparison
//! with it on random scenarios; recording of its verdicts for the differential test.

mod compare;
mod manifests;
mod measure;
mod reference;
mod table;

#[path = "../../../../lib/solver/tests/scenario/mod.rs"]
mod scenario;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measure the solver")]
struct Args {
    #[command(subcommand)]
    command: Option<Task>,

    /// The oracle: the reference's scheduler behind the plan format
    #[arg(long, global = true)]
    oracle: Option<PathBuf>,

    /// The catalogue that plain workloads are measured on, in the plan format; the built-in one where none is given
    #[arg(long, global = true)]
    catalog: Option<String>,

    /// Only rows whose name contains this
    #[arg(long)]
    only: Option<String>,

    /// Longest time for one run of the oracle
    #[arg(long, default_value = "30m")]
    oracle_timeout: String,

    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Compare with the oracle on random scenarios
    Compare {
        #[arg(long, default_value_t = 0)]
        from: u64,
        #[arg(long, default_value_t = 50)]
        to: u64,
        /// Runs of the oracle for each scenario; the median counts
        #[arg(long, default_value_t = 1)]
        runs: usize,
        /// Where scenarios with a difference are left
        #[arg(long)]
        keep: PathBuf,
    },
    /// Record the oracle's verdicts for the differential test
    Record {
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// Only scenarios whose name contains this
        #[arg(long, default_value = "")]
        scenario: String,
        #[arg(long)]
        out: PathBuf,
    },
    /// One measurement, as JSON
    #[command(hide = true)]
    Measure { name: String },
    /// Write one random scenario as manifests
    Write {
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        out: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let oracle = || args.oracle.as_deref().ok_or_else(|| anyhow::anyhow!("--oracle is needed for this"));
    match &args.command {
        None => table::run(&args),
        Some(Task::Measure { name }) => {
            println!("{}", serde_json::to_string(&measure::run(name, args.catalog.as_deref())?)?);
            Ok(())
        }
        Some(Task::Compare { from, to, runs, keep }) => compare::random(oracle()?, *from..*to, *runs, keep),
        Some(Task::Record { runs, scenario, out }) => compare::record(oracle()?, *runs, scenario, out),
        Some(Task::Write { seed, out }) => Ok(manifests::write(&scenario::generate::anything(*seed), out)?),
    }
}

//! The command line: which sub-command, and what its failure means to the shell.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Ask the autoscaler.
#[derive(Parser)]
#[command(name = "kubectl-karpenter", bin_name = "kubectl karpenter", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plan nodes for workloads in manifests, without a cluster
    Plan(cli::plan::Args),
    /// Test an installation: what is wrong, and how to mend it
    Check(cli::check::Args),
    /// Show the nodes that are being removed, how far each is and what it waits for
    Drains(cli::drains::Args),
    /// Show what EC2 offers and for how much, as the running pricing-cache sees it
    Prices(cli::prices::Args),
    /// Say why a node stays, or why a pod is where it is
    Explain(cli::explain::Args),
    /// Show nodes by cost and waste, use and price of each pool, and what could be saved
    Top(cli::top::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Plan(args) => cli::plan::run(&args),
        Command::Check(args) => cli::check::run(&args),
        Command::Drains(args) => cli::drains::run(&args),
        Command::Prices(args) => cli::prices::run(&args),
        Command::Explain(args) => cli::explain::run(&args),
        Command::Top(args) => cli::top::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kubectl-karpenter: {error:#}");
            // 2: the input is wrong; 1: anything else.
            ExitCode::from(if error.is::<cli::manifest::InputError>() { 2 } else { 1 })
        }
    }
}

/// `… | head` is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

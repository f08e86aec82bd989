//! The command line: which sub-command, and what its failure means to the shell.

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Plan, explain and check node autoscaling
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
    /// Test an installation: what is wrong, and how to fix it
    Check(cli::check::Args),
    /// Show the nodes that are being removed, how far each is and what it waits for
    Drains(cli::drains::Args),
    /// Show disruption commands: what goes, what it saves and what came of it; or cancel one
    Commands(cli::commands::Args),
    /// Stop voluntary disruption of a NodePool, or of all, for a while
    Pause(cli::pause::PauseArgs),
    /// End a pause
    Resume(cli::pause::ResumeArgs),
    /// Show what EC2 offers and for how much, as the running pricing-cache sees it
    Prices(cli::prices::Args),
    /// Explain why a node stays, or why a pod is pending or where it is
    Explain(cli::explain::Args),
    /// Show nodes by cost and waste, use and price of each pool, and what could be saved
    Top(cli::top::Args),
    /// Show what an installation in shadow mode would have done, beside what really happened
    Shadow(cli::shadow::Args),
    /// Open a page that shows the cluster, its cost and every decision, live
    Ui(Box<cli::ui::Args>),
    /// Print a shell completion script, e.g. `source <(kubectl karpenter completion bash)`
    Completion { shell: clap_complete::Shell },
}

/// What completes is the program itself: kubectl leaves the completion of plugins to `kubectl_complete-<plugin>`.
const PROGRAM: &str = "kubectl-karpenter";

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Plan(args) => cli::plan::run(&args),
        Command::Check(args) => cli::check::run(&args),
        Command::Drains(args) => cli::drains::run(&args),
        Command::Commands(args) => cli::commands::run(&args),
        Command::Pause(args) => cli::pause::pause(&args),
        Command::Resume(args) => cli::pause::resume(&args),
        Command::Prices(args) => cli::prices::run(&args),
        Command::Explain(args) => cli::explain::run(&args),
        Command::Top(args) => cli::top::run(&args),
        Command::Shadow(args) => cli::shadow::run(&args),
        Command::Ui(args) => cli::ui::run(&args),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command().bin_name(PROGRAM), PROGRAM, &mut io::stdout());
            Ok(())
        }
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
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_flags_of_a_command_share_a_name() {
        Cli::command().debug_assert();
    }

    /// One is a full-screen page, the other prints a script.
    const WITHOUT_JSON: [&str; 2] = ["ui", "completion"];

    /// Commands that do something themselves, with the values that their `-o` takes.
    fn outputs(command: &clap::Command, path: &str, found: &mut Vec<(String, Vec<String>)>) {
        let has_own_action = !command.is_subcommand_required_set() && !path.is_empty();
        if has_own_action {
            let output = command.get_arguments().find(|argument| argument.get_short() == Some('o'));
            let values = output.map(clap::Arg::get_possible_values).unwrap_or_default();
            let values = values.iter().map(|value| value.get_name().to_owned()).collect();
            found.push((path.to_owned(), values));
        }
        for inner in command.get_subcommands() {
            outputs(inner, format!("{path} {}", inner.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_command_that_is_not_interactive_writes_json() {
        let mut found = Vec::new();
        outputs(&Cli::command(), "", &mut found);
        assert!(found.iter().any(|(command, _)| command == "commands cancel"), "{found:?}");
        found.retain(|(command, _)| !WITHOUT_JSON.contains(&command.as_str()));
        let without = found.iter().filter(|(_, values)| !values.iter().any(|value| value == "json"));
        assert_eq!(without.collect::<Vec<_>>(), [] as [&(String, Vec<String>); 0]);
    }
}

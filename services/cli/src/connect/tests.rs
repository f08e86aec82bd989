//! Whose token each command shows.

use clap::{Args, Command};

use super::*;
use crate::{check, commands, drains, explain, pause, plan, prices, shadow, top, ui};

fn all() -> Command {
    let named = |name: &'static str| Command::new(name);
    Command::new("kubectl-karpenter").subcommands([
        plan::Args::augment_args(named("plan")),
        check::Args::augment_args(named("check")),
        drains::Args::augment_args(named("drains")),
        commands::Args::augment_args(named("commands")),
        pause::PauseArgs::augment_args(named("pause")),
        pause::ResumeArgs::augment_args(named("resume")),
        prices::Args::augment_args(named("prices")),
        explain::Args::augment_args(named("explain")),
        top::Args::augment_args(named("top")),
        shadow::Args::augment_args(named("shadow")),
        ui::Args::augment_args(named("ui")),
    ])
}

/// Every command that has the flag, with the account it asks a token for.
fn accounts(command: &Command, path: &str, found: &mut BTreeMap<String, String>) {
    let flag = command.get_arguments().find(|argument| argument.get_id() == "service_account");
    if let Some(flag) = flag {
        let default = flag.get_default_values().first().expect("an account");
        found.insert(path.to_owned(), default.to_string_lossy().into_owned());
    }
    for inner in command.get_subcommands() {
        accounts(inner, format!("{path} {}", inner.get_name()).trim_start(), found);
    }
}

#[test]
fn only_a_command_that_changes_something_shows_the_operators_token() {
    let mut found = BTreeMap::new();
    accounts(&all(), "", &mut found);
    let of = |account: &str| -> Vec<&str> {
        found.iter().filter(|(_, used)| *used == account).map(|(command, _)| command.as_str()).collect()
    };
    assert_eq!(of(OPERATOR), ["commands cancel", "pause", "resume"]);
    assert_eq!(
        of(VIEWER),
        [
            "check",
            "commands",
            "drains",
            "explain node",
            "explain pod",
            "plan",
            "prices",
            "shadow",
            "top",
            "ui"
        ]
    );
}

#[test]
fn another_account_can_be_named_for_any_command() {
    for words in [&["top"][..], &["commands", "cancel", "c-1"]] {
        let given = ["kubectl-karpenter"].iter().chain(words).chain(&["--service-account", "mine"]);
        let mut matches = all().try_get_matches_from(given).expect("it is taken");
        while let Some((_, inner)) = matches.remove_subcommand() {
            matches = inner;
        }
        assert_eq!(
            matches.get_one::<String>("service_account").map(String::as_str),
            Some("mine"),
            "{words:?}"
        );
    }
}

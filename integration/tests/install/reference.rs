//! The generated reference pages against the programs themselves: every flag and every metric that there is, is documented.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration::rpc::binary;
use integration::stack::root;
use integration::{Service, Stack, Test, test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("reference", every_flag_and_variable_of_the_services_is_documented),
        test!("reference", alone, every_metric_that_is_served_is_documented),
    ]
}

const SERVICES: [&str; 5] =
    ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];

fn page(name: &str) -> Result<String> {
    let path = root().join(format!("deploy/docs/reference/{name}.md"));
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Words of a text that begin with `prefix`, up to the next character that belongs to no name.
fn named<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let end = |rest: &str| {
        rest.find(|character: char| !(character.is_ascii_alphanumeric() || "-_".contains(character)))
    };
    text.match_indices(prefix)
        .map(|(at, _)| &text[at + prefix.len()..])
        .map(|rest| &rest[..end(rest).unwrap_or(rest.len())])
        .collect()
}

async fn every_flag_and_variable_of_the_services_is_documented(_: Stack) -> Result<()> {
    let settings = page("settings")?;
    for service in SERVICES {
        let output = Command::new(binary(service)?).arg("--help").env_clear().output()?;
        let help = String::from_utf8(output.stdout)?;
        // Lines that begin with a flag; texts may mention others.
        let flags: BTreeSet<&str> = help
            .lines()
            .filter(|line| line.trim_start().starts_with('-'))
            .flat_map(|line| {
                named(line.split_whitespace().find(|word| word.starts_with("--")).unwrap_or(""), "--")
            })
            .filter(|flag| !["help", "version"].contains(flag))
            .collect();
        ensure!(flags.len() > 30, "{service}: only {} flags in its help", flags.len());
        for flag in flags {
            ensure!(settings.contains(&format!("`--{flag}`")), "{service}: --{flag} is not in settings.md");
        }
        for variable in named(&help, "[env: ") {
            ensure!(
                settings.contains(&format!("`{variable}`")),
                "{service}: {variable} is not in settings.md"
            );
        }
    }
    Ok(())
}

/// By its name, by that of the summary it is a part of, or by its family.
fn is_documented(metrics: &str, name: &str) -> bool {
    let family = name.split('_').next().unwrap_or_default();
    let summary = name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count")).unwrap_or(name);
    [name, summary, &format!("{family}_*")].iter().any(|known| metrics.contains(&format!("`{known}`")))
}

async fn every_metric_that_is_served_is_documented(stack: Stack) -> Result<()> {
    let metrics = page("metrics")?;
    let running: Vec<Service> =
        SERVICES.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let mut missing = BTreeSet::new();
    for service in &running {
        let text = service.admin_get("/metrics")?;
        let served = named(&text, "# TYPE ");
        ensure!(served.len() > 20, "{}: only {} metrics", service.name, served.len());
        missing.extend(
            served
                .into_iter()
                .filter(|name| !is_documented(&metrics, name))
                .map(|name| format!("{}: {name}", service.name)),
        );
    }
    ensure!(missing.is_empty(), "not in metrics.md: {missing:?}");
    running.iter().try_for_each(|service| service.stop(&stack))
}

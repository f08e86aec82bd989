//! Boards and alerts: written from one table, correct PromQL, on metrics that the services really serve; and the names on boards
//! that people already have.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration::stack::root;
use integration::{Service, Skipped, Stack, Test, test};
use serde_json::Value;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("boards", generated_files_are_what_their_scripts_write),
        test!("boards", alerts_fire_when_they_should_and_not_before),
        test!("boards", alone, every_metric_of_boards_and_alerts_is_served),
    ]
}

async fn generated_files_are_what_their_scripts_write(_: Stack) -> Result<()> {
    for script in ["deploy/observability/boards", "deploy/aws/cloudformation", "deploy/images/version"] {
        let output = Command::new(root().join(script)).arg("--check").output()?;
        ensure!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// From Debian's package `prometheus`, put there by the local stack where that is possible.
fn promtool(stack: &Stack) -> Result<()> {
    let found = Command::new("promtool").arg("--version").output().is_ok();
    if found || stack.command(["build", "--promtool"]).is_ok() {
        return Ok(());
    }
    Err(Skipped("promtool is missing: install the package prometheus".to_owned()).into())
}

async fn alerts_fire_when_they_should_and_not_before(stack: Stack) -> Result<()> {
    promtool(&stack)?;
    let directory = root().join("deploy/observability/alerts");
    for call in [["check", "rules", "karpenter.rules.yaml"], ["test", "rules", "karpenter.test.yaml"]] {
        let output = Command::new("promtool").args(call).current_dir(&directory).output()?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "promtool {}: {}", call.join(" "), String::from_utf8_lossy(&said));
    }
    Ok(())
}

/// Names on boards and in scripts that people have from tutorials and older releases, served beside the reference's.
const PEOPLE_S_NAMES: &[&str] = &[
    "karpenter_nodeclaims_created_total",
    "karpenter_nodeclaims_registered_duration_seconds_bucket",
    "karpenter_nodeclaims_disrupted_total",
    "karpenter_pods_state",
    "karpenter_nodeclaims_instance_type",
    "karpenter_nodes_total",
    "karpenter_nodeclaims_terminated_total",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_provisioner_scheduling_duration_seconds",
    "karpenter_interruption_received_messages_total",
    "karpenter_nodes_total_daemon_requests",
    "karpenter_nodes_total_pod_requests",
    "karpenter_disruption_consolidation_timeouts_total",
];

/// Words of a PromQL expression that look like our metrics.
pub(crate) fn names(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| {
            ["karpenter_", "leader_election_", "grpc_", "process_"]
                .iter()
                .any(|start| word.starts_with(start))
        })
        .filter(|word| !["grpc_service", "grpc_code", "grpc_method"].contains(word))
}

fn expressions(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        Value::Object(fields) => {
            if let Some(text) = fields.get("expr").and_then(Value::as_str) {
                found.extend(names(text).map(str::to_owned));
            }
            fields.values().for_each(|field| expressions(field, found));
        }
        _ => {}
    }
}

/// A histogram's series end in `_bucket`, `_sum`, `_count`; a counter's name ends in `_total` on the wire whatever TYPE says.
fn is_served(name: &str, families: &BTreeSet<String>) -> bool {
    let bare = |suffix: &str| name.strip_suffix(suffix).is_some_and(|name| families.contains(name));
    families.contains(name) || ["_bucket", "_sum", "_count", "_total"].into_iter().any(bare)
}

/// Texts in the programs' code that are names of metrics.
fn named_in(directory: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("tests") {
            named_in(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = std::fs::read_to_string(&path)?;
            let texts = code.split('"').filter(|text| names(text).eq([*text]));
            found.extend(texts.map(str::to_owned));
        }
    }
    Ok(())
}

async fn every_metric_of_boards_and_alerts_is_served(stack: Stack) -> Result<()> {
    let mut wanted: BTreeSet<String> = PEOPLE_S_NAMES.iter().map(|name| (*name).to_owned()).collect();
    for entry in std::fs::read_dir(root().join("deploy/observability/dashboards"))? {
        let text = std::fs::read_to_string(entry?.path())?;
        expressions(&serde_json::from_str(&text)?, &mut wanted);
    }
    let rules = std::fs::read_to_string(root().join("deploy/observability/alerts/karpenter.rules.yaml"))?;
    let rules = integration::kubernetes::documents(&rules)?;
    expressions(rules.first().context("the rules")?, &mut wanted);
    ensure!(wanted.len() > 30, "only {} metrics are used", wanted.len());

    let services = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    // All at once: the provisioner is not ready before it has a catalogue.
    let running: Vec<Service> =
        services.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let mut families = BTreeSet::new();
    for service in &running {
        let text = service.admin_get("/metrics")?;
        families.extend(
            text.lines()
                .filter_map(|line| line.strip_prefix("# TYPE "))
                .filter_map(|line| Some(line.split(' ').next()?.to_owned())),
        );
    }
    running.iter().try_for_each(|service| service.stop(&stack))?;
    // A family without series is not shown at all: of what has not happened yet the code knows the name.
    named_in(&root().join("services"), &mut families)?;
    let missing: Vec<&String> = wanted.iter().filter(|name| !is_served(name, &families)).collect();
    ensure!(missing.is_empty(), "no service serves {missing:?}");
    Ok(())
}

//! The page of worked grpcurl commands: every one of them is run as it stands there.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration::stack::root;
use integration::workload::Workload;
use integration::{Service, Stack, Test, test};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("page", alone, every_grpcurl_command_of_the_page_works)]
}

/// Ends a command that streams until it is stopped.
const STOPPED: i32 = 124;

struct Block {
    streams: bool,
    script: String,
}

/// Fenced blocks in order; those for a cluster with pods are left out.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```sh") else { continue };
        let script: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if kind.trim() != "cluster" {
            found.push(Block { streams: kind.trim() == "stream", script: script.join("\n") });
        }
    }
    found
}

async fn every_grpcurl_command_of_the_page_works(stack: Stack) -> Result<()> {
    let services = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let running: Vec<Service> =
        services.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let workload = Workload::new(&stack, "page", json!({}), json!({})).await?;
    workload.deploy("app", 2, "1", json!({})).await?;
    let node = workload.running("app", 2).await?.swap_remove(0);
    let pods = workload.pods().list(&ListParams::default()).await?.items;
    let pod = pods.first().context("a pod")?.name_any();
    let claim = workload.claims().await?.first().context("a claim")?.name_any();

    let page = std::fs::read_to_string(root().join("deploy/docs/grpcurl.md"))?;
    let blocks = blocks(&page);
    ensure!(blocks.len() > 10, "only {} blocks were found", blocks.len());
    for block in &blocks {
        let each: Vec<&str> =
            if block.streams { block.script.lines().collect() } else { vec![&block.script] };
        for script in each {
            let script = format!("set -euo pipefail; source {}/env\n{script}", stack.dir().display());
            let mut command = match block.streams {
                true => Command::new("timeout"),
                false => Command::new("bash"),
            };
            if block.streams {
                command.args(["5", "bash"]);
            }
            command.args(["-c", &script]);
            command.env("NODE", &node).env("POD", &pod).env("CLAIM", &claim).env("NAMESPACE", &workload.name);
            let output = command.output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            let fine = match block.streams {
                true => output.status.code() == Some(STOPPED),
                false => output.status.success() && !output.stdout.is_empty(),
            };
            ensure!(fine, "{script}\n{said}");
        }
    }
    workload.remove().await?;
    running.iter().try_for_each(|service| service.stop(&stack))
}

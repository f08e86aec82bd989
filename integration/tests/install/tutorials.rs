//! The tutorials in `deploy/docs/tutorials`, line by line: what people type works as it stands there.
//!
//! Commands run on the local cluster, with the services as processes. The installation itself is rendered; commands that need the
//! services' pods run in `installed`, where there are some.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use integration::rpc::binary;
use integration::stack::root;
use integration::{Service, Stack, Test, helm, test};

use crate::fenced::{Block, blocks};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("tutorials", every_installation_of_a_tutorial_renders_five_pods_at_most),
        test!("tutorials", alone, every_command_of_the_tutorials_works),
    ]
}

/// In an order in which each finds what it needs.
const PAGES: [&str; 5] = ["first-node", "spot", "disruption", "interruption", "observe"];
/// Status of `timeout` when it had to end the command.
const TIMED_OUT: i32 = 124;
/// `kubectl logs -f` follows at most this many pods.
const FOLLOWED: u64 = 5;

fn page(name: &str) -> Result<Vec<Block>> {
    let path = root().join(format!("deploy/docs/tutorials/{name}.md"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let found = blocks(&text);
    for block in &found {
        let known = ["", "helm", "pods", "follow", "aws", "watch"].contains(&block.kind.as_str());
        ensure!(known, "{name}: no test knows blocks of kind {:?}", block.kind);
    }
    Ok(found)
}

/// bash in the checkout, with the variables and programs that the pages presume.
fn shell(stack: &Stack, wrapper: &[&str], script: &str) -> Result<Output> {
    let tools = helm::program(stack, "kubectl")?;
    let plugin = binary("provisioner")?;
    let directory =
        |program: &Path| Ok::<_, anyhow::Error>(program.parent().context("a directory")?.to_owned());
    // An error names the command; pipes fail with their first part.
    let script = format!(
        "set -euo pipefail; trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR; source {}/env; PATH={}:{}:$PATH\n{script}",
        stack.dir().display(),
        directory(&tools)?.display(),
        directory(&plugin)?.display(),
    );
    let mut words = wrapper.to_vec();
    words.extend(["bash", "-c", &script]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(root()).env("REGISTRY", "registry.example/karpenter");
    command.output().with_context(|| format!("run {script}"))
}

fn succeeded(output: &Output, script: &str) -> Result<()> {
    if !output.status.success() {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        bail!("{}\n{}\nof:\n{script}", shown(&output.stderr), shown(&output.stdout));
    }
    Ok(())
}

/// Runs until it is stopped.
fn keeps_running(stack: &Stack, script: &str) -> Result<()> {
    let output = shell(stack, &["timeout", "5"], script)?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(TIMED_OUT), "{script}: {} {problem}", output.status);
    Ok(())
}

async fn every_installation_of_a_tutorial_renders_five_pods_at_most(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let mut rendered = 0;
    for name in PAGES {
        for block in page(name)?.iter().filter(|block| block.kind == "helm") {
            // As it stands there, but for writing anything.
            let script = block.script.replace(" --wait", " --dry-run=client --output json");
            ensure!(script != block.script, "{name}: a tutorial waits for the installation");
            let output = shell(&stack, &["env"], &script)?;
            succeeded(&output, &script)?;
            let release: serde_json::Value = serde_json::from_slice(&output.stdout)?;
            let manifest = release["manifest"].as_str().context("a manifest")?;
            let pods: u64 = integration::kubernetes::documents(manifest)?
                .iter()
                .filter(|object| object["kind"] == "Deployment")
                .map(|deployment| deployment["spec"]["replicas"].as_u64().unwrap_or(1))
                .sum();
            ensure!((1..=FOLLOWED).contains(&pods), "{pods} pods: `kubectl logs -f -l` follows {FOLLOWED}");
            rendered += 1;
        }
    }
    ensure!(rendered > 0, "no tutorial installs anything");
    Ok(())
}

async fn every_command_of_the_tutorials_works(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let services = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let running: Vec<Service> =
        services.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    for name in PAGES {
        let blocks = page(name)?;
        for line in blocks.iter().filter(|block| block.kind == "watch").flat_map(|block| block.script.lines())
        {
            keeps_running(&stack, line)?;
        }
        // One shell for the page: later blocks use variables of earlier ones.
        let script: Vec<&str> =
            blocks.iter().filter(|block| block.kind.is_empty()).map(|block| block.script.as_str()).collect();
        ensure!(!script.is_empty(), "{name}: no commands");
        let script = script.join("\n");
        // Ends a page that will never finish; it does not measure speed.
        let output = shell(&stack, &["timeout", "3600"], &script)?;
        succeeded(&output, &script).with_context(|| format!("tutorial {name}"))?;
    }
    running.iter().try_for_each(|service| service.stop(&stack))
}

/// The commands that need the services as pods; there must have been a scale-up before.
pub(crate) fn with_pods(stack: &Stack) -> Result<()> {
    for name in PAGES {
        for block in page(name)? {
            match block.kind.as_str() {
                "pods" => succeeded(&shell(stack, &["env"], &block.script)?, &block.script)?,
                "follow" => block.script.lines().try_for_each(|line| keeps_running(stack, line))?,
                _ => {}
            }
        }
    }
    Ok(())
}

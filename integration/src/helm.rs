//! Helm and kubectl as people use them, on the charts of this checkout.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::kubernetes::documents;
use crate::stack::{Stack, root};

/// Builds the programs that the cluster itself does not need; nothing to do when they are there.
pub fn ensure_programs(stack: &Stack) -> Result<()> {
    stack.command(["build", "helm", "kubectl"]).map(drop)
}

/// A program that the local stack built.
pub fn program(stack: &Stack, name: &str) -> Result<PathBuf> {
    let beside = PathBuf::from(stack.var("GRPCURL")?);
    Ok(beside.with_file_name(name))
}

/// The directory of one of our charts.
pub fn chart(name: &str) -> PathBuf {
    root().join("charts").join(name)
}

/// Runs helm or kubectl on the stack's cluster, whatever it answers.
pub fn try_run(stack: &Stack, name: &str, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(program(stack, name)?);
    command.env("KUBECONFIG", stack.var("KUBECONFIG")?).args(arguments);
    command.output().with_context(|| format!("run {command:?}"))
}

/// The same; what it printed, or what it complained of as the error.
pub fn run(stack: &Stack, name: &str, arguments: &[&str]) -> Result<String> {
    let output = try_run(stack, name, arguments)?;
    if !output.status.success() {
        bail!("{name} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The objects of a chart as `helm template` renders them; the release has the chart's name and lives in kube-system.
pub fn render(stack: &Stack, name: &str, options: &[&str]) -> Result<Vec<Value>> {
    let chart = chart(name);
    let chart = chart.to_str().context("a path in UTF-8")?;
    let mut call = vec!["template", name, chart, "--namespace", "kube-system"];
    call.extend(options);
    documents(&run(stack, "helm", &call)?)
}

//! `kubectl karpenter plan --live`: what the running provisioner would do about changed manifests.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Stack, Test, eventually, rpc, test};
use serde_json::{Value, json};

use crate::provisioning;

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("plan_live", alone, a_plan_for_the_running_cluster_is_what_then_happens)]
}

/// The manifests go to standard input.
fn plan(stack: &Stack, manifests: &Value, words: &[&str]) -> Result<(bool, String, String)> {
    let mut command = Command::new(rpc::binary("provisioner")?.with_file_name("kubectl-karpenter"));
    command.args(["plan", "--live", "-f", "-"]).args(words).env("KUBECONFIG", stack.var("KUBECONFIG")?);
    let mut running = command
        .env_remove("GRPC_PROVISIONER")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start kubectl-karpenter")?;
    let mut input = running.stdin.take().context("its standard input")?;
    input.write_all(manifests.to_string().as_bytes())?;
    drop(input);
    let output = running.wait_with_output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((output.status.success(), text(output.stdout), text(output.stderr)))
}

fn json_of(stack: &Stack, manifests: &Value, words: &[&str]) -> Result<Value> {
    let (fine, printed, complaint) = plan(stack, manifests, &[words, &["-o", "json"]].concat())?;
    ensure!(fine, "{complaint}");
    Ok(serde_json::from_str(&printed)?)
}

async fn a_plan_for_the_running_cluster_is_what_then_happens(stack: Stack) -> Result<()> {
    let services = provisioning::services(&stack, &[])?;
    let workload = Workload::new(&stack, "live", json!({}), json!({})).await?;
    // One pod per node: how many nodes there are does not depend on how the pods come.
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
    ]}}});
    workload.deploy("web", 2, "1", apart).await?;
    let nodes = workload.running("web", 2).await?;
    let deployment = workload.deployments().get("web").await?;

    // Nothing changed: no difference.
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let mut more = serde_json::to_value(&deployment)?;
    more["apiVersion"] = json!("apps/v1");
    more["kind"] = json!("Deployment");
    eventually("the provisioner to know that every pod runs", || async {
        let same = json_of(&stack, &list(vec![more.clone()]), &[])?;
        ensure!(same["today"] == same["changed"] && same["nodes"] == json!([]), "{same}");
        Ok(Some(()))
    })
    .await?;

    // More replicas than there are nodes: the plan's nodes are those that come.
    more["spec"]["replicas"] = json!(5);
    let planned = json_of(&stack, &list(vec![more.clone()]), &[])?;
    ensure!(planned["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3), "{planned}");
    let count = |side: &str| planned[side]["nodes"].as_u64();
    ensure!(count("changed") == count("today").map(|today| today + 3), "{planned}");
    let hourly = |side: &str| planned[side]["hourly"].as_f64().unwrap_or(0.0);
    ensure!(hourly("changed") > hourly("today"), "{planned}");
    let (fine, table, complaint) = plan(&stack, &list(vec![more]), &[])?;
    ensure!(fine, "{complaint}");
    for part in ["TODAY", "CHANGED", "DIFFERENCE", "$ per hour", "Nothing was changed."] {
        ensure!(table.contains(part), "{part:?} is not in\n{table}");
    }
    ensure!(workload.claims().await?.len() == 2, "a plan changes nothing");
    workload.scale("web", 5).await?;
    workload.running("web", 5).await?;
    ensure!(workload.claims().await?.len() == 5, "{planned}");

    // A node that is left out is not paid for, and its pod needs another one.
    let without = json_of(&stack, &list(Vec::new()), &["--remove", &format!("Node/{}", nodes[0])])?;
    ensure!(without["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1), "{without}");
    ensure!(without["today"]["nodes"] == without["changed"]["nodes"], "{without}");
    let (fine, _, complaint) = plan(&stack, &list(Vec::new()), &["--remove", "Node/no-such-node"])?;
    ensure!(!fine && complaint.contains("no-such-node"), "{complaint}");
    workload.remove().await?;
    provisioning::stop(&stack, &services)
}

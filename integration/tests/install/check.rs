//! `kubectl karpenter check`: silent about a good installation, and of a bad one it says within seconds what is wrong and how to fix it.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration::rpc::binary;
use integration::workload::Workload;
use integration::{Service, Stack, Test, eventually, test};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    // It takes rights away and names a queue that does not exist.
    vec![
        test!("check", alone, what_is_wrong_with_an_installation_is_named_with_how_to_fix_it)
            .expecting(&[" may not ", "the interruption queue cannot be read"]),
    ]
}

/// What the command found, and whether it was content.
fn check(stack: &Stack) -> Result<(bool, Vec<Value>)> {
    let program = binary("provisioner")?.with_file_name("kubectl-karpenter");
    let output = Command::new(program)
        .args(["check", "--namespace", "kube-system", "-o", "json"])
        .env_clear()
        .env("KUBECONFIG", stack.var("KUBECONFIG")?)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let findings = serde_json::from_slice(&output.stdout).with_context(|| format!("no findings: {said}"))?;
    Ok((output.status.success(), findings))
}

/// Until the check complains of `subject`; the complaint and the advice must hold these words.
async fn complains(stack: &Stack, area: &str, subject: &str, words: &[&str]) -> Result<()> {
    let what = format!("a complaint about {area} {subject}");
    let finding = eventually(&what, || async {
        let (content, findings) = check(stack)?;
        let found = findings.into_iter().find(|finding| {
            finding["area"] == area && finding["subject"] == subject && finding["verdict"] == "wrong"
        });
        if found.is_some() {
            ensure!(!content, "it complains and is exits with 0");
        }
        Ok(found)
    })
    .await?;
    let text = format!("{} {}", finding["detail"], finding["fix"]);
    for word in words {
        ensure!(text.contains(word), "{word:?} is not in {text}");
    }
    Ok(())
}

async fn what_is_wrong_with_an_installation_is_named_with_how_to_fix_it(stack: Stack) -> Result<()> {
    complains(&stack, "services", "termination", &["not running", "helm"]).await?;

    let services = ["pricing-cache", "provisioner", "termination", "disruption"];
    let running: Vec<Service> =
        services.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let queue = Service::start(&stack, "interruption-watcher", 0, &["--interruption-queue=absent"])?;
    complains(&stack, "AWS", "interruption queue", &["absent", "settings.interruptionQueue"]).await?;
    queue.stop(&stack)?;
    let queue = Service::start(&stack, "interruption-watcher", 0, &[])?;

    let workload = Workload::new(&stack, "check", json!({}), json!({})).await?;
    eventually("nothing to complain of", || async {
        let (content, findings) = check(&stack)?;
        let wrong = findings.into_iter().find(|finding| finding["verdict"] == "wrong");
        if let Some(wrong) = wrong {
            anyhow::bail!("{wrong}");
        }
        Ok(content.then_some(()))
    })
    .await?;

    let class = format!("ec2nodeclass/{}", workload.name);
    let classes: Api<api::EC2NodeClass> = Api::all(workload.client.clone());
    let nowhere = json!({"spec": {"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "nowhere"}}]}});
    classes.patch(&workload.name, &PatchParams::default(), &Patch::Merge(&nowhere)).await?;
    complains(&stack, "pools", &class, &["SubnetsReady", "karpenter.sh/discovery"]).await?;
    complains(&stack, "pools", &format!("nodepool/{}", workload.name), &["NodeClassReady"]).await?;

    let bindings: Api<ClusterRoleBinding> = Api::all(workload.client.clone());
    bindings.delete("karpenter-termination", &DeleteParams::default()).await?;
    complains(&stack, "rights", "termination", &["may not", "ClusterRole"]).await?;
    stack.command(["up", "--services", "none"])?;

    running[2].kill(&stack)?;
    complains(&stack, "leaders", "termination", &["has not renewed"]).await?;
    complains(&stack, "services", "termination", &["cannot be reached"]).await?;
    Service::start(&stack, "termination", 1, &[])?;
    workload.remove().await?;
    queue.stop(&stack)
}

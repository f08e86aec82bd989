//! Taking over the Helm release of a running Karpenter: its own chart is installed first, as its Go module has it, then ours
//! upgrades the release, `helm rollback` goes back, and forward again. No pod of either runs; the objects are what matters.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration::helm::{self, chart, run};
use integration::rpc::binary;
use integration::{Skipped, Stack, Test, test};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::Value;

pub(crate) fn tests() -> Vec<Test> {
    // Alone: the roles of the local services become the release's, and are deleted with it.
    vec![test!("release_takeover", alone, a_release_of_karpenter_is_upgraded_rolled_back_and_upgraded_again)]
}

const NAMESPACE: &str = "release-takeover";
const MODULE: &str = "github.com/aws/karpenter-provider-aws@v1.14.1";
/// What people have set for Karpenter, with either chart.
const SETTINGS: &str = "settings.clusterName=demo,settings.interruptionQueue=demo,webhook.enabled=false";
/// What the takeover adds: our images, and the account that IAM already trusts.
const OURS: &str = "controller.image.registry=registry.example,serviceAccount.name=karpenter";

/// The directory of Karpenter's own charts.
fn reference_chart() -> Result<String> {
    // Outside this checkout, where a go.mod would have a say.
    let output = Command::new("go").args(["mod", "download", "-json", MODULE]).current_dir("/").output();
    let module = output.ok().filter(|output| output.status.success());
    let module = module.ok_or_else(|| Skipped(format!("Go cannot download {MODULE}")))?;
    let module: Value = serde_json::from_slice(&module.stdout)?;
    Ok(format!("{}/charts/karpenter", module["Dir"].as_str().context("the module's directory")?))
}

async fn a_release_of_karpenter_is_upgraded_rolled_back_and_upgraded_again(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let reference = reference_chart()?;
    let outcome = Box::pin(take_over(&stack, &reference)).await;
    let _ = run(&stack, "helm", &["uninstall", "karpenter", "-n", NAMESPACE, "--ignore-not-found"]);
    let _ = run(&stack, "kubectl", &["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false"]);
    // The roles of the local services were the release's, and were deleted with it.
    stack.command(["up", "--services", "none"])?;
    outcome
}

async fn take_over(stack: &Stack, reference: &str) -> Result<()> {
    let install =
        ["install", "karpenter", reference, "-n", NAMESPACE, "--create-namespace", "--set", SETTINGS];
    run(stack, "helm", &install)?;
    let before = Objects::read(stack).await?;
    ensure!(before.deployments == ["karpenter"], "{:?}", before.deployments);

    let findings = examine(stack)?;
    let wrong: Vec<&Value> = findings.iter().filter(|finding| finding["verdict"] == "wrong").collect();
    ensure!(wrong.is_empty(), "{wrong:?}");
    let account = findings.iter().find(|finding| finding["subject"] == "AWS credentials");
    let fix = account.context("the account is examined")?["fix"].to_string();
    ensure!(fix.contains("serviceAccount.name=karpenter"), "{fix}");
    let without_effect = findings.iter().any(|finding| finding["subject"] == "webhook");
    ensure!(without_effect, "values without effect are not named: {findings:?}");

    shadow_mode_beside_it_takes_nothing(stack, &before).await?;

    // Two autoscalers must not act at the same time.
    let stop = ["upgrade", "karpenter", reference, "-n", NAMESPACE, "--reuse-values", "--set", "replicas=0"];
    run(stack, "helm", &stop)?;

    let ours = chart("karpenter");
    let ours = ours.to_str().context("a path in UTF-8")?;
    let values = format!("{SETTINGS},{OURS}");
    // The roles karpenter-<service> exist here for the local services.
    let upgrade = [
        "upgrade",
        "karpenter",
        ours,
        "-n",
        NAMESPACE,
        "--set",
        &values,
        "--take-ownership",
        "--force-conflicts",
    ];
    run(stack, "helm", &upgrade)?;
    ours_runs(stack, &before).await?;

    run(stack, "helm", &["rollback", "karpenter", "1", "-n", NAMESPACE])?;
    let back = Objects::read(stack).await?;
    ensure!(back == before, "{before:?} became {back:?}");
    ensure!(image(&back.karpenter)?.contains("karpenter/controller"), "{}", image(&back.karpenter)?);

    run(stack, "helm", &["rollback", "karpenter", "3", "-n", NAMESPACE])?;
    ours_runs(stack, &before).await
}

/// A second release in the same namespace, with Karpenter's own account, leaves the first one's objects alone.
async fn shadow_mode_beside_it_takes_nothing(stack: &Stack, before: &Objects) -> Result<()> {
    let ours = chart("karpenter");
    let ours = ours.to_str().context("a path in UTF-8")?;
    let values =
        format!("{SETTINGS},{OURS},settings.shadow=true,serviceAccount.create=false,fullnameOverride=shadow");
    // The roles karpenter-<service> exist here for the local services.
    let install = ["install", "shadow", ours, "-n", NAMESPACE, "--set", &values];
    run(stack, "helm", &[&install[..], &["--skip-crds", "--take-ownership", "--force-conflicts"]].concat())?;
    let beside = Objects::read(stack).await?;
    ensure!(beside.deployments.len() == 6 && beside.uids == before.uids, "{:?}", beside.deployments);
    let release = beside.karpenter.annotations().get("meta.helm.sh/release-name").cloned();
    ensure!(release.as_deref() == Some("karpenter"), "deployment/karpenter belongs to {release:?}");
    run(stack, "helm", &["uninstall", "shadow", "-n", NAMESPACE, "--wait"])?;
    let after = Objects::read(stack).await?;
    ensure!(after == *before, "{before:?} became {after:?}");
    Ok(())
}

/// The Deployment, Service and ServiceAccount `karpenter` were patched, not replaced; nothing of Karpenter is left in the pods.
async fn ours_runs(stack: &Stack, before: &Objects) -> Result<()> {
    let now = Objects::read(stack).await?;
    ensure!(now.uids == before.uids, "objects were replaced: {:?} became {:?}", before.uids, now.uids);
    ensure!(now.deployments.len() == 5, "{:?}", now.deployments);
    ensure!(
        image(&now.karpenter)? == "registry.example/karpenter-provisioner:0.1.0",
        "{}",
        image(&now.karpenter)?
    );
    let pod = now.karpenter.spec.as_ref().and_then(|spec| spec.template.spec.clone()).context("a pod")?;
    ensure!(pod.containers.len() == 1, "{} containers", pod.containers.len());
    let variables = pod.containers[0].env.iter().flatten().map(|variable| variable.name.as_str());
    ensure!(!variables.clone().any(|name| name == "KARPENTER_SERVICE"), "a variable of Karpenter is left");
    ensure!(variables.clone().any(|name| name == "SHARED_SERVICE_ACCOUNT"));
    let deployments: Api<Deployment> = Api::namespaced(stack.admin().await?, NAMESPACE);
    for deployment in deployments.list(&ListParams::default()).await? {
        let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let account = pod.and_then(|pod| pod.service_account_name.as_deref());
        ensure!(account == Some("karpenter"), "{} runs as {account:?}", deployment.name_any());
    }
    Ok(())
}

fn image(deployment: &Deployment) -> Result<String> {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).context("a pod")?;
    pod.containers[0].image.clone().context("an image")
}

/// What a takeover must keep, and what runs.
#[derive(Debug)]
struct Objects {
    deployments: Vec<String>,
    uids: [Option<String>; 3],
    karpenter: Deployment,
}

impl PartialEq for Objects {
    fn eq(&self, other: &Self) -> bool {
        self.deployments == other.deployments && self.uids == other.uids
    }
}

impl Objects {
    async fn read(stack: &Stack) -> Result<Self> {
        let client = stack.admin().await?;
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
        let accounts: Api<ServiceAccount> = Api::namespaced(client, NAMESPACE);
        let karpenter = deployments.get("karpenter").await?;
        let uids =
            [karpenter.uid(), services.get("karpenter").await?.uid(), accounts.get("karpenter").await?.uid()];
        let listed = deployments.list(&ListParams::default()).await?;
        let deployments = listed
            .iter()
            .filter(|each| each.metadata.deletion_timestamp.is_none())
            .map(|each| each.name_any())
            .collect();
        Ok(Self { deployments, uids, karpenter })
    }
}

/// `kubectl karpenter check --before-takeover`.
fn examine(stack: &Stack) -> Result<Vec<Value>> {
    let program = binary("provisioner")?.with_file_name("kubectl-karpenter");
    let output = Command::new(program)
        .args(["check", "--before-takeover", "-n", NAMESPACE, "-o", "json"])
        .args(["--kubeconfig", stack.var("KUBECONFIG")?])
        .args(["--values", &crate::charts::values("migrating")])
        .env_clear()
        .output()?;
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{problem}");
    serde_json::from_slice(&output.stdout).context(problem)
}

//! The charts themselves: lint, what the API server thinks of every object they render, and what a wrong value leads to.

use anyhow::{Context, Result, ensure};
use integration::helm::{self, chart, render, try_run};
use integration::kubernetes::api_of;
use integration::{Stack, Test, test};
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::Value;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("charts", every_chart_passes_helm_lint),
        test!("charts", the_api_server_takes_every_rendered_object_as_it_is),
        test!("charts", a_wrong_value_is_refused_with_the_name_of_its_field),
        test!("charts", a_service_is_upgraded_without_touching_the_others),
        test!("charts", helm_keeps_the_custom_resources_and_annotates_them),
        test!("charts", keys_without_effect_are_accepted_with_a_warning),
    ]
}

/// Sets of values of the umbrella chart, in `values/`.
pub(crate) const SETS: [&str; 4] = ["minimal", "tutorial", "migrating", "everything"];

const DIGEST: &str =
    "controller.image.digest=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(crate) fn values(set: &str) -> String {
    format!("{}/tests/install/values/{set}.yaml", env!("CARGO_MANIFEST_DIR"))
}

async fn every_chart_passes_helm_lint(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    for (name, set) in
        [("karpenter", Some("minimal")), ("karpenter-nodepool", Some("pools")), ("karpenter-crd", None)]
    {
        let path = chart(name);
        let file = set.map(values);
        let mut call = vec!["lint", "--strict", path.to_str().context("a path in UTF-8")?];
        call.extend(file.iter().flat_map(|file| ["--values", file.as_str()]));
        helm::run(&stack, "helm", &call)?;
    }
    Ok(())
}

async fn the_api_server_takes_every_rendered_object_as_it_is(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let client = stack.admin().await?;
    let mut objects = render(&stack, "karpenter-nodepool", &["--values", &values("pools")])?;
    objects.extend(render(&stack, "karpenter-crd", &[])?);
    for set in SETS {
        objects.extend(render(&stack, "karpenter", &["--values", &values(set), "--include-crds"])?);
    }
    ensure!(objects.len() > 100, "only {} objects were rendered", objects.len());
    // Strict: a field that the server does not know is an error, not a warning.
    let trial = PatchParams {
        dry_run: true,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("trial").force()
    };
    let mut refused = Vec::new();
    for object in objects {
        let (kind, name) = (object["kind"].to_string(), object["metadata"]["name"].to_string());
        let name_only = object["metadata"]["name"].as_str().context("a name")?.to_owned();
        let api = api_of(&client, &object).await?;
        let object: DynamicObject = serde_json::from_value(object)?;
        if let Err(error) = api.patch(&name_only, &trial, &Patch::Apply(&object)).await {
            refused.push(format!("{kind} {name}: {error}"));
        }
    }
    ensure!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    Ok(())
}

async fn a_wrong_value_is_refused_with_the_name_of_its_field(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    // What is set, and what the complaint must name.
    let cases: &[(&str, &[&str])] = &[
        ("settings.clusterNam=x", &["clusterNam"]),
        ("settings.clusterName=", &["settings.clusterName", "required"]),
        ("settings.batchMaxDuration=ten", &["settings", "batchMaxDuration"]),
        ("settings.preferencePolicy=Maybe", &["preferencePolicy", "Respect"]),
        ("settings.featureGates.nodeRepar=true", &["featureGates", "nodeRepar"]),
        ("settings.clusterEndpoint=example.com", &["clusterEndpoint"]),
        ("settings.vmMemoryOverheadPercent=-1", &["vmMemoryOverheadPercent"]),
        ("replicas=two", &["replicas"]),
        ("terminaton.replicas=1", &["terminaton"]),
        ("termination.replicas=-1", &["termination", "replicas"]),
        ("termination.autoscaling.enabled=true", &["termination", "autoscaling"]),
        ("controller.resources.requests.cpu=lots", &["controller/resources/requests/cpu"]),
        ("controller.metrics.port=99999", &["controller/metrics/port"]),
        (
            "serviceAccount.name=karpenter,termination.serviceAccount.annotations.a=b",
            &["termination.serviceAccount.annotations", "serviceAccount.annotations"],
        ),
        ("controller.image.registry=", &["controller.image.registry", "required", "make images"]),
        (
            "controller.image.repository=mirror.example/karpenter/controller",
            &["controller.image.repository", "set controller.image.registry"],
        ),
        (DIGEST, &["controller.image.digest", "<service>.image.digest"]),
        ("controller.healthProbe.port=8080", &["port 8080", "taken twice"]),
        ("hostNetwork=true,controller.grpc.port=8090", &["port 8090", "hostNetwork"]),
        ("dnsPolicy=Sometimes", &["dnsPolicy"]),
    ];
    let path = chart("karpenter");
    let path = path.to_str().context("a path in UTF-8")?;
    for (set, named) in cases {
        let call = [
            "install",
            "wrong",
            path,
            "--dry-run=client",
            "--set",
            "settings.clusterName=demo,controller.image.registry=registry.example",
            "--set",
            set,
        ];
        let answer = try_run(&stack, "helm", &call)?;
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        ensure!(!answer.status.success(), "{set} was accepted");
        for name in *named {
            ensure!(said.contains(name), "{set}: {name} is not named in {said}");
        }
    }
    let pools = chart("karpenter-nodepool");
    let pools = pools.to_str().context("a path in UTF-8")?;
    for (set, named) in [
        ("nodePools.a.preset=cheap", "nodePools/a/preset"),
        ("nodePools.a.nodeClass=absent", "nodePools.a.nodeClass"),
        ("clusterName=", "clusterName"),
    ] {
        let call = ["template", "wrong", pools, "--set", "clusterName=demo", "--set", set];
        let answer = try_run(&stack, "helm", &call)?;
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        ensure!(!answer.status.success() && said.contains(named), "{set}: {said}");
    }
    Ok(())
}

async fn a_service_is_upgraded_without_touching_the_others(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let file = values("tutorial");
    let before = render(&stack, "karpenter", &["--values", &file])?;
    let after = render(&stack, "karpenter", &["--values", &file, "--set", "termination.image.tag=next"])?;
    ensure!(before.len() == after.len());
    let changed: Vec<&Value> =
        before.iter().zip(&after).filter(|(old, new)| old != new).map(|(_, new)| new).collect();
    ensure!(changed.len() == 1, "{} objects changed", changed.len());
    ensure!(changed[0]["kind"] == "Deployment" && changed[0]["metadata"]["name"] == "karpenter-termination");
    Ok(())
}

/// Deleting the CRDs would delete every NodeClaim.
async fn helm_keeps_the_custom_resources_and_annotates_them(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let own = ["--set", "additionalAnnotations.team=platform"];
    let rendered = render(&stack, "karpenter-crd", &own)?;
    ensure!(rendered.len() == api::crd::all().len(), "{} objects", rendered.len());
    for crd in &rendered {
        let annotations = &crd["metadata"]["annotations"];
        ensure!(
            annotations["helm.sh/resource-policy"] == "keep" && annotations["team"] == "platform",
            "{crd}"
        );
    }
    Ok(())
}

async fn keys_without_effect_are_accepted_with_a_warning(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let (path, file) = (chart("karpenter"), values("migrating"));
    let path = path.to_str().context("a path in UTF-8")?;
    let call = ["install", "old-values", path, "--dry-run=client", "--values", &file, "-n", "kube-system"];
    let notes = helm::run(&stack, "helm", &call)?;
    for warned in
        ["webhook.*", "postInstallHook.*", "settings.awsFeatureGates", "serviceAccount.name=karpenter"]
    {
        ensure!(notes.contains(&format!("WARNING {warned}")), "no warning about {warned} in {notes}");
    }
    Ok(())
}

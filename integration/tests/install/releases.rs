//! `make release` as a dry run: charts that install from the release's own registry, archives, checksums.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration::helm::{self, try_run};
use integration::kubernetes::documents;
use integration::stack::root;
use integration::{Stack, Test, test};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("releases", charts_of_a_release_install_without_naming_a_registry)]
}

const REGISTRY: &str = "registry.example/team";

async fn charts_of_a_release_install_without_naming_a_registry(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let version = env!("CARGO_PKG_VERSION");
    let out = stack.dir().join("release");
    let out = out.to_str().context("a path in UTF-8")?;
    let helm = helm::program(&stack, "helm")?;
    let cache = helm.ancestors().nth(2).context("the directory above bin/")?;
    let output = Command::new(root().join("deploy/release/release"))
        .args(["--version", version, "--no-build", "--out", out, "--registry", REGISTRY])
        .args(["--cli", "linux-amd64=/bin/true", "--download-url", "https://example.com/releases"])
        .env("KARPENTER_CACHE", cache)
        .output()?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    ensure!(output.status.success(), "{printed}");
    for expected in
        ["skipped the images", "skipped kubectl-karpenter for darwin-arm64", "nothing was published"]
    {
        ensure!(printed.contains(expected), "{expected:?} is missing in {printed}");
    }

    let archive = format!("{out}/charts/karpenter-{version}.tgz");
    let call = ["template", "karpenter", &archive, "--include-crds", "--set", "settings.clusterName=demo"];
    let rendered = try_run(&stack, "helm", &call)?;
    ensure!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let objects = documents(&String::from_utf8(rendered.stdout)?)?;
    let images: BTreeSet<&str> = objects
        .iter()
        .filter_map(|object| object["spec"]["template"]["spec"]["containers"][0]["image"].as_str())
        .collect();
    ensure!(images.len() == 5, "{images:?}");
    for image in images {
        let whole = image.starts_with(&format!("{REGISTRY}/karpenter-")) && image.ends_with(version);
        ensure!(whole, "{image} is not of this release");
    }
    // crds/ is a symbolic link in the checkout.
    let crds = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").count();
    ensure!(crds == api::crd::all().len(), "{crds} CRDs in {archive}");

    let sums = Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(out).output()?;
    let checked = String::from_utf8_lossy(&sums.stdout).into_owned();
    ensure!(sums.status.success(), "{checked}");
    for file in
        ["charts/karpenter-crd", "charts/karpenter-nodepool", "karpenter.krew.yaml", "karpenter.cdx.json"]
    {
        ensure!(checked.contains(file), "{file} has no checksum: {checked}");
    }
    Ok(())
}

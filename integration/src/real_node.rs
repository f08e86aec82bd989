//! The real node of the local stack: a kubelet with containerd on this machine, and the product's images on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::rpc::binary;
use crate::stack::{Stack, root};
use crate::suite::Skipped;

/// Exit status of `stack kubelet up` where the machine cannot run containers.
const CANNOT: i32 = 77;

/// First part of the images' names; nothing is ever pulled from there.
pub const REGISTRY: &str = "localhost/karpenter";
/// Where pods of the real node find what listens on this machine's loopback.
pub const HOST: &str = "10.245.0.1";

/// Joins the real node; [`Skipped`] where the machine cannot.
pub fn up(stack: &Stack) -> Result<()> {
    let tool = root().join("deploy/local/stack");
    let output = Command::new(tool).arg("--dir").arg(stack.dir()).args(["kubelet", "up"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(()),
        Some(CANNOT) => Err(Skipped(said.trim().to_owned()).into()),
        _ => bail!("kubelet up: {said}"),
    }
}

pub fn down(stack: &Stack) -> Result<()> {
    stack.command(["kubelet", "down"]).map(drop)
}

/// Makes images of the services that cargo built, as `deploy/images/build` does, and gives them to the node under each tag.
pub fn load_images(stack: &Stack, tags: &[&str], services: &[&str]) -> Result<()> {
    let programs = binary("provisioner")?;
    let programs = programs.parent().context("the services' directory")?;
    for tag in tags {
        let out = stack.dir().join("images").join(tag);
        build(programs, tag, services, &out)?;
        let archives: Vec<PathBuf> =
            services.iter().map(|service| out.join(format!("karpenter-{service}.tar"))).collect();
        let mut call: Vec<&Path> = vec![Path::new("kubelet"), Path::new("import")];
        call.extend(archives.iter().map(PathBuf::as_path));
        stack.command(call)?;
        std::fs::remove_dir_all(&out)?;
    }
    Ok(())
}

fn build(programs: &Path, tag: &str, services: &[&str], out: &Path) -> Result<()> {
    let mut command = Command::new(root().join("deploy/images/build"));
    command.args(["--libraries", "--strip", "--registry", REGISTRY, "--tag", tag]);
    command.arg("--bin-dir").arg(programs).arg("--out").arg(out);
    services.iter().for_each(|service| {
        command.args(["--service", service]);
    });
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

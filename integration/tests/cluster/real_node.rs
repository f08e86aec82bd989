//! The second kind of node: a real kubelet with containerd, for what kwok cannot show.

use anyhow::{Result, bail, ensure};
use integration::kubernetes::namespace;
use integration::{Skipped, Stack, Test, eventually, test};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::json;

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("real_node", alone, a_real_kubelet_runs_a_real_pod)]
}

/// Exit status of `stack kubelet up` where the machine cannot run containers.
const CANNOT: i32 = 77;

async fn a_real_kubelet_runs_a_real_pod(stack: Stack) -> Result<()> {
    let tool = integration::stack::root().join("deploy/local/stack");
    let output =
        std::process::Command::new(tool).arg("--dir").arg(stack.dir()).args(["kubelet", "up"]).output()?;
    if output.status.code() == Some(CANNOT) {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Skipped(said.trim().to_owned()).into());
    }
    if !output.status.success() {
        bail!("kubelet up: {}", String::from_utf8_lossy(&output.stderr));
    }
    let ran = runs_a_pod(&stack).await;
    stack.command(["kubelet", "down"])?;
    ran
}

async fn runs_a_pod(stack: &Stack) -> Result<()> {
    let client = stack.admin().await?;
    let space = namespace(&client, "real-node").await?;
    let pods: Api<Pod> = Api::namespaced(client, &space);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "quiet"},
        "spec": {
            "nodeSelector": {"localstack/node": "real"},
            "tolerations": [{"key": "localstack/real-node", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "quiet", "image": "localhost/pause:1", "imagePullPolicy": "Never",
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "readOnlyRootFilesystem": true},
                "resources": {"limits": {"cpu": "100m", "memory": "32Mi"}},
            }],
        },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let container = eventually("the pod to run on the real node", || async {
        let status = pods.get("quiet").await?.status.unwrap_or_default();
        let first = status.container_statuses.unwrap_or_default().into_iter().next();
        Ok(first.filter(|container| container.ready).and_then(|container| container.container_id))
    })
    .await?;
    ensure!(container.starts_with("containerd://"), "run by {container}, not by containerd");
    Ok(())
}

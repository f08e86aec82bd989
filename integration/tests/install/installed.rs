//! The product as people run it: images, installed with helm, as real pods under a real kubelet, with the chart's own arguments,
//! probes, accounts and rights; kwok nodes carry the workload.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use integration::helm::{self, chart, run};
use integration::real_node::{self, HOST, REGISTRY};
use integration::workload::Workload;
use integration::{Stack, Test, aws, eventually, test};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use runtime::Service;
use serde_json::json;

use crate::{page, tutorials};

pub(crate) fn tests() -> Vec<Test> {
    // On a cluster of its own: uninstalling takes the accounts with it that local services of earlier tests have tokens of.
    vec![test!(
        "installed",
        soak,
        installed_with_helm_it_works_is_upgraded_scaled_rolled_back_and_uninstalled
    )]
}

const NAMESPACE: &str = "kube-system";
const OURS: &str = "app.kubernetes.io/name=karpenter";
const FIRST: &str = "first";
const SECOND: &str = "second";

async fn installed_with_helm_it_works_is_upgraded_scaled_rolled_back_and_uninstalled(
    stack: Stack,
) -> Result<()> {
    helm::ensure_programs(&stack)?;
    real_node::up(&stack)?;
    let outcome = life_of_an_installation(&stack).await;
    let log = run(
        &stack,
        "kubectl",
        &["logs", "-n", NAMESPACE, "-l", OURS, "-c", "controller", "--tail=60", "--prefix"],
    );
    let pods = run(&stack, "kubectl", &["get", "pods", "-n", NAMESPACE, "-o", "wide"]);
    let _ = run(&stack, "helm", &["uninstall", "karpenter", "-n", NAMESPACE, "--ignore-not-found"]);
    // The accounts of the local stack were the release's, and went with it.
    stack.command(["up", "--services", "none"])?;
    real_node::down(&stack)?;
    outcome.with_context(|| format!("{}\n{}", pods.unwrap_or_default(), log.unwrap_or_default()))
}

async fn life_of_an_installation(stack: &Stack) -> Result<()> {
    let all: Vec<&str> = Service::ALL.iter().map(|service| service.as_str()).collect();
    real_node::load_images(stack, &[FIRST], &all)?;
    real_node::load_images(stack, &[SECOND], &["termination"])?;

    install(stack).await?;
    let workload = tutorial_scale_up(stack).await?;
    one_service_is_upgraded_while_work_goes_on(stack, &workload).await?;
    a_service_is_scaled_to_three_and_back(stack, &workload).await?;
    the_upgrade_is_rolled_back(stack).await?;
    tutorial_scale_down(&workload).await?;
    uninstalling_leaves_nodes_and_claims_alone(stack, &workload).await?;
    clean_up(stack, &workload).await
}

/// What a person with an EKS cluster would set, and what this cluster needs beside it.
fn values(stack: &Stack) -> Result<String> {
    let aws = stack.var("AWS_ENDPOINT_URL")?.replace("127.0.0.1", HOST);
    let keys: BTreeMap<String, serde_json::Value> = Service::ALL
        .iter()
        .map(|service| {
            (service.to_string(), json!({"env": [{"name": "AWS_ACCESS_KEY_ID", "value": service.as_str()}]}))
        })
        .collect();
    let mut values = json!({
        "replicas": 1,
        "imagePullPolicy": "Never",
        "nodeSelector": {"localstack/node": "real"},
        "tolerations": [{"key": "localstack/real-node", "operator": "Exists"}],
        // There is one node and no zone.
        "affinity": {"podAntiAffinity": null},
        "topologySpreadConstraints": [],
        "settings": {
            "clusterName": stack.var("CLUSTER_NAME")?,
            "clusterEndpoint": stack.var("CLUSTER_ENDPOINT")?,
            "interruptionQueue": stack.var("INTERRUPTION_QUEUE")?,
        },
        "tracing": {"endpoint": stack.var("OTEL_EXPORTER_OTLP_ENDPOINT")?.replace("127.0.0.1", HOST)},
        "controller": {
            "image": {"registry": REGISTRY, "tag": FIRST},
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
            "env": [
                {"name": "AWS_ENDPOINT_URL", "value": aws},
                {"name": "AWS_REGION", "value": stack.var("AWS_REGION")?},
                {"name": "AWS_EC2_METADATA_DISABLED", "value": "true"},
                {"name": "AWS_SECRET_ACCESS_KEY", "value": "local"},
            ],
        },
    });
    for (service, own) in keys {
        values[service] = own;
    }
    let file = stack.dir().join("values.json");
    std::fs::write(&file, serde_json::to_vec_pretty(&values)?)?;
    Ok(file.to_str().context("a path in UTF-8")?.to_owned())
}

async fn install(stack: &Stack) -> Result<()> {
    let (path, file) = (chart("karpenter"), values(stack)?);
    let path = path.to_str().context("a path in UTF-8")?;
    // The local stack made accounts and roles of the same names for services that run as processes.
    let call = [
        "upgrade",
        "--install",
        "karpenter",
        path,
        "-n",
        NAMESPACE,
        "--create-namespace",
        "-f",
        &file,
        "--wait",
        "--timeout",
        "10m",
        "--take-ownership",
        "--force-conflicts",
    ];
    let said = run(stack, "helm", &call)?;
    ensure!(
        said.contains("kubectl karpenter check") && said.contains("karpenter-nodepool"),
        "no next steps in {said}"
    );
    let pods: Api<Pod> = Api::namespaced(stack.admin().await?, NAMESPACE);
    let found = pods.list(&ListParams::default().labels(OURS)).await?.items;
    ensure!(found.len() == 5, "{} pods", found.len());
    for pod in &found {
        let spec = pod.spec.as_ref().context("spec")?;
        ensure!(
            spec.node_name.as_deref() == Some("kubelet"),
            "{} is on {:?}",
            pod.name_any(),
            spec.node_name
        );
        ensure!(spec.containers[0].name == "controller");
        let status =
            pod.status.as_ref().and_then(|status| status.container_statuses.clone()).unwrap_or_default();
        let id = status.first().and_then(|container| container.container_id.clone()).unwrap_or_default();
        ensure!(id.starts_with("containerd://"), "{} is run by {id:?}", pod.name_any());
        ensure!(status.iter().all(|container| container.restart_count == 0), "{} restarted", pod.name_any());
    }
    Ok(())
}

async fn tutorial_scale_up(stack: &Stack) -> Result<Workload> {
    let pool = json!({"disruption": {"consolidateAfter": "Never"}});
    let workload = Workload::new(stack, "tutorial", pool, json!({})).await?;
    workload.deploy("inflate", 0, "1", json!({})).await?;
    workload.scale("inflate", 5).await?;
    workload.running("inflate", 5).await?;
    ensure!(!workload.claims().await?.is_empty());
    let told = ["logs", "-n", NAMESPACE, "-l", OURS, "-c", "controller", "--since=5m", "--tail=-1"];
    let told = run(stack, "kubectl", &told)?;
    for word in ["launched", "registered"] {
        ensure!(told.lines().any(|line| line.contains(word)), "no log line of the scale-up says {word:?}");
    }
    tutorials::with_pods(stack)?;
    page::through_port_forward(stack, Path::new(stack.var("KUBECONFIG")?))?;
    let pools = run(stack, "kubectl", &["get", "nodepools"])?;
    for column in ["NODECLASS", "NODES", "READY"] {
        ensure!(pools.contains(column), "{pools}");
    }
    Ok(workload)
}

/// No pods, no nodes; and back again for what follows.
async fn tutorial_scale_down(workload: &Workload) -> Result<()> {
    let pools: Api<api::NodePool> = Api::all(workload.client.clone());
    let after = |wait: &str| json!({"spec": {"disruption": {"consolidateAfter": wait, "budgets": [{"nodes": "100%"}]}}});
    pools.patch(&workload.name, &PatchParams::default(), &Patch::Merge(after("1s"))).await?;
    workload.scale("inflate", 0).await?;
    eventually("every node of the tutorial to be gone", || async {
        Ok((workload.claims().await?.is_empty() && workload.nodes().await?.is_empty()).then_some(()))
    })
    .await?;
    pools.patch(&workload.name, &PatchParams::default(), &Patch::Merge(after("Never"))).await?;
    workload.scale("inflate", 12).await?;
    workload.running("inflate", 12).await?;
    Ok(())
}

async fn pods_by_service(stack: &Stack) -> Result<BTreeMap<String, Vec<String>>> {
    let pods: Api<Pod> = Api::namespaced(stack.admin().await?, NAMESPACE);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in pods.list(&ListParams::default().labels(OURS)).await? {
        if pod.metadata.deletion_timestamp.is_none() {
            let service = pod.labels().get("app.kubernetes.io/component").cloned().unwrap_or_default();
            found.entry(service).or_default().push(pod.uid().unwrap_or_default());
        }
    }
    Ok(found)
}

fn upgrade(stack: &Stack, set: &str) -> Result<()> {
    let path = chart("karpenter");
    let path = path.to_str().context("a path in UTF-8")?;
    let call = [
        "upgrade",
        "karpenter",
        path,
        "-n",
        NAMESPACE,
        "--reuse-values",
        "--set",
        set,
        "--wait",
        "--timeout",
        "10m",
    ];
    run(stack, "helm", &call).map(drop)
}

/// Claims that are deleted around the upgrade of termination are still drained, and their instances end: nothing is forgotten.
async fn one_service_is_upgraded_while_work_goes_on(stack: &Stack, workload: &Workload) -> Result<()> {
    let before = pods_by_service(stack).await?;
    let claims: Api<api::NodeClaim> = Api::all(workload.client.clone());
    let doomed = workload.claims().await?.into_iter().next().context("a claim")?;
    let instance =
        doomed.status.as_ref().and_then(|status| status.provider_id.clone()).context("provider id")?;
    let instance = instance.rsplit('/').next().unwrap_or_default().to_owned();
    claims.delete(&doomed.name_any(), &DeleteParams::default()).await?;
    upgrade(stack, &format!("termination.image.tag={SECOND}"))?;

    let after = pods_by_service(stack).await?;
    for service in Service::ALL {
        let (old, new) = (&before[service.as_str()], &after[service.as_str()]);
        let same = old == new;
        ensure!(same != (service == Service::Termination), "{service}: {old:?} became {new:?}");
    }
    eventually("the claim that was deleted during the upgrade to be gone", || async {
        Ok(claims.get_opt(&doomed.name_any()).await?.is_none().then_some(()))
    })
    .await?;
    let listed = aws::get(stack, "/instances?state=running")?;
    ensure!(!listed.to_string().contains(&instance), "{instance} still runs");
    // The evicted pods are back, on other nodes.
    workload.running("inflate", 5).await?;
    Ok(())
}

async fn a_service_is_scaled_to_three_and_back(stack: &Stack, workload: &Workload) -> Result<()> {
    upgrade(stack, "provisioner.replicas=3")?;
    ensure!(pods_by_service(stack).await?["provisioner"].len() == 3);
    let leases: Api<Lease> = Api::namespaced(stack.admin().await?, NAMESPACE);
    let holder = |lease: Lease| lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    let leader = holder(leases.get("karpenter-provisioner").await?);
    ensure!(!leader.is_empty(), "nobody leads");
    workload.scale("inflate", 9).await?;
    workload.running("inflate", 9).await?;
    upgrade(stack, "provisioner.replicas=1")?;
    // Whoever is left leads, and goes on.
    workload.scale("inflate", 12).await?;
    workload.running("inflate", 12).await?;
    let claims = workload.claims().await?;
    let mut instances: Vec<String> = claims
        .iter()
        .filter_map(|claim| claim.status.as_ref().and_then(|status| status.provider_id.clone()))
        .collect();
    let count = instances.len();
    instances.sort();
    instances.dedup();
    ensure!(
        instances.len() == count && count == claims.len(),
        "{count} instances for {} claims",
        claims.len()
    );
    Ok(())
}

async fn the_upgrade_is_rolled_back(stack: &Stack) -> Result<()> {
    run(stack, "helm", &["rollback", "karpenter", "1", "-n", NAMESPACE, "--wait", "--timeout", "10m"])?;
    let deployments: Api<Deployment> = Api::namespaced(stack.admin().await?, NAMESPACE);
    let found = deployments.get("karpenter-termination").await?;
    let image =
        found.spec.and_then(|spec| spec.template.spec).and_then(|pod| pod.containers[0].image.clone());
    let wanted = format!("{REGISTRY}/karpenter-termination:{FIRST}");
    ensure!(image.as_deref() == Some(wanted.as_str()), "after the rollback: {image:?}");
    Ok(())
}

async fn uninstalling_leaves_nodes_and_claims_alone(stack: &Stack, workload: &Workload) -> Result<()> {
    let before: Vec<String> = workload.claims().await?.iter().map(|claim| claim.name_any()).collect();
    let nodes = workload.nodes().await?.len();
    run(stack, "helm", &["uninstall", "karpenter", "-n", NAMESPACE, "--wait"])?;
    // A pod that has ended is there until its kubelet has said so.
    let every_kind =
        ["get", "all,cm,lease,pdb,networkpolicy,sa,role,rolebinding", "-n", NAMESPACE, "-l", OURS];
    eventually("nothing of ours to be left", || async {
        let left = run(stack, "kubectl", &every_kind)?;
        ensure!(left.is_empty(), "objects are left: {left}");
        Ok(Some(()))
    })
    .await?;
    let after: Vec<String> = workload.claims().await?.iter().map(|claim| claim.name_any()).collect();
    ensure!(before == after, "claims were {before:?} and are {after:?}");
    ensure!(workload.nodes().await?.len() == nodes && nodes > 0);
    ensure!(run(stack, "kubectl", &["get", "crd"])?.contains("nodepools.karpenter.sh"));
    workload.running("inflate", 12).await?;
    Ok(())
}

/// What an uninstalled product leaves is taken over by the next: here, termination as a process of the local stack.
async fn clean_up(stack: &Stack, workload: &Workload) -> Result<()> {
    stack.command(["up", "--services", "none"])?;
    let termination = integration::Service::start(stack, "termination", 0, &[])?;
    workload.deployments().delete("inflate", &DeleteParams::default()).await?;
    let provisioner = integration::Service::start_with(stack, "provisioner", 0, &["--no-wait"])?;
    workload.remove().await?;
    provisioner.stop(stack)?;
    termination.stop(stack)
}

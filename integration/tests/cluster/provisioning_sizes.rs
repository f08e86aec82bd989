//! Pools of a fixed size, and room that is kept free for pods to come.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::capacitybuffer::CapacityBufferStatus;
use api::conditions;
use api::{CapacityBuffer, NodePool};
use integration::workload::Workload;
use integration::{Service, Stack, Test, eventually, test};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use model::labels;
use serde_json::{Value, json};

use crate::provisioning::{services, stop};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning_sizes", alone, a_static_pool_keeps_its_size_whatever_pods_there_are),
        test!("provisioning_sizes", alone, a_buffer_keeps_room_free_and_says_whether_it_is_there),
        test!("provisioning_sizes", alone, nodes_of_a_buffer_are_not_deleted_as_empty),
    ]
}

const GATES: &str = "--feature-gates=StaticCapacity=true,CapacityBuffer=true";

fn small() -> Value {
    json!([{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "c5.large"]}])
}

async fn names(workload: &Workload, count: usize) -> Result<BTreeSet<String>> {
    eventually(&format!("{count} initialized claims, and no more"), || async {
        let claims = workload.claims().await?;
        let there = claims.iter().filter(|claim| {
            let list = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            claim.metadata.deletion_timestamp.is_none() && conditions::is_true(list, "Initialized")
        });
        let names: BTreeSet<String> = there.map(|claim| claim.name_any()).collect();
        Ok((names.len() == count && claims.len() == count).then_some(names))
    })
    .await
}

// Cases: SDP-6, SDP-11, SPR-7, SPR-8, SPR-10, SCH-L.1-7, SCH-L.1-9, SCH-L.1-11, SCH-L.2-6, SCH-L.2-11
async fn a_static_pool_keeps_its_size_whatever_pods_there_are(stack: Stack) -> Result<()> {
    let running = services(&stack, &[GATES])?;
    let pool = json!({
        "replicas": 3, "limits": {"nodes": "5"}, "disruption": null,
        "template": {"spec": {"requirements": small()}},
    });
    let workload = Workload::new(&stack, "static", pool, json!({})).await?;
    let first = names(&workload, 3).await?;
    for claim in workload.claims().await? {
        let types = claim.spec.requirements.iter().find(|r| r.key == labels::INSTANCE_TYPE);
        ensure!(types.is_none_or(|t| t.values().len() <= 2), "the provider chooses the type");
    }
    // Pods run on what there is, and what does not fit causes no node.
    workload.deploy("app", 2, "1500m", json!({})).await?;
    workload.running("app", 2).await?;
    workload.deploy("more", 4, "1500m", json!({})).await?;

    let pools: Api<NodePool> = Api::all(workload.client.clone());
    let resize = |replicas: i32| {
        let (pools, name) = (pools.clone(), workload.name.clone());
        async move {
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            pools.patch(&name, &PatchParams::default(), &patch).await
        }
    };
    resize(9).await?;
    let grown = names(&workload, 5).await?;
    ensure!(grown.is_superset(&first), "nodes were replaced: {first:?} {grown:?}");

    // The nodes that run nothing go first.
    workload.scale("more", 0).await?;
    workload.running("more", 0).await?;
    let busy: BTreeSet<String> = workload.running("app", 2).await?.into_iter().collect();
    resize(2).await?;
    names(&workload, 2).await?;
    let left: BTreeSet<String> = workload.nodes().await?.into_keys().collect();
    ensure!(left.is_superset(&busy), "a node with pods went before empty ones: {busy:?} of {left:?}");

    // A node that somebody deletes is made up for.
    let victim = workload.claims().await?.first().map(|c| c.name_any()).context("a claim")?;
    Api::<api::NodeClaim>::all(workload.client.clone()).delete(&victim, &Default::default()).await?;
    eventually("another claim in its place", || async {
        let names: BTreeSet<String> = workload.claims().await?.iter().map(|c| c.name_any()).collect();
        Ok((names.len() == 2 && !names.contains(&victim)).then_some(()))
    })
    .await?;
    workload.remove().await?;
    stop(&stack, &running)
}

/// The buffer's status once the condition has the reason.
async fn says(
    buffers: &Api<CapacityBuffer>,
    type_: &'static str,
    reason: &'static str,
) -> Result<CapacityBufferStatus> {
    eventually(&format!("the buffer to say {type_} because of {reason}"), || async {
        let status = buffers.get("spare").await?.status.unwrap_or_default();
        let list = status.conditions.clone().unwrap_or_default();
        let found = conditions::find(&list, type_).is_some_and(|c| c.reason == reason);
        Ok(found.then_some(status))
    })
    .await
}

// Cases: SCH-M.1-3, SCH-M.1-4, SCH-M.4-21
async fn a_buffer_keeps_room_free_and_says_whether_it_is_there(stack: Stack) -> Result<()> {
    let running = services(&stack, &[GATES])?;
    let workload = Workload::new(&stack, "buffer", json!({}), json!({})).await?;
    workload.deploy("app", 2, "1", json!({})).await?;
    workload.running("app", 2).await?;
    let buffer: CapacityBuffer = serde_json::from_value(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "spare"},
        "spec": {"scalableRef": {"kind": "Deployment", "name": "app"}, "replicas": 4, "percentage": 50},
    }))?;
    let buffers: Api<CapacityBuffer> = Api::namespaced(workload.client.clone(), &workload.name);
    buffers.create(&PostParams::default(), &buffer).await?;
    let status = says(&buffers, "ReadyForProvisioning", "Resolved").await?;
    ensure!(status.replicas == Some(4), "{status:?}");
    says(&buffers, "Provisioning", "FitsExistingCapacity").await?;
    // Room for four more pods is there before they are: they start on nodes that exist.
    let before: BTreeSet<String> = workload.nodes().await?.into_keys().collect();
    workload.scale("app", 6).await?;
    let used: BTreeSet<String> = workload.running("app", 6).await?.into_iter().collect();
    ensure!(used.is_subset(&before), "pods waited for new nodes: {used:?}, there were {before:?}");
    // The room is taken now, so more is made.
    eventually("new room", || async {
        let now: BTreeSet<String> = workload.nodes().await?.into_keys().collect();
        Ok((now.len() > before.len()).then_some(()))
    })
    .await?;
    says(&buffers, "Provisioning", "FitsExistingCapacity").await?;

    let gone = json!({"spec": {"scalableRef": {"kind": "Deployment", "name": "nobody"}}});
    buffers.patch("spare", &PatchParams::default(), &Patch::Merge(gone)).await?;
    says(&buffers, "ReadyForProvisioning", "ScalableRefNotFound").await?;
    says(&buffers, "Provisioning", "NotReadyForProvisioning").await?;
    buffers.delete("spare", &Default::default()).await?;
    workload.remove().await?;
    stop(&stack, &running)
}

/// Longer than two rounds of a disruption that deletes empty nodes: it looks every second, and again 15 s later.
const WATCHED: Duration = Duration::from_secs(50);

// Cases: EMP-21, EMP-22, EMP-25, BUF-4, CST-93
async fn nodes_of_a_buffer_are_not_deleted_as_empty(stack: Stack) -> Result<()> {
    let mut running = services(&stack, &[GATES])?;
    running.push(Service::start(&stack, "disruption", 1, &[GATES])?);
    let pool = json!({
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        "template": {"spec": {"requirements": small()}},
    });
    let workload = Workload::new(&stack, "kept", pool, json!({})).await?;
    // The Deployment names what a pod of the buffer needs, and has none itself.
    workload.deploy("app", 0, "1500m", json!({})).await?;
    let buffer: CapacityBuffer = serde_json::from_value(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "spare"},
        "spec": {"scalableRef": {"kind": "Deployment", "name": "app"}, "replicas": 2},
    }))?;
    let buffers: Api<CapacityBuffer> = Api::namespaced(workload.client.clone(), &workload.name);
    buffers.create(&PostParams::default(), &buffer).await?;
    says(&buffers, "Provisioning", "FitsExistingCapacity").await?;
    let first = names(&workload, 2).await?;
    let until = Instant::now() + WATCHED;
    while Instant::now() < until {
        let claims = workload.claims().await?;
        let now: BTreeSet<String> = claims.iter().map(|claim| claim.name_any()).collect();
        let deleted = claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_some());
        ensure!(now == first && !deleted, "nodes of the buffer were replaced: {first:?} by {now:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let pool_label = format!("nodepool=\"{}\"", workload.name);
    let created = running[1].metric("karpenter_nodeclaims_created_total", &pool_label)?;
    ensure!(created == 2.0, "{created} NodeClaims were created for a buffer of two nodes");
    // Without the buffer the nodes are empty, and go.
    buffers.delete("spare", &Default::default()).await?;
    names(&workload, 0).await?;
    workload.remove().await?;
    stop(&stack, &running)
}

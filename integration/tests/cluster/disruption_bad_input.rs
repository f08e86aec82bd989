//! What disruption leaves alone and explains: nodes that cannot be told apart, priced or trusted to be ours to remove.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, eventually, test};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use model::labels;
use serde_json::json;

use crate::disruption_scene::{Scene, on_demand, pool};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, nodes_with_foreign_taints_or_two_claims_are_left_alone),
        test!("disruption", alone, a_node_that_cannot_be_priced_is_not_consolidated),
        test!("disruption", alone, a_node_that_somebody_else_deletes_is_theirs),
    ]
}

async fn nodes_with_foreign_taints_or_two_claims_are_left_alone(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "odd", pool(json!({"consolidateAfter": "Never"}))).await?;
    let nodes = scene.spread("app", 3, "1", json!({})).await?;
    let (tainted, twice, plain) = (&nodes[0], &nodes[1], &nodes[2]);
    // Our key, and not as we write it.
    let taint = json!({"key": labels::DISRUPTED_TAINT, "value": "by-hand", "effect": "NoSchedule"});
    let patch = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    scene.nodes().patch(tainted, &PatchParams::default(), &patch).await?;
    // A second claim that says it owns the same instance.
    let claims = scene.workload.claims().await?;
    let is_it = |c: &&api::NodeClaim| c.status.as_ref().is_some_and(|s| s.node_name.as_ref() == Some(twice));
    let original = claims.iter().find(is_it).context("the claim of the node")?;
    let name = format!("{}-copy", scene.workload.name);
    let mut copy = original.clone();
    copy.metadata = kube::core::ObjectMeta {
        name: Some(name.clone()),
        labels: original.metadata.labels.clone(),
        ..Default::default()
    };
    let status = serde_json::to_value(original.status.as_ref())?;
    copy.status = None;
    // A provisioner that saw the claim before its status would launch an instance for it.
    let provisioner = scene.others.iter().find(|s| s.name == "provisioner").context("a provisioner")?;
    provisioner.stop(&scene.stack)?;
    scene.claims().create(&PostParams::default(), &copy).await?;
    let patch = Patch::Merge(json!({"status": status}));
    scene.claims().patch_status(&name, &PatchParams::default(), &patch).await?;
    Service::start(&scene.stack, "provisioner", provisioner.replica, &[])?;

    scene.workload.scale("app", 0).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    // The one that nothing is odd about goes.
    eventually("the plain node to be gone", || async {
        Ok((!scene.node_names().await?.contains(plain)).then_some(()))
    })
    .await?;
    scene.held_by(tainted, "foreign-taint", "by-hand").await?;
    scene.held_by(twice, "conflicting-claims", &name).await?;
    scene.event_about(tainted, "DisruptionBlocked", "by-hand").await?;
    let left = scene.node_names().await?;
    ensure!(left == BTreeSet::from([tainted.clone(), twice.clone()]), "{left:?}");
    let node = scene.nodes().get(tainted).await?;
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    ensure!(taints.iter().any(|t| t.value.as_deref() == Some("by-hand")), "it is not ours to take off");

    // Told apart again, both go. A claim without an instance of its own must not take the other's along.
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    scene.claims().patch(&name, &PatchParams::default(), &patch).await?;
    let _ = scene.claims().delete(&name, &DeleteParams::default()).await;
    let patch = Patch::Merge(json!({"spec": {"taints": null}}));
    scene.nodes().patch(tainted, &PatchParams::default(), &patch).await?;
    scene.left(&BTreeSet::new()).await?;
    scene.end().await
}

// Cases: CEV-4
async fn a_node_that_cannot_be_priced_is_not_consolidated(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "unpriced", on_demand(pool(json!({"consolidateAfter": "Never"})))).await?;
    scene.workload.deploy("large", 1, "12", json!({})).await?;
    scene.workload.running("large", 1).await?;
    scene.workload.deploy("small", 1, "500m", json!({})).await?;
    let node = scene.workload.running("small", 1).await?.remove(0);
    // No catalogue has it.
    let patch = Patch::Merge(json!({"metadata": {"labels": {labels::INSTANCE_TYPE: "x9.unheard-of"}}}));
    scene.nodes().patch(&node, &PatchParams::default(), &patch).await?;
    scene.workload.scale("large", 0).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    scene.held_by(&node, "no-price", "x9.unheard-of").await?;
    scene.event_about(&node, "Unconsolidatable", "x9.unheard-of").await?;
    ensure!(scene.node_names().await? == BTreeSet::from([node.clone()]), "it stays");
    // Empty it goes: that asks no price.
    scene.workload.scale("small", 0).await?;
    scene.left(&BTreeSet::new()).await?;
    scene.end().await
}

// Cases: CAND-25
async fn a_node_that_somebody_else_deletes_is_theirs(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "theirs", pool(json!({"consolidateAfter": "Never"}))).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    scene.bind("keeper", &node, json!({labels::DO_NOT_DISRUPT: "true"})).await?;
    scene.nodes().delete(&node, &DeleteParams::default()).await?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    scene.held_by(&node, "leaving", "").await?;
    let claims = scene.workload.claims().await?;
    let noted = |c: &api::NodeClaim| kube::ResourceExt::annotations(c).contains_key(labels::COMMAND);
    ensure!(!claims.iter().any(noted), "no command takes it: {claims:?}");
    ensure!(scene.commands().await?.iter().all(|c| !c.remove_nodes.contains(&node)), "no command takes it");
    scene.pods().delete("keeper", &DeleteParams::default()).await?;
    eventually("the node to be gone", || async {
        Ok((!scene.node_names().await?.contains(&node)).then_some(()))
    })
    .await?;
    scene.end().await
}

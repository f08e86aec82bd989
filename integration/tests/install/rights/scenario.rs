//! One day in a cluster, short: everything that makes the services use their rights.

use anyhow::{Context, Result};
use integration::rpc::grpcurl;
use integration::workload::Workload;
use integration::{Service, Stack, aws, eventually};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::iam::Calls;

const GATES: &str = "--feature-gates=NodeOverlay=true,NodeRepair=true";

pub(super) async fn play(stack: &Stack) -> Result<Calls> {
    aws::delete(stack, "/calls")?;
    let pricing = Service::start(stack, "pricing-cache", 0, &[GATES, "--enable-zonal-shift"])?;
    let provisioner = Service::start(stack, "provisioner", 0, &[GATES])?;
    let running = [
        Service::start(stack, "termination", 0, &[GATES])?,
        Service::start(stack, "disruption", 0, &[GATES])?,
        Service::start(
            stack,
            "interruption-watcher",
            0,
            &[GATES, "--manage-rules", "--instance-status-interval=2s"],
        )?,
    ];

    people_ask(stack, &pricing).await?;
    overlays_are_judged(stack).await?;
    let class = json!({"capacityReservationSelectorTerms": [{"tags": {"purpose": "rights"}}]});
    let workload = Workload::new(stack, "rights", json!({}), class).await?;
    grow(&workload).await?;
    shrink(stack, &workload).await?;
    consolidate(&workload).await?;
    class_changes(&workload).await?;
    // Its budget would hold the last node for ever: nothing can replace the pods of a pool that goes.
    workload.deployments().delete("app", &DeleteParams::default()).await?;
    workload.remove().await?;
    let classes: Api<api::EC2NodeClass> = Api::all(workload.client.clone());
    eventually("the class to be gone, with its templates and profile", || async {
        Ok(classes.get_opt(&workload.name).await?.is_none().then_some(()))
    })
    .await?;
    let calls = Calls::read(stack)?;

    for service in running.iter().chain([&provisioner, &pricing]) {
        service.stop(stack)?;
    }
    Ok(calls)
}

/// Reads need a token; what changes something needs a grant, which the operator of the local stack has.
async fn people_ask(stack: &Stack, pricing: &Service) -> Result<()> {
    let token = stack.token("operator", &[&runtime::Service::PricingCache.audience()]).await?;
    for method in ["ListUnavailable", "ReportUnavailable"] {
        let method = format!("karpenter.pricingcache.v1.PricingCache/{method}");
        let answer = grpcurl(stack, Some(&token), &["-d", "{}", &pricing.grpc, &method])?;
        let said = String::from_utf8_lossy(&answer.stderr).into_owned();
        anyhow::ensure!(
            !said.contains("PermissionDenied") && !said.contains("Unauthenticated"),
            "{method}: {said}"
        );
    }
    Ok(())
}

async fn overlays_are_judged(stack: &Stack) -> Result<()> {
    let overlays: Api<api::NodeOverlay> = Api::all(stack.admin().await?);
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "rights"},
        "spec": {
            "requirements": [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["x2idn"]}],
            "priceAdjustment": "+5%",
        },
    });
    overlays.create(&PostParams::default(), &serde_json::from_value(overlay)?).await?;
    eventually("a verdict on the overlay", || async {
        let conditions =
            overlays.get("rights").await?.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok((!conditions.is_empty()).then_some(()))
    })
    .await?;
    overlays.delete("rights", &DeleteParams::default()).await?;
    Ok(())
}

async fn grow(workload: &Workload) -> Result<()> {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(workload.client.clone(), &workload.name);
    let budget = json!({
        "metadata": {"name": "app"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "app"}}},
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
    workload.deploy("app", 6, "1500m", json!({})).await?;
    workload.running("app", 6).await?;
    Ok(())
}

/// A claim and a node are deleted, one instance is interrupted: pods are evicted within their budget.
async fn shrink(stack: &Stack, workload: &Workload) -> Result<()> {
    let claims: Api<api::NodeClaim> = Api::all(workload.client.clone());
    let nodes: Api<Node> = Api::all(workload.client.clone());
    let doomed = workload.claims().await?;
    let first = doomed.first().context("a claim")?.name_any();
    claims.delete(&first, &DeleteParams::default()).await?;
    gone(&claims, &first).await?;
    let second = workload.nodes().await?.into_keys().next().context("a node")?;
    nodes.delete(&second, &DeleteParams::default()).await?;
    eventually("the node to be gone", || async { Ok(nodes.get_opt(&second).await?.is_none().then_some(())) })
        .await?;
    workload.running("app", 6).await?;
    // EC2 takes one back, and confirms it.
    let third = workload.claims().await?.into_iter().next().context("a claim")?;
    let instance =
        third.status.as_ref().and_then(|status| status.provider_id.clone()).context("provider id")?;
    let instance = instance.rsplit('/').next().unwrap_or_default().to_owned();
    let warned = json!({"ids": [instance], "kind": "spot", "terminate": false});
    aws::post(stack, "/interrupt", &warned)?;
    gone(&claims, &third.name_any()).await?;
    workload.running("app", 6).await?;
    Ok(())
}

/// Most pods go; their nodes follow, emptied or replaced.
async fn consolidate(workload: &Workload) -> Result<()> {
    let pools: Api<api::NodePool> = Api::all(workload.client.clone());
    let eager = json!({"spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}});
    pools.patch(&workload.name, &PatchParams::default(), &Patch::Merge(&eager)).await?;
    let before = workload.claims().await?.len();
    workload.scale("app", 1).await?;
    eventually("nodes to be given up", || async {
        Ok((workload.claims().await?.len() < before).then_some(()))
    })
    .await
}

async fn gone(claims: &Api<api::NodeClaim>, name: &str) -> Result<()> {
    eventually("the claim to be gone", || async { Ok(claims.get_opt(name).await?.is_none().then_some(())) })
        .await
}

async fn class_changes(workload: &Workload) -> Result<()> {
    let classes: Api<api::EC2NodeClass> = Api::all(workload.client.clone());
    let patch: Value = json!({"spec": {"tags": {"team": "platform"}}});
    classes.patch(&workload.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    eventually("the class to be ready again", || async {
        let class = classes.get(&workload.name).await?;
        let generation = class.metadata.generation;
        let conditions = class.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().find(|each| each.type_ == "Ready");
        Ok(ready.filter(|ready| ready.observed_generation == generation).map(drop))
    })
    .await
}

//! Nodes that are alike are launched together: few fleet requests, and still one instance a claim, throttled or killed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use kube::ResourceExt as _;
use model::labels;
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning", alone, thirty_nodes_under_throttling_take_few_fleet_requests),
        test!("provisioning", alone, a_kill_during_a_shared_launch_leaves_one_instance_a_claim),
    ]
}

/// Instances of the workload's pool that are not on their way out.
pub(crate) fn instances(stack: &Stack, workload: &Workload) -> Result<Vec<Value>> {
    let mut all = aws::get(stack, "/instances?state=running")?;
    let all = all["instances"].as_array_mut().map(std::mem::take).context("a list of instances")?;
    Ok(all.into_iter().filter(|i| i["tags"][labels::NODEPOOL] == workload.name.as_str()).collect())
}

/// Each claim names one instance, each instance is named by one claim.
pub(crate) async fn one_instance_a_claim(stack: &Stack, workload: &Workload) -> Result<()> {
    let running: BTreeSet<String> =
        instances(stack, workload)?.iter().filter_map(|i| i["id"].as_str().map(str::to_owned)).collect();
    let claims = workload.claims().await?;
    let id = |provider: &str| provider.rsplit('/').next().unwrap_or_default().to_owned();
    let named: BTreeSet<String> =
        claims.iter().filter_map(|claim| Some(id(claim.status.as_ref()?.provider_id.as_deref()?))).collect();
    ensure!(named.len() == claims.len(), "{} claims name {} instances", claims.len(), named.len());
    ensure!(named == running, "claims name {named:?}, there are {running:?}");
    Ok(())
}

/// Room for one pod a node.
async fn workload(stack: &Stack) -> Result<Workload> {
    let small = json!({"template": {"spec": {"requirements": [
        {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "c5.large"]},
    ]}}});
    Workload::new(stack, "alike", small, json!({})).await
}

fn start(stack: &Stack) -> Result<Service> {
    for name in ["pricing-cache", "termination"] {
        Service::start(stack, name, 1, &[])?;
    }
    Service::start(stack, "provisioner", 1, &[])
}

async fn thirty_nodes_under_throttling_take_few_fleet_requests(stack: Stack) -> Result<()> {
    const NODES: u32 = 30;
    let provisioner = start(&stack)?;
    let workload = workload(&stack).await?;
    aws::put(&stack, "/throttle", &json!({"action": "CreateFleet", "rate": 1, "burst": 2}))?;
    workload.deploy("app", NODES, "1500m", json!({})).await?;
    workload.running("app", NODES as usize).await?;
    aws::delete(&stack, "/throttle")?;
    let claims = workload.claims().await?;
    ensure!(claims.len() == NODES as usize, "{} claims for {NODES} pods", claims.len());
    one_instance_a_claim(&stack, &workload).await?;

    let fleets: BTreeSet<String> = instances(&stack, &workload)?
        .iter()
        .map(|i| i["tags"]["aws:ec2:fleet-id"].as_str().unwrap_or_default().to_owned())
        .collect();
    // Batches of 8, 16 and 6 when all pods were seen together; a few more when the Deployment made them slowly.
    ensure!(!fleets.contains("") && fleets.len() <= 10, "{NODES} nodes by {} fleet requests", fleets.len());
    let batched = |what: &str| {
        let name = format!("karpenter_cloudprovider_batcher_batch_size_{what}");
        provisioner.metric(&name, "batcher=\"create_fleet\"")
    };
    ensure!(batched("count")? < batched("sum")?, "no claims shared a request");

    eventually("the instances to carry their claims' names", || async {
        let instances = instances(&stack, &workload)?;
        let is_tagged = |claim: &api::NodeClaim| {
            let provider_id = claim.status.as_ref().and_then(|s| s.provider_id.clone()).unwrap_or_default();
            let own = instances.iter().find(|i| i["id"].as_str().is_some_and(|id| provider_id.ends_with(id)));
            own.is_some_and(|i| i["tags"]["karpenter.sh/nodeclaim"] == claim.name_any())
        };
        Ok(claims.iter().all(is_tagged).then_some(()))
    })
    .await?;
    workload.remove().await
}

/// CreateFleet answers slowly and EC2 shows instances late, so the kill falls between the request and every claim's status.
async fn a_kill_during_a_shared_launch_leaves_one_instance_a_claim(stack: Stack) -> Result<()> {
    const NODES: u32 = 12;
    let mut provisioner = start(&stack)?;
    let workload = workload(&stack).await?;
    aws::put(&stack, "/latency", &json!({"action": "CreateFleet", "ms": 1500}))?;
    aws::put(&stack, "/settings", &json!({"visibleAfterMs": 4000}))?;
    workload.deploy("app", NODES, "1500m", json!({})).await?;
    let mut kills = 0;
    while kills < 3 {
        let unknown = eventually("instances that no claim knows of", || async {
            let named = workload.claims().await?.iter().filter(|c| is_launched(c)).count();
            let unknown = instances(&stack, &workload)?.len() > named;
            Ok((unknown || named == NODES as usize).then_some(unknown))
        })
        .await?;
        if !unknown {
            break;
        }
        provisioner.kill(&stack)?;
        provisioner = Service::start(&stack, "provisioner", 1, &[])?;
        kills += 1;
    }
    ensure!(kills > 0, "every claim knew its instance at once, nothing was tried");
    aws::delete(&stack, "/latency")?;
    workload.running("app", NODES as usize).await?;
    aws::put(&stack, "/settings", &json!({"visibleAfterMs": 0}))?;
    one_instance_a_claim(&stack, &workload).await?;
    let claims = workload.claims().await?;
    ensure!(claims.len() == NODES as usize, "{} claims for {NODES} pods", claims.len());
    workload.remove().await
}

fn is_launched(claim: &api::NodeClaim) -> bool {
    claim.status.as_ref().and_then(|s| s.provider_id.as_deref()).is_some_and(|id| !id.is_empty())
}

//! NodeOverlays decide what is planned and what is launched: resources that EC2 does not report, prices that it does not know.

use anyhow::{Context, Result, ensure};
use api::{NodeClaim, NodeOverlay, conditions};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use model::labels;
use serde_json::{Value, json};

use crate::provisioning::stop;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning_overlays", alone, a_resource_of_an_overlay_is_launched_once_and_used),
        test!("provisioning_overlays", alone, the_launch_follows_the_prices_of_an_overlay),
    ]
}

const GATE: &str = "--feature-gates=NodeOverlay=true";
const DEVICE: &str = "example.com/dongle";

fn services(stack: &Stack) -> Result<Vec<Service>> {
    let start = |name: &str| Service::start(stack, name, 1, &[GATE]);
    Ok(vec![start("pricing-cache")?, start("provisioner")?, start("termination")?])
}

/// Sizes of equal cores, on demand, so that only prices decide between the families.
fn pool(families: &[&str]) -> Value {
    json!({"template": {"spec": {"requirements": [
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels::INSTANCE_FAMILY, "operator": "In", "values": families},
        {"key": labels::INSTANCE_SIZE, "operator": "In", "values": ["large"]},
    ]}}})
}

/// An overlay on the pool of the workload, accepted.
async fn overlay(workload: &Workload, more: Value, change: Value) -> Result<()> {
    let mut requirements =
        vec![json!({"key": labels::NODEPOOL, "operator": "In", "values": [workload.name]})];
    requirements.extend(more.as_array().into_iter().flatten().cloned());
    let mut object = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": workload.name},
        "spec": change,
    });
    object["spec"]["requirements"] = json!(requirements);
    let overlays: Api<NodeOverlay> = Api::all(workload.client.clone());
    overlays.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    eventually("the overlay to be accepted", || async {
        let all = overlays.get(&workload.name).await?.status.and_then(|s| s.conditions).unwrap_or_default();
        Ok(conditions::is_true(&all, conditions::READY).then_some(()))
    })
    .await
}

async fn remove(workload: &Workload) -> Result<()> {
    workload.remove().await?;
    let overlays: Api<NodeOverlay> = Api::all(workload.client.clone());
    overlays.delete(&workload.name, &DeleteParams::default()).await?;
    Ok(())
}

/// The only claim, once its node has registered.
async fn registered(workload: &Workload) -> Result<NodeClaim> {
    eventually("one claim to register its node", || async {
        let claims = workload.claims().await?;
        ensure!(claims.len() <= 1, "{} claims for one pod", claims.len());
        let named = |claim: &NodeClaim| claim.status.as_ref().is_some_and(|s| s.node_name.is_some());
        Ok(claims.into_iter().find(named))
    })
    .await
}

fn is_noted(claim: &NodeClaim, key: &str) -> bool {
    claim.annotations().get(key).is_some_and(|value| value == labels::TRUE)
}

// Cases: SCH-O-54
async fn a_resource_of_an_overlay_is_launched_once_and_used(stack: Stack) -> Result<()> {
    let running = services(&stack)?;
    let workload = Workload::new(&stack, "overlaid-capacity", pool(&["m5"]), json!({})).await?;
    overlay(&workload, json!([]), json!({"capacity": {DEVICE: "2"}})).await?;
    let resources = json!({"requests": {"cpu": "1", DEVICE: "1"}, "limits": {DEVICE: "1"}});
    let pod = json!({"containers": [{"name": "app", "image": "pause", "resources": resources}]});
    workload.deploy("app", 1, "1", pod).await?;
    let claim = registered(&workload).await?;
    let status = claim.status.as_ref().context("a status")?;
    for (what, list) in [("capacity", &status.capacity), ("allocatable", &status.allocatable)] {
        let amount = list.as_ref().and_then(|all| all.get(DEVICE)).map(ToString::to_string);
        ensure!(amount.as_deref() == Some("2"), "{what}: {list:?}");
    }
    ensure!(is_noted(&claim, labels::CAPACITY_OVERLAY_APPLIED), "{:?}", claim.annotations());
    ensure!(!is_noted(&claim, labels::PRICE_OVERLAY_APPLIED), "{:?}", claim.annotations());

    // The device plugin of the node reports what the overlay foretold.
    let nodes: Api<Node> = Api::all(workload.client.clone());
    let node = status.node_name.clone().context("a node")?;
    let reported = json!({"status": {"capacity": {DEVICE: "2"}, "allocatable": {DEVICE: "2"}}});
    nodes.patch_status(&node, &PatchParams::default(), &Patch::Merge(reported)).await?;
    ensure!(workload.running("app", 1).await? == [node], "the pod runs elsewhere");
    let created = running[1]
        .metric("karpenter_nodeclaims_created_total", &format!("nodepool=\"{}\"", workload.name))?;
    ensure!(created == 1.0, "{created} claims were made for one pod");
    remove(&workload).await?;
    stop(&stack, &running)
}

// Cases: SCH-O-35, SCH-O-36
async fn the_launch_follows_the_prices_of_an_overlay(stack: Stack) -> Result<()> {
    let running = services(&stack)?;
    let workload = Workload::new(&stack, "overlaid-price", pool(&["c5", "m5"]), json!({})).await?;
    // The overlay applies to the whole cluster: it must not outlive a failure.
    let outcome = launched_by_overlaid_price(&stack, &workload).await;
    remove(&workload).await?;
    outcome?;
    stop(&stack, &running)
}

async fn launched_by_overlaid_price(stack: &Stack, workload: &Workload) -> Result<()> {
    let dearer = json!([{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}]);
    overlay(workload, dearer, json!({"price": "0.01"})).await?;
    let before = aws::get(stack, "/calls?limit=1")?["requests"][0]["n"].as_i64().unwrap_or(0);
    workload.deploy("app", 1, "1", json!({})).await?;
    let claim = registered(workload).await?;
    let launched = claim.labels().get(labels::INSTANCE_TYPE).map(String::as_str);
    ensure!(launched == Some("m5.large"), "{launched:?} was launched, c5.large being cheaper for EC2 only");
    ensure!(is_noted(&claim, labels::PRICE_OVERLAY_APPLIED), "{:?}", claim.annotations());
    ensure!(!is_noted(&claim, labels::CAPACITY_OVERLAY_APPLIED), "{:?}", claim.annotations());
    let calls = aws::get(stack, &format!("/calls?action=CreateFleet&since={before}&limit=1000"))?;
    let calls = calls["requests"].as_array().context("a list of calls")?;
    // Dry runs are answered with an error.
    let launches: Vec<String> =
        calls.iter().filter(|call| call["status"] == 200).map(|call| call["params"].to_string()).collect();
    let in_order = |call: &String| call.contains("\"AllocationStrategy\":\"prioritized\"");
    ensure!(!launches.is_empty() && launches.iter().all(in_order), "{launches:?}");
    Ok(())
}

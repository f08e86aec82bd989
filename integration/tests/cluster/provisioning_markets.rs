//! What can be bought decides: pools by weight and limits, capacity that EC2 has none of, and its return.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::NodePool;
use integration::workload::Workload;
use integration::{Stack, Test, aws, test};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use model::labels;
use serde_json::{Value, json};

use crate::provisioning::{services, stop};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning_markets", alone, spot_that_is_exhausted_becomes_on_demand_in_the_same_launch),
        test!(
            "provisioning_markets",
            alone,
            a_pool_that_is_exhausted_or_full_hands_over_to_the_next_by_weight
        ),
        test!("provisioning_markets", soak, spot_is_bought_again_once_its_shortage_is_over),
    ]
}

/// Long enough that a second window could not be mistaken for the first one's remainder.
const WINDOW: &str = "--batch-idle-duration=8s";
const WINDOW_SECONDS: f64 = 8.0;

/// No spot of these families. Each test has its own: what cannot be had is remembered for minutes.
fn no_spot(families: &[&str]) -> Value {
    let pool =
        |family: &&str| json!({"capacityType": "spot", "instanceType": format!("{family}.*"), "zone": "*"});
    json!({"pools": families.iter().map(pool).collect::<Vec<_>>()})
}

fn requirements(capacity_types: &[&str], families: &[&str]) -> Value {
    json!([
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": capacity_types},
        {"key": labels::INSTANCE_FAMILY, "operator": "In", "values": families},
    ])
}

fn template(capacity_types: &[&str], families: &[&str]) -> Value {
    json!({"spec": {"requirements": requirements(capacity_types, families)}})
}

async fn labels_of_nodes(workload: &Workload, names: &[String], key: &str) -> Result<BTreeSet<String>> {
    let nodes = workload.all_nodes().await?;
    let value =
        |name: &String| nodes.get(name).and_then(|n| n.labels().get(key).cloned()).unwrap_or_default();
    Ok(names.iter().map(value).collect())
}

/// A claim that allows both ways of buying is not given up when one of them has nothing.
async fn spot_that_is_exhausted_becomes_on_demand_in_the_same_launch(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let families = ["m5a", "c5a"];
    aws::put(&stack, "/ice", &no_spot(&families))?;
    let pool = json!({"template": template(&["spot", "on-demand"], &families)});
    let workload = Workload::new(&stack, "exhausted", pool, json!({})).await?;
    workload.deploy("app", 4, "1", json!({})).await?;
    let nodes = workload.running("app", 4).await?;
    aws::delete(&stack, "/ice")?;
    let bought = labels_of_nodes(&workload, &nodes, labels::CAPACITY_TYPE).await?;
    ensure!(bought == BTreeSet::from(["on-demand".to_owned()]), "{bought:?}");
    let created = running[1]
        .metric("karpenter_nodeclaims_created_total", &format!("nodepool=\"{}\"", workload.name))?;
    let claims = workload.claims().await?.len();
    ensure!(created as usize == claims, "{created} claims were made for {claims} nodes: one was given up");
    let given_up = running[1].metric("karpenter_nodeclaims_disrupted_total", "insufficient_capacity")?;
    ensure!(given_up == 0.0, "{given_up} claims were given up");
    let failed = running[1].metric("karpenter_cloudprovider_instance_launch_failures_total", "spot")?;
    ensure!(failed > 0.0, "EC2's refusals are not counted");
    workload.remove().await?;
    stop(&stack, &running)
}

/// Time of the first CreateFleet after call number `since` that buys this way, in seconds.
fn fleet_call(stack: &Stack, since: i64, default_type: &str) -> Result<f64> {
    let calls = aws::get(stack, &format!("/calls?action=CreateFleet&since={since}&limit=1000"))?;
    let calls = calls["requests"].as_array().context("a list of calls")?;
    let buys = format!("\"DefaultTargetCapacityType\":\"{default_type}\"");
    // Dry runs are answered with an error.
    let found = calls.iter().find(|call| call["status"] == 200 && call["params"].to_string().contains(&buys));
    found
        .and_then(|call| call["time"].as_f64())
        .with_context(|| format!("no {default_type} call in {calls:?}"))
}

/// The heavier pool buys spot only and may have few cores; the lighter one buys on demand.
async fn a_pool_that_is_exhausted_or_full_hands_over_to_the_next_by_weight(stack: Stack) -> Result<()> {
    let running = services(&stack, &[WINDOW])?;
    let families = ["m6i", "c6i"];
    let first = json!({"weight": 80, "limits": {"cpu": "8"}, "template": template(&["spot"], &families)});
    let workload = Workload::new(&stack, "weighted", first, json!({})).await?;
    let pools: Api<NodePool> = Api::all(workload.client.clone());
    let mut second = serde_json::to_value(pools.get(&workload.name).await?)?;
    let fallback = format!("{}-fallback", workload.name);
    second["metadata"] = json!({"name": fallback});
    second["status"] = Value::Null;
    second["spec"]["weight"] = json!(10);
    second["spec"].as_object_mut().context("a spec")?.remove("limits");
    second["spec"]["template"]["spec"]["requirements"] = requirements(&["on-demand"], &families);
    pools.create(&PostParams::default(), &serde_json::from_value(second)?).await?;

    // Full: what the limit leaves goes to the first pool, the rest to the second, in one decision.
    workload.deploy("full", 16, "1", json!({})).await?;
    let nodes = workload.running("full", 16).await?;
    let used = labels_of_nodes(&workload, &nodes, labels::NODEPOOL).await?;
    ensure!(used == BTreeSet::from([workload.name.clone(), fallback.clone()]), "{used:?}");
    let pool = pools.get(&workload.name).await?;
    let cores = pool.status.and_then(|s| s.resources).and_then(|all| all.get("cpu").map(ToString::to_string));
    let cores: i64 = cores.context("cores in the pool's status")?.parse()?;
    ensure!((1..=8).contains(&cores), "{cores} cores in a pool that may have 8");

    // Exhausted: the limit is out of the way, EC2 has no spot.
    let calls = aws::get(&stack, "/calls?limit=1")?;
    let since = calls["requests"][0]["n"].as_i64().unwrap_or(0);
    let unlimited = kube::api::Patch::Merge(json!({"spec": {"limits": {"cpu": "1000"}}}));
    pools.patch(&workload.name, &kube::api::PatchParams::default(), &unlimited).await?;
    aws::put(&stack, "/ice", &no_spot(&families))?;
    workload.deploy("short", 6, "2", json!({})).await?;
    let nodes = workload.running("short", 6).await?;
    aws::delete(&stack, "/ice")?;
    let used = labels_of_nodes(&workload, &nodes, labels::NODEPOOL).await?;
    ensure!(used == BTreeSet::from([fallback.clone()]), "{used:?}");
    let waited = fleet_call(&stack, since, "on-demand")? - fleet_call(&stack, since, "spot")?;
    ensure!(
        (0.0..WINDOW_SECONDS).contains(&waited),
        "{waited} s between the two: pods waited for another window"
    );

    pools.delete(&fallback, &DeleteParams::default()).await?;
    workload.remove_with(&[&fallback]).await?;
    stop(&stack, &running)
}

/// The shortage is remembered for three minutes, in which nobody asks EC2 for spot; then it is.
async fn spot_is_bought_again_once_its_shortage_is_over(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let families = ["r6i", "r5a"];
    aws::put(&stack, "/ice", &no_spot(&families))?;
    let pool = json!({"template": template(&["spot", "on-demand"], &families)});
    let workload = Workload::new(&stack, "shortage", pool, json!({})).await?;
    workload.deploy("before", 1, "1", json!({})).await?;
    let nodes = workload.running("before", 1).await?;
    aws::delete(&stack, "/ice")?;
    ensure!(labels_of_nodes(&workload, &nodes, labels::CAPACITY_TYPE).await?.contains("on-demand"));
    workload.deploy("during", 1, "1500m", json!({})).await?;
    let nodes = workload.running("during", 1).await?;
    ensure!(
        labels_of_nodes(&workload, &nodes, labels::CAPACITY_TYPE).await?.contains("on-demand"),
        "spot was asked for while its shortage was remembered"
    );
    let cheapest = |name: String| {
        let workload = &workload;
        async move {
            workload.deploy(&name, 1, "1500m", json!({})).await?;
            let nodes = workload.running(&name, 1).await?;
            labels_of_nodes(workload, &nodes, labels::CAPACITY_TYPE).await
        }
    };
    let mut round = 0;
    loop {
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        round += 1;
        if cheapest(format!("after-{round}")).await?.contains("spot") {
            break;
        }
        ensure!(round < 20, "spot is not bought again ten minutes after its shortage");
    }
    workload.remove().await?;
    stop(&stack, &running)
}

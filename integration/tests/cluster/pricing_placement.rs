//! A placement group from the node class to the node: only types that EC2 lets into such a group are offered, and the node says in
//! which partition it is.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::EC2NodeClass;
use integration::workload::Workload;
use integration::{Stack, Test, aws, eventually, test};
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;

use crate::pricing_scene::forget_everything;
use crate::provisioning::{services, stop};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("pricing_placement", alone, nodes_of_a_class_with_a_placement_group_are_launched_into_it)]
}

const GROUP: &str = "karpenter.k8s.aws/placement-group-id";
const PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

async fn nodes_of_a_class_with_a_placement_group_are_launched_into_it(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let made = aws::put(
        &stack,
        "/placement-group",
        &json!({"name": "racks", "strategy": "partition", "partitions": 3}),
    )?;
    let id = made["id"].as_str().context("an id")?.to_owned();
    let running = services(&stack, &[])?;
    let class = json!({"placementGroupSelector": {"name": "racks"}});
    let workload = Workload::new(&stack, "racks", json!({}), class).await?;
    let classes: Api<EC2NodeClass> = Api::all(workload.client.clone());
    eventually("the placement group to be resolved", || async {
        let status = classes.get(&workload.name).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "PlacementGroupReady");
        Ok(ready.filter(|c| c.status.as_str() == "True").map(drop))
    })
    .await?;
    workload.deploy("app", 2, "1", json!({})).await?;
    let names: BTreeSet<String> = workload.running("app", 2).await?.into_iter().collect();
    let nodes = workload.all_nodes().await?;
    for name in &names {
        let labels = nodes.get(name).context("the node")?.labels();
        ensure!(labels.get(GROUP) == Some(&id), "{name} is in {:?}, not in {id}", labels.get(GROUP));
        let partition = labels.get(PARTITION).map(String::as_str);
        ensure!(matches!(partition, Some("1" | "2" | "3")), "{name} is in partition {partition:?}");
    }
    workload.deployments().delete("app", &Default::default()).await?;
    workload.remove().await?;
    stop(&stack, &running)
}

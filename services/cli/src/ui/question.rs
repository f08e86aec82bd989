//! What-if questions of the page, asked of the provisioner. They change nothing in the cluster.

use anyhow::{Context as _, Result, bail};
use proto::provisioner::v1 as pb;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::types::v1 as types;
use runtime::Service;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Sources;
use super::convert::{capacity_type, pod_name};
use crate::connect::{Transport, explain};

const LARGEST_ANSWER: usize = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Removal {
    remove: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    namespace: String,
    name: String,
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// YAML or JSON, several documents.
    #[serde(default)]
    objects: String,
    /// Nodes to leave out.
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    consolidate: bool,
}

pub(super) async fn client(sources: &Sources) -> Result<ProvisionerClient<Transport>> {
    let transport = sources.transport(Service::Provisioner).await?;
    Ok(ProvisionerClient::new(transport).max_decoding_message_size(LARGEST_ANSWER))
}

pub(super) async fn simulate(sources: &Sources, asked: &[u8]) -> Result<Value> {
    let Removal { remove } = serde_json::from_slice(asked).context("read the question")?;
    if remove.is_empty() {
        bail!("name the nodes that would go");
    }
    // Drift's rules: every destination is open, as when a person takes the nodes away.
    let purpose = pb::SimulationPurpose::Drift.into();
    let request = pb::SimulateRequest { remove_nodes: remove, purpose, ..pb::SimulateRequest::default() };
    let reply =
        client(sources).await?.simulate(request).await.map_err(|status| explain(&status))?.into_inner();
    Ok(json!({
        "removed": reply.removed_micro_usd_per_hour,
        "added": reply.added_micro_usd_per_hour,
        "newNodes": reply.new_nodes.iter().map(planned).collect::<Vec<_>>(),
        "placements": placements(&reply.placements),
        "unschedulable": reply.unschedulable.iter().map(left_over).collect::<Vec<_>>(),
        "notReached": reply.not_reached.iter().map(|pod| pod_name(Some(pod))).collect::<Vec<_>>(),
    }))
}

/// The rule that blocks a pod, per NodePool and per node.
pub(super) async fn explain_pod(sources: &Sources, asked: &[u8]) -> Result<Value> {
    let Waiting { namespace, name, uid } = serde_json::from_slice(asked).context("read the question")?;
    let request = pb::ExplainPodRequest { pod: Some(types::PodRef { namespace, name, uid }) };
    let reply =
        client(sources).await?.explain_pod(request).await.map_err(|status| explain(&status))?.into_inner();
    Ok(json!({
        "summary": reply.summary,
        "node": reply.node,
        "planned": reply.planned.as_ref().map(planned),
        "pools": reply.rejections.iter().map(|r| json!([r.node_pool, r.rule, r.detail])).collect::<Vec<_>>(),
        "nodes": reply.node_rejections.iter().map(|r| json!([r.node, r.rule, r.detail])).collect::<Vec<_>>(),
        "relaxed": reply.relaxed,
    }))
}

/// The plan, and beside it under `today` the one without any change: pods that wait now may need nodes too.
pub(super) async fn plan(sources: &Sources, asked: &[u8]) -> Result<Value> {
    let Change { objects, remove, consolidate } =
        serde_json::from_slice(asked).context("read the question")?;
    let request = pb::PlanRequest {
        objects_json: read_objects(&objects)?,
        remove_objects: remove.iter().map(|node| format!("Node/{node}")).collect(),
        consolidate,
        ..pb::PlanRequest::default()
    };
    let client = client(sources).await?;
    let (mut first, mut second) = (client.clone(), client);
    let (reply, today) = tokio::try_join!(first.plan(request), second.plan(pb::PlanRequest::default()))
        .map_err(|status| explain(&status))?;
    let (reply, today) = (reply.into_inner(), today.into_inner());
    Ok(json!({
        "today": {
            "added": today.micro_usd_per_hour,
            "newNodes": today.new_nodes.len(),
            "unschedulable": today.unschedulable.len(),
        },
        "added": reply.micro_usd_per_hour,
        "bound": reply.lower_bound_micro_usd_per_hour,
        "newNodes": reply.new_nodes.iter().map(planned).collect::<Vec<_>>(),
        "placements": placements(&reply.placements),
        "unschedulable": reply.unschedulable.iter().map(left_over).collect::<Vec<_>>(),
        "consolidation": reply.consolidation.map(|found| json!({
            "before": found.before_micro_usd_per_hour,
            "after": found.after_micro_usd_per_hour,
            "timedOut": found.timed_out,
            "commands": found.commands.iter().map(|command| json!({
                "reason": command.reason,
                "method": command.method,
                "remove": command.remove_nodes,
                "newNodes": command.new_nodes.iter().map(planned).collect::<Vec<_>>(),
                "moves": command.moves.len(),
                "moved": command.moves.iter().map(moved).collect::<Vec<_>>(),
                "saving": command.saving_micro_usd_per_hour,
            })).collect::<Vec<_>>(),
            "staying": found.staying.iter().map(|node| json!([node.node, node.reason])).collect::<Vec<_>>(),
        })),
    }))
}

fn planned(node: &types::PlannedNode) -> Value {
    let launch = node.launch.clone().unwrap_or_default();
    json!({
        "name": node.name,
        "pool": node.node_pool,
        "type": launch.instance_type,
        "zone": launch.zone,
        "cap": capacity_type(launch.capacity_type()),
        "price": launch.micro_usd_per_hour,
        "pods": node.pods.iter().map(|pod| pod_name(Some(pod))).collect::<Vec<_>>(),
    })
}

fn moved(each: &pb::PlannedMove) -> Value {
    json!([pod_name(each.pod.as_ref()), each.from, each.to])
}

fn placements(all: &[types::Placement]) -> Vec<Value> {
    all.iter().map(|each| json!([pod_name(each.pod.as_ref()), each.node])).collect()
}

fn left_over(pod: &types::Unschedulable) -> Value {
    json!([pod_name(pod.pod.as_ref()), pod.reason])
}

/// Documents of a text as JSON texts, the items of lists one by one.
fn read_objects(text: &str) -> Result<Vec<String>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("read the objects")?;
    let mut all = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            Value::Object(mut object) if object.get("kind").is_some_and(|kind| kind == "List") => {
                let Some(Value::Array(items)) = object.remove("items") else { continue };
                all.extend(items.iter().map(ToString::to_string));
            }
            Value::Object(_) => all.push(document.to_string()),
            other => bail!("expected a Kubernetes object, found {other}"),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_json_and_lists_are_read() {
        let read = |text: &str| read_objects(text).unwrap();
        assert_eq!(read("kind: Pod\n---\nkind: NodePool\n"), [r#"{"kind":"Pod"}"#, r#"{"kind":"NodePool"}"#]);
        assert_eq!(read(r#"{"kind": "List", "items": [{"kind": "Pod"}]}"#), [r#"{"kind":"Pod"}"#]);
        assert_eq!(read("  \n"), Vec::<String>::new());
        assert!(read_objects("just a word").is_err());
    }
}

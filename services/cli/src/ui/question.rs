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
use crate::plan::live::{Answers, Side};

const LARGEST_ANSWER: usize = 64 << 20;

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

/// What `plan --live` says, with its numbers.
pub(super) async fn plan(sources: &Sources, asked: &[u8]) -> Result<Value> {
    let Change { objects, remove, consolidate } =
        serde_json::from_slice(asked).context("read the question")?;
    let request = pb::PlanRequest {
        objects_json: read_objects(&objects)?,
        remove_objects: remove.iter().map(|node| format!("Node/{node}")).collect(),
        consolidate,
        ..pb::PlanRequest::default()
    };
    Ok(shown(&Answers::of(client(sources).await?, request).await?))
}

/// As the page reads it.
fn shown(Answers { today, awaited, changed, plan }: &Answers) -> Value {
    json!({
        "today": side(today),
        "awaited": awaited,
        "changed": side(changed),
        "newNodes": plan.new_nodes.iter().map(planned).collect::<Vec<_>>(),
        "placements": placements(&plan.placements),
        "unschedulable": plan.unschedulable.iter().map(left_over).collect::<Vec<_>>(),
        "consolidation": plan.consolidation.as_ref().map(|found| json!({
            "timedOut": found.timed_out,
            "commands": found.commands.iter().map(|command| json!({
                "reason": command.reason,
                "method": command.method,
                "remove": command.remove_nodes,
                "newNodes": command.new_nodes.iter().map(planned).collect::<Vec<_>>(),
                "moved": command.moves.iter().map(moved).collect::<Vec<_>>(),
                "saving": command.saving_micro_usd_per_hour,
            })).collect::<Vec<_>>(),
            "staying": found.staying.iter().map(|node| json!([node.node, node.reason])).collect::<Vec<_>>(),
        })),
    })
}

fn side(own: &Side) -> Value {
    json!({
        "nodes": own.nodes,
        "hourly": own.hourly.get(),
        "unschedulable": own.unschedulable,
        "bound": own.lower_bound.map(|bound| bound.get()),
        "consolidated": own.hourly_after_consolidation.map(|hourly| hourly.get()),
    })
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

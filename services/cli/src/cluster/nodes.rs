//! Nodes with what kubelets and controllers would have filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::convert::{self, NodeFacts};
use api::nodeclaim::NodeClaim;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::labels;

use crate::manifest::{InputError, Named, Objects, Sources};

pub(super) struct Nodes {
    pub(super) nodes: Vec<model::node::Node>,
    pub(super) held: BTreeSet<Arc<str>>,
}

pub(super) fn build(objects: &Objects, sources: &Sources) -> Result<Nodes, InputError> {
    let mut by_node: BTreeMap<&str, &Named<NodeClaim>> = BTreeMap::new();
    let mut by_provider: BTreeMap<&str, &Named<NodeClaim>> = BTreeMap::new();
    for claim in &objects.node_claims {
        let status = claim.object.status.as_ref();
        by_node.extend(status.and_then(|s| s.node_name.as_deref()).map(|name| (name, claim)));
        by_provider.extend(status.and_then(|s| s.provider_id.as_deref()).map(|id| (id, claim)));
    }
    let csi: BTreeMap<&str, _> = objects
        .csi_nodes
        .iter()
        .filter_map(|c| Some((c.object.metadata.name.as_deref()?, &c.object)))
        .collect();
    let mut built = Nodes { nodes: Vec::new(), held: BTreeSet::new() };
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for written in &objects.nodes {
        let node = completed(&written.object);
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let provider = node.spec.as_ref().and_then(|s| s.provider_id.as_deref());
        let found = provider.and_then(|id| by_provider.get(id)).or_else(|| by_node.get(name)).copied();
        used.extend(found.and_then(|claim| claim.object.metadata.name.as_deref()));
        let ours = label(&node, labels::NODEPOOL).is_some();
        let made = (ours && found.is_none()).then(|| claim_of(&node));
        let claim = found.map(|f| &f.object).or(made.as_ref()).filter(|_| ours);
        let converted = convert::node(Some(&node), claim, csi.get(name).copied(), NodeFacts::default())
            .map_err(|error| sources.conversion_error(written.origin, &error))?;
        let annotations = node.metadata.annotations.as_ref();
        let held = annotations.and_then(|a| a.get(labels::DO_NOT_DISRUPT)).is_some_and(|v| v == labels::TRUE);
        if let Some(converted) = converted {
            if held {
                built.held.insert(Arc::clone(&converted.name));
            }
            built.nodes.push(converted);
        }
    }
    for claim in &objects.node_claims {
        let name = claim.object.metadata.name.as_deref().unwrap_or_default();
        let launched = claim.object.status.as_ref().is_some_and(|s| s.provider_id.is_some());
        if used.contains(name) || !launched {
            continue;
        }
        let converted = convert::node(None, Some(&claim.object), None, NodeFacts::default())
            .map_err(|error| sources.conversion_error(claim.origin, &error))?;
        built.nodes.extend(converted);
    }
    Ok(built)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str)
}

/// Up and known to everybody, unless it says otherwise.
fn completed(node: &Node) -> Node {
    let mut node = node.clone();
    let name = node.metadata.name.clone().unwrap_or_default();
    let ours = label(&node, labels::NODEPOOL).is_some();
    let own = node.metadata.labels.get_or_insert_default();
    own.entry(labels::HOSTNAME.to_owned()).or_insert(name);
    if ours {
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            own.entry(key.to_owned()).or_insert_with(|| labels::TRUE.to_owned());
        }
    }
    let status = node.status.get_or_insert_default();
    if status.capacity.as_ref().is_none_or(BTreeMap::is_empty) {
        status.capacity.clone_from(&status.allocatable);
    }
    let conditions = status.conditions.get_or_insert_default();
    if !conditions.iter().any(|c| c.type_ == "Ready") {
        conditions.push(NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            ..Default::default()
        });
    }
    node
}

/// The claim that a node of ours must have had.
fn claim_of(node: &Node) -> NodeClaim {
    NodeClaim {
        metadata: ObjectMeta {
            name: node.metadata.name.clone(),
            labels: node.metadata.labels.clone(),
            ..Default::default()
        },
        ..Default::default()
    }
}

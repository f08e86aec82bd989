//! From manifests to the input of a decision: workloads become pods, and what a live cluster would have filled in is assumed.
//!
//! Nodes are ready, registered, initialised and long quiet unless their status says otherwise; a node of ours without a
//! NodeClaim gets one; a PodDisruptionBudget without status gets the one its pods imply; unbound pods are pending.

mod budgets;
mod buffers;
mod nodes;
mod pods;
mod storage;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::convert::{self, Specs, overlay};
use api::nodepool::NodePool;
use consolidation::PodIndex;
use jiff::Timestamp;
use model::catalog::InstanceType;
use model::pool::ClusterInput;

use crate::catalogue::Catalogue;
use crate::features::Features;
use crate::manifest::{InputError, Objects, Sources};

/// Input of a decision, and what consolidation must know beyond it.
pub struct Cluster {
    pub input: ClusterInput,
    /// Facts about pods that the solver does not need.
    pub facts: PodIndex,
    /// NodePools as written, by name.
    pub pools: BTreeMap<Arc<str>, Arc<NodePool>>,
    /// Nodes with `karpenter.sh/do-not-disrupt: "true"`.
    pub held_nodes: std::collections::BTreeSet<Arc<str>>,
    /// Things a person should know.
    pub remarks: Vec<String>,
}

/// `now` is what durations in annotations are measured against.
pub fn build(
    mut objects: Objects,
    sources: &Sources,
    catalogue: &Catalogue,
    features: &Features,
    now: Timestamp,
) -> Result<Cluster, InputError> {
    let mut remarks = Vec::new();
    let storage = storage::Storage::new(&mut objects);
    let priorities: BTreeMap<String, i32> = objects
        .priority_classes
        .iter()
        .map(|c| (c.object.metadata.name.clone().unwrap_or_default(), c.object.value))
        .collect();
    let priority_class = |name: &str| priorities.get(name).copied();
    let workloads = workloads::expand(&mut objects);
    let budgets = budgets::complete(&objects, &workloads, sources)?;

    let mut input = ClusterInput::default();
    let nodes = nodes::build(&objects, sources)?;
    let mut specs = Specs::default();
    let mut reader =
        pods::Reader::new(sources, &storage, &budgets, &priority_class, &mut specs, now, &nodes.nodes);
    for pod in &objects.pods {
        reader.add(pod)?;
    }
    for workload in &workloads {
        reader.add_workload(workload)?;
    }
    if features.capacity_buffer {
        reader.pods.extend(buffers::pods(&objects, sources)?);
    } else if !objects.capacity_buffers.is_empty() {
        remarks.push(off(objects.capacity_buffers.len(), "CapacityBuffer"));
    }
    remarks.extend(reader.remarks());
    let (pods, facts) = reader.finish();
    input.pods = pods;
    input.nodes = nodes.nodes;
    for set in &objects.daemon_sets {
        let newest = pods::newest_of(&set.object, &objects.pods);
        let converted = convert::daemon_set(&set.object, newest, &priority_class)
            .map_err(|error| sources.conversion_error(set.origin, &error))?;
        input.daemon_sets.push(converted);
    }
    let by_class = types_by_class(&objects, catalogue, &mut remarks);
    for pool in &objects.node_pools {
        let class = &pool.object.spec.template.spec.node_class_ref.name;
        let types = by_class.get(class.as_str()).unwrap_or(&catalogue.types);
        let converted = convert::node_pool(&pool.object, Arc::clone(types))
            .map_err(|error| sources.conversion_error(pool.origin, &error))?;
        input.pools.push(converted);
    }
    if features.node_overlay {
        let overlays = objects
            .node_overlays
            .iter()
            .map(|o| overlay::overlay(&o.object).map_err(|error| sources.conversion_error(o.origin, &error)))
            .collect::<Result<Vec<_>, _>>()?;
        let applied = overlay::apply(std::mem::take(&mut input.pools), &overlays);
        input.pools = applied.pools;
        remarks.extend(
            applied.conflicts.iter().map(|(name, why)| format!("NodeOverlay {name} left out: {why}")),
        );
    } else if !objects.node_overlays.is_empty() {
        remarks.push(off(objects.node_overlays.len(), "NodeOverlay"));
    }
    input.namespaces = objects
        .namespaces
        .iter()
        .map(|n| {
            let name = n.object.metadata.name.clone().unwrap_or_default();
            let mut labels = n.object.metadata.labels.clone().unwrap_or_default();
            labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| name.clone());
            (name, labels)
        })
        .collect();
    let pools = objects
        .node_pools
        .into_iter()
        .map(|p| (Arc::from(p.object.metadata.name.as_deref().unwrap_or_default()), Arc::new(p.object)))
        .collect();
    Ok(Cluster { input, facts, pools, held_nodes: nodes.held, remarks })
}

/// The types of each EC2NodeClass of the input; a class that is not there has the catalogue's own.
fn types_by_class<'a>(
    objects: &'a Objects,
    catalogue: &Catalogue,
    remarks: &mut Vec<String>,
) -> BTreeMap<&'a str, Arc<Vec<InstanceType>>> {
    let mut found = BTreeMap::new();
    for class in &objects.node_classes {
        let name = class.object.metadata.name.as_deref().unwrap_or_default();
        match catalogue.types_of(&class.object) {
            Some(types) => {
                found.insert(name, types);
            }
            None => remarks.push(format!(
                "EC2NodeClass {name} changes nothing: the types of --catalog have their capacity and overhead already"
            )),
        }
    }
    found
}

fn off(count: usize, kind: &str) -> String {
    format!("{count} {kind} objects ignored: turn them on with --feature-gates {kind}=true")
}

//! What is written on a NodeClaim. Pure; the reference's contents, and our annotations beside them.

use std::collections::BTreeMap;

use api::nodeclaim::{NodeClaim, NodeClaimSpec, ResourceRequirements};
use api::nodepool::NodePool;
use api::requirement::{Operator, Requirement as Written};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use model::labels;
use model::requirement::{self, Entry, Requirement};
use model::requirements::Requirements;
use model::resources::Resources;

/// A node to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewClaim {
    /// Of pool and pods combined.
    pub(crate) requirements: Requirements,
    /// `None`: the provider chooses among all that the requirements allow (static pools).
    pub(crate) instance_types: Option<Vec<String>>,
    /// Pods and daemons.
    pub(crate) requests: Resources,
    pub(crate) min_values_relaxed: bool,
    /// Ours, beside the template's and the reference's.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The claim for `pool`, all but its name. `pool` is the object that was decided with.
pub(crate) fn claim(pool: &NodePool, name: String, wanted: NewClaim) -> NodeClaim {
    let template = &pool.spec.template;
    let (kept_labels, kept_annotations) = match &template.metadata {
        Some(meta) => (meta.labels.clone().unwrap_or_default(), meta.annotations.clone().unwrap_or_default()),
        None => Default::default(),
    };
    let pool_name = pool.metadata.name.clone().unwrap_or_default();
    let class = &template.spec.node_class_ref;

    let mut own_labels = kept_labels;
    for requirement in wanted.requirements.iter().filter(|r| is_custom(r.key())) {
        if !own_labels.contains_key(requirement.key())
            && let Some(value) = requirement.any()
        {
            own_labels.insert(requirement.key().to_owned(), value);
        }
    }
    own_labels.insert(labels::NODEPOOL.to_owned(), pool_name.clone());
    own_labels.insert(format!("{}/{}", class.group, class.kind.to_lowercase()), class.name.clone());

    let mut annotations = kept_annotations;
    annotations.insert(labels::NODEPOOL_HASH.to_owned(), api::hash::node_pool(pool));
    annotations.insert(labels::NODEPOOL_HASH_VERSION.to_owned(), api::hash::NODE_POOL_VERSION.to_owned());
    annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), wanted.min_values_relaxed.to_string());
    annotations.extend(wanted.annotations);

    let requests: BTreeMap<_, _> = wanted
        .requests
        .iter()
        .filter(|(_, amount)| !amount.is_zero())
        .map(|(n, a)| (n.to_owned(), a.to_string().into()))
        .collect();
    NodeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(own_labels),
            annotations: Some(annotations),
            finalizers: Some(vec![labels::TERMINATION_FINALIZER.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: "karpenter.sh/v1".to_owned(),
                kind: "NodePool".to_owned(),
                name: pool_name,
                uid: pool.metadata.uid.clone().unwrap_or_default(),
                block_owner_deletion: Some(true),
                controller: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            requirements: requirements(wanted.requirements, wanted.instance_types),
            node_class_ref: class.clone(),
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            resources: (!requests.is_empty())
                .then(|| ResourceRequirements { requests: Some(requests), ..Default::default() }),
            expire_after: template.spec.expire_after.clone(),
            termination_grace_period: template.spec.termination_grace_period.clone(),
            extra: Default::default(),
        },
        status: None,
    }
}

/// Labels that only this node pool knows get one concrete value on the claim, and through it on the node.
fn is_custom(key: &str) -> bool {
    !labels::is_well_known(key) && !matches!(key, labels::HOSTNAME | labels::REGISTERED | labels::INITIALIZED)
}

fn requirements(mut all: Requirements, types: Option<Vec<String>>) -> Vec<Written> {
    for key in [labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED] {
        all.remove(key);
    }
    if let Some(types) = types {
        let least = all.get(labels::INSTANCE_TYPE).and_then(Requirement::min_values);
        all.replace(Requirement::new(labels::INSTANCE_TYPE, requirement::Operator::In, types, least));
    }
    let mut written = Vec::new();
    for requirement in all.iter() {
        written.extend(requirement.to_entries().iter().map(of_entry));
        // Bounds alone would allow what is excluded between them; the reference loses this.
        let bounded = requirement.gte().is_some() || requirement.lte().is_some();
        if bounded && requirement.is_complement() && !requirement.values().is_empty() {
            let values = requirement.values().iter().cloned();
            written.push(of_entry(&Entry::new(requirement.key(), requirement::Operator::NotIn, values)));
        }
    }
    written
}

fn of_entry(entry: &Entry) -> Written {
    let operator = Operator::from(entry.operator.as_str());
    let mut written = Written::new(entry.key.as_str(), operator, entry.values.iter().cloned());
    written.min_values = entry.min_values.and_then(|n| i32::try_from(n).ok());
    written
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;

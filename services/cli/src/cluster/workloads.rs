//! Deployments, ReplicaSets, StatefulSets and Jobs: what pods they stand for. Pods of a workload that are in the input count
//! towards its replicas.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::manifest::{Objects, Origin};

/// Pods yet to be made of one template.
pub(super) struct Workload {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// The template as a pod, without a name of its own.
    pub(super) pod: Pod,
    /// Numbers of the pods: from how many are there to how many are wanted.
    pub(super) numbers: std::ops::Range<i32>,
    pub(super) origin: Origin,
    /// Of a StatefulSet.
    pub(super) claim_templates: Vec<PersistentVolumeClaim>,
}

impl Workload {
    pub(super) fn pod_name(&self, number: i32) -> String {
        format!("{}-{number}", self.name)
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    kind: String,
    namespace: String,
    name: String,
}

fn namespace_of(meta: &ObjectMeta) -> String {
    meta.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned())
}

fn controller_of(meta: &ObjectMeta) -> Option<Owner> {
    let owner = meta.owner_references.iter().flatten().find(|o| o.controller == Some(true))?;
    Some(Owner { kind: owner.kind.clone(), namespace: namespace_of(meta), name: owner.name.clone() })
}

pub(super) fn expand(objects: &mut Objects) -> Vec<Workload> {
    let mut present: BTreeMap<Owner, i32> = BTreeMap::new();
    for pod in &objects.pods {
        if let Some(owner) = controller_of(&pod.object.metadata) {
            *present.entry(owner).or_default() += 1;
        }
    }
    let of = |kind: &str, meta: &ObjectMeta| Owner {
        kind: kind.to_owned(),
        namespace: namespace_of(meta),
        name: meta.name.clone().unwrap_or_default(),
    };
    let deployments: Vec<Owner> =
        objects.deployments.iter().map(|d| of("Deployment", &d.object.metadata)).collect();
    let mut standalone = Vec::new();
    for set in std::mem::take(&mut objects.replica_sets) {
        match controller_of(&set.object.metadata).filter(|owner| deployments.contains(owner)) {
            Some(deployment) => {
                let own = present.get(&of("ReplicaSet", &set.object.metadata)).copied().unwrap_or(0);
                *present.entry(deployment).or_default() += own;
            }
            None => standalone.push(set),
        }
    }

    let mut workloads = Vec::new();
    let mut add = |kind: &'static str,
                   owned_as,
                   meta: &ObjectMeta,
                   replicas,
                   template: Option<&PodTemplateSpec>,
                   claims,
                   origin| {
        let existing = present.get(&of(kind, meta)).copied().unwrap_or(0);
        workloads.extend(workload(kind, owned_as, meta, existing..replicas, template, claims, origin));
    };
    for d in &objects.deployments {
        let spec = d.object.spec.as_ref();
        let replicas = spec.and_then(|s| s.replicas).unwrap_or(1);
        add(
            "Deployment",
            "ReplicaSet",
            &d.object.metadata,
            replicas,
            spec.map(|s| &s.template),
            &[],
            d.origin,
        );
    }
    for r in &standalone {
        let spec = r.object.spec.as_ref();
        let replicas = spec.and_then(|s| s.replicas).unwrap_or(1);
        let template = spec.and_then(|s| s.template.as_ref());
        add("ReplicaSet", "ReplicaSet", &r.object.metadata, replicas, template, &[], r.origin);
    }
    for s in &objects.stateful_sets {
        let spec = s.object.spec.as_ref();
        let replicas = spec.and_then(|s| s.replicas).unwrap_or(1);
        let claims = spec.and_then(|s| s.volume_claim_templates.as_deref()).unwrap_or_default();
        add(
            "StatefulSet",
            "StatefulSet",
            &s.object.metadata,
            replicas,
            spec.map(|s| &s.template),
            claims,
            s.origin,
        );
    }
    for j in &objects.jobs {
        let spec = j.object.spec.as_ref();
        let parallel = spec.and_then(|s| s.parallelism).unwrap_or(1);
        let replicas = parallel.min(spec.and_then(|s| s.completions).unwrap_or(i32::MAX));
        add("Job", "Job", &j.object.metadata, replicas, spec.map(|s| &s.template), &[], j.origin);
    }
    workloads
}

fn workload(
    kind: &'static str,
    owned_as: &str,
    meta: &ObjectMeta,
    numbers: std::ops::Range<i32>,
    template: Option<&PodTemplateSpec>,
    claims: &[PersistentVolumeClaim],
    origin: Origin,
) -> Option<Workload> {
    let template = template.filter(|_| !numbers.is_empty())?;
    let namespace = namespace_of(meta);
    let name = meta.name.clone().unwrap_or_default();
    let mut own = template.metadata.clone().unwrap_or_default();
    own.namespace = Some(namespace.clone());
    own.owner_references = Some(vec![OwnerReference {
        api_version: if kind == "Job" { "batch/v1" } else { "apps/v1" }.to_owned(),
        kind: owned_as.to_owned(),
        name: name.clone(),
        controller: Some(true),
        ..Default::default()
    }]);
    let pod = Pod { metadata: own, spec: Some(template.spec.clone().unwrap_or_default()), status: None };
    Some(Workload { kind, name, pod, numbers, origin, claim_templates: claims.to_vec() })
}

//! Deployments, ReplicaSets, StatefulSets and Jobs: what pods they stand for. Pods of a workload that are in the input count
//! towards its replicas.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::storage::Storage;
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
    /// Volumes that differ from pod to pod.
    pub(super) own_volumes: bool,
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

pub(super) fn expand(objects: &mut Objects, storage: &Storage) -> Vec<Workload> {
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
        workloads.extend(workload(
            kind,
            owned_as,
            meta,
            existing..replicas,
            template,
            claims,
            origin,
            storage,
        ));
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

#[expect(
    clippy::too_many_arguments,
    reason = "one call site, which lists the parts of four kinds side by side"
)]
fn workload(
    kind: &'static str,
    owned_as: &str,
    meta: &ObjectMeta,
    numbers: std::ops::Range<i32>,
    template: Option<&PodTemplateSpec>,
    claims: &[PersistentVolumeClaim],
    origin: Origin,
    storage: &Storage,
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
    let mut spec = template.spec.clone().unwrap_or_default();
    let mut own_volumes = !claims.is_empty();
    for number in numbers.clone() {
        let pod = format!("{name}-{number}");
        for claim in claims {
            let volume = claim.metadata.name.as_deref().unwrap_or_default();
            storage.make_claim(
                &namespace,
                &format!("{volume}-{pod}"),
                &claim.spec.clone().unwrap_or_default(),
            );
        }
        for volume in spec.volumes.iter().flatten() {
            let template = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref());
            if let Some(template) = template {
                own_volumes = true;
                storage.make_claim(&namespace, &format!("{pod}-{}", volume.name), &template.spec);
            }
        }
    }
    for claim in claims {
        // Written as an ephemeral volume would be; the name is put in for each pod.
        let volume = claim.metadata.name.clone().unwrap_or_default();
        spec.volumes.get_or_insert_default().push(k8s_openapi::api::core::v1::Volume {
            name: volume,
            persistent_volume_claim: Some(Default::default()),
            ..Default::default()
        });
    }
    let pod = Pod { metadata: own, spec: Some(spec), status: None };
    Some(Workload { kind, name, pod, numbers, origin, own_volumes })
}

/// The n-th pod of a workload whose volumes are its own.
pub(super) fn with_own_volumes(workload: &Workload, number: i32) -> Pod {
    let name = workload.pod_name(number);
    let mut pod = workload.pod.clone();
    for volume in pod.spec.iter_mut().flat_map(|s| s.volumes.iter_mut().flatten()) {
        let own = volume.name.clone();
        if let Some(source) = volume.persistent_volume_claim.as_mut().filter(|s| s.claim_name.is_empty()) {
            source.claim_name = format!("{own}-{name}");
        }
    }
    pod.metadata.name = Some(name);
    pod
}

//! A Pod object, bound or pending.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use model::labels;
use model::pod::{Pod, PodSpec};

use super::budget::PodBudget;
use super::error::{At, Error};
use super::eviction::{do_not_disrupt, fully_blocked, is_active};
use super::validate::why_rejected;
use super::volumes::{ClaimState, Storage, claims_of, volume_of_claim};

/// What a pod's conversion depends on beside the pod.
pub struct PodContext<'a> {
    pub storage: &'a dyn Storage,
    pub budgets: &'a [PodBudget],
    pub now: Timestamp,
}

/// Finished, one way or the other: it uses nothing and needs nothing.
pub fn is_terminal(pod: &core::Pod) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

fn phase(pod: &core::Pod) -> Option<&str> {
    pod.status.as_ref().and_then(|s| s.phase.as_deref())
}

/// Whether an owner of this kind is among the pod's owners.
pub fn owned_by(pod: &core::Pod, api_version: &str, kind: &str) -> bool {
    let is = |owner: &OwnerReference| owner.kind == kind && owner.api_version == api_version;
    pod.metadata.owner_references.iter().flatten().any(is)
}

/// Whether a live pod waits for capacity: kube-scheduler has found no place for it, it is not about to take the place of a
/// preempted pod, and it is not tied to a node anyway.
pub fn is_provisionable(pod: &core::Pod) -> bool {
    let status = pod.status.as_ref();
    let unschedulable = status
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default()
        .iter()
        .any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable"));
    let empty = |text: Option<&str>| text.is_none_or(str::is_empty);
    unschedulable
        && empty(pod.spec.as_ref().and_then(|s| s.node_name.as_deref()))
        && empty(status.and_then(|s| s.nominated_node_name.as_deref()))
        && !owned_by(pod, "apps/v1", "DaemonSet")
        && !owned_by(pod, "v1", "Node")
}

/// `spec` is the converted spec of this pod (see [`super::pod_spec`]), shared with its siblings where possible. Pods that have
/// finished should not be converted at all; whether an unbound pod is pending is the caller's to decide, too.
pub fn pod(object: &core::Pod, spec: Arc<PodSpec>, context: &PodContext<'_>) -> Result<Pod, Error> {
    let meta = &object.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let name = meta.name.as_deref().unwrap_or_default();
    let written = spec_of(object);
    let node = written.node_name.as_deref().filter(|node| !node.is_empty());
    let mut rejected = None;
    let mut volumes = Vec::new();
    for claim in claims_of(name, written) {
        let state = volume_of_claim(namespace, &claim, context.storage)
            .map_err(|invalid| invalid.of("PersistentVolume of claim", Some(namespace), Some(&claim)))?;
        match state {
            ClaimState::Usable(volume) => volumes.push(volume),
            ClaimState::Unusable(known, why) => {
                volumes.extend(known);
                rejected.get_or_insert(why);
            }
        }
    }
    if node.is_some() {
        // It runs already: what would keep a pending pod from being scheduled is no concern any more.
        rejected = None;
    } else {
        let spec_at = At::Root;
        rejected = why_rejected(written, &spec_at.key("spec"))
            .map_err(|invalid| invalid.of("Pod", Some(namespace), Some(name)))?
            .or(rejected);
    }
    let daemon = owned_by(object, "apps/v1", "DaemonSet");
    let bound_to_node = daemon || owned_by(object, "v1", "Node");
    let terminating = meta.deletion_timestamp.is_some();
    let protected_now = do_not_disrupt(object, context.now) && is_active(object);
    let returns = is_active(object) || (terminating && owned_by(object, "apps/v1", "StatefulSet"));
    let blocked = || fully_blocked(object, &spec.labels, &spec.tolerations, context.budgets, context.now);
    Ok(Pod {
        namespace: Arc::from(namespace),
        name: Arc::from(name),
        uid: Arc::from(meta.uid.as_deref().unwrap_or_default()),
        created: meta.creation_timestamp.as_ref().map_or(0, |t| t.0.as_second()),
        node: node.map(Arc::from),
        volumes,
        terminating,
        bound_to_node,
        daemon,
        reschedulable: returns && !bound_to_node && !protected_now && !blocked(),
        do_not_disrupt: protected_now,
        buffer: meta
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(labels::CAPACITY_BUFFER_FAKE_POD)),
        rejected,
        spec,
    })
}

/// A pod object without a spec reads like one with an empty spec.
fn spec_of(object: &core::Pod) -> &core::PodSpec {
    static EMPTY: LazyLock<core::PodSpec> = LazyLock::new(core::PodSpec::default);
    object.spec.as_ref().unwrap_or(&EMPTY)
}

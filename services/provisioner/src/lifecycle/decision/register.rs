//! Registration: a Node with the claim's provider id has joined. It gets what the claim promises (finalizer, owner, taints,
//! annotations, labels), loses the taint that kept everything away from it, and is called registered.
//!
//! Taints are put on once. Startup taints that an agent has removed since do not come back, also when the process ended
//! between writing the Node and writing the claim.

use api::NodeClaim;
use api::conditions::{ConditionStatus, Finding};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use model::labels;
use serde_json::{Map, Value, json};

use super::liveness::deadline;
use super::{Expired, Observed, REGISTERED, Step, has_finalizer};

/// The reference's name for waiting on EC2 to say which partition an instance was put into.
const PARTITION_HOOK: &str = "PlacementGroupRegistrationHook";
const NO_EXECUTE: &str = "NoExecute";

/// What to write on the Node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Registration {
    /// The Node as it is to be.
    pub(crate) node: Node,
    /// Merge patch that makes it so, tied to the version it was computed from; `None` when it is so already.
    pub(crate) patch: Option<Value>,
    /// The Node came without the taint that keeps pods away before registration: some may have started on it.
    pub(crate) taint_missing: bool,
    /// Not complete: this is waited for. The Node is brought up to date, and keeps its taint.
    pub(crate) held_by: Option<&'static str>,
}

pub(crate) fn no_node_yet() -> Finding {
    Finding::open("NodeNotFound", "the instance's Node has not joined the cluster yet")
}

pub(super) fn step(seen: &Observed<'_>, now: Timestamp) -> Step {
    let deadline = deadline(seen.since(REGISTERED), seen.limits.registration);
    let late = deadline.is_some_and(|deadline| now >= deadline);
    let otherwise = if late { Step::GiveUp(Expired::Registration) } else { Step::Wait(deadline) };
    if seen.status(REGISTERED) != ConditionStatus::Unknown {
        return otherwise;
    }
    match seen.nodes {
        [] if late => otherwise,
        [] => seen.note(REGISTERED, no_node_yet()).unwrap_or(otherwise),
        [node] => one_node(seen, node, now, otherwise),
        several => {
            let names: Vec<_> = several.iter().filter_map(|n| n.metadata.name.as_deref()).collect();
            let message = format!("several Nodes have the claim's provider id: {}", names.join(", "));
            seen.note(REGISTERED, Finding::fails("MultipleNodesFound", message)).unwrap_or(otherwise)
        }
    }
}

fn one_node(seen: &Observed<'_>, node: &Node, now: Timestamp, otherwise: Step) -> Step {
    if !is_partition_unknown(seen.claim) {
        return Step::Register(Box::new(plan(seen.claim, node, None)));
    }
    let ask = seen.memory.ask_partition_after;
    if ask.is_none_or(|after| now >= after) {
        return Step::FindPartition;
    }
    let held = plan(seen.claim, node, Some(PARTITION_HOOK));
    if held.patch.is_some() {
        return Step::Register(Box::new(held));
    }
    let pending = Finding::open("RegistrationHookPending", PARTITION_HOOK);
    seen.note(REGISTERED, pending).unwrap_or(match otherwise {
        Step::Wait(deadline) => Step::Wait([ask, deadline].into_iter().flatten().min()),
        late => late,
    })
}

/// The claim is in a partition placement group and nobody chose the partition: EC2 did, and has not said which.
fn is_partition_unknown(claim: &NodeClaim) -> bool {
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key));
    label(labels::PLACEMENT_GROUP_ID).is_some()
        && label(labels::PLACEMENT_GROUP_PARTITION).is_some_and(String::is_empty)
}

pub(super) fn plan(claim: &NodeClaim, node: &Node, held_by: Option<&'static str>) -> Registration {
    let node_label =
        |key: &str| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let registered_before = node_label(labels::REGISTERED).is_some();
    let taint_missing = !registered_before && !taints.iter().any(is_unregistered);
    // The finalizer goes on together with the taints, so it tells whether they were there.
    let taints_are_set = has_finalizer(node.metadata.finalizers.as_ref());
    let skip_taints = taints_are_set || node_label(labels::DO_NOT_SYNC_TAINTS) == Some(labels::TRUE);

    let mut wanted = node.clone();
    if !taints_are_set {
        wanted.metadata.finalizers.get_or_insert_default().push(labels::TERMINATION_FINALIZER.to_owned());
    }
    own(&mut wanted, claim);
    if !skip_taints {
        let promised = claim.spec.taints.iter().flatten().chain(claim.spec.startup_taints.iter().flatten());
        for taint in promised {
            add_taint(&mut wanted, taint);
        }
    }
    for (key, value) in claim.metadata.annotations.iter().flatten() {
        wanted.metadata.annotations.get_or_insert_default().insert(key.clone(), value.clone());
    }
    for (key, value) in claim.metadata.labels.iter().flatten() {
        wanted.metadata.labels.get_or_insert_default().insert(key.clone(), value.clone());
    }
    if held_by.is_none() {
        if let Some(all) = wanted.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
            all.retain(|taint| !is_unregistered(taint));
        }
        let own = wanted.metadata.labels.get_or_insert_default();
        own.insert(labels::REGISTERED.to_owned(), labels::TRUE.to_owned());
    }
    Registration { patch: difference(node, &wanted), node: wanted, taint_missing, held_by }
}

fn own(node: &mut Node, claim: &NodeClaim) {
    let reference = OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodeClaim".to_owned(),
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    };
    let owners = node.metadata.owner_references.get_or_insert_default();
    let same = |o: &OwnerReference| {
        o.api_version == reference.api_version && o.kind == reference.kind && o.uid == reference.uid
    };
    if !owners.iter().any(same) {
        owners.push(reference);
    }
}

fn add_taint(node: &mut Node, taint: &api::taint::Taint) {
    let all = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !all.iter().any(|own| own.key == taint.key && own.effect == taint.effect.as_str()) {
        all.push(Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.as_str().to_owned(),
            time_added: taint.time_added.clone(),
        });
    }
}

fn is_unregistered(taint: &Taint) -> bool {
    taint.key == labels::UNREGISTERED_TAINT && taint.effect == NO_EXECUTE
}

/// Lists are replaced whole by a merge patch, so it names the version of the Node it was made for.
fn difference(old: &Node, new: &Node) -> Option<Value> {
    let mut meta = Map::new();
    let (was, is) = (&old.metadata, &new.metadata);
    if was.finalizers != is.finalizers {
        meta.insert("finalizers".to_owned(), json!(is.finalizers));
    }
    if was.owner_references != is.owner_references {
        meta.insert("ownerReferences".to_owned(), json!(is.owner_references));
    }
    for (name, was, is) in
        [("labels", &was.labels, &is.labels), ("annotations", &was.annotations, &is.annotations)]
    {
        let changed: Map<String, Value> = is
            .iter()
            .flatten()
            .filter(|(key, value)| was.as_ref().and_then(|all| all.get(*key)) != Some(value))
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        if !changed.is_empty() {
            meta.insert(name.to_owned(), Value::Object(changed));
        }
    }
    let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let spec = (taints(old) != taints(new)).then(|| json!({"taints": taints(new)}));
    if meta.is_empty() && spec.is_none() {
        return None;
    }
    meta.insert("resourceVersion".to_owned(), json!(was.resource_version));
    let mut patch = json!({"metadata": meta});
    if let Some(spec) = spec {
        patch["spec"] = spec;
    }
    Some(patch)
}

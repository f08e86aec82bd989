//! The Kubernetes Events of termination: the reference's reasons, with sentences that say what holds a drain up.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use policy::drain::Pod;
use runtime::events::{self, Event, Recorder};

use crate::cluster::{Claim, NodeState};
use crate::writes::rfc3339;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events(Recorder);

fn node(node: &NodeState) -> ObjectReference {
    events::node(&node.name, &node.uid)
}

fn claim(claim: &Claim) -> ObjectReference {
    events::node_claim(&claim.name, &claim.uid)
}

fn pod(pod: &Pod) -> ObjectReference {
    events::pod(&pod.namespace, &pod.name, &pod.uid)
}

impl Events {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(recorder)
    }

    pub(crate) fn deadline_of_claim(&self, about: &Claim, deadline: Timestamp) {
        self.0.publish(Event::warning(claim(about), EXPIRING, expiring(deadline)));
    }

    pub(crate) fn deadline_of_node(&self, about: &NodeState, deadline: Timestamp) {
        self.0.publish(Event::warning(node(about), EXPIRING, expiring(deadline)));
    }

    pub(crate) fn unreadable_deadline(&self, about: &Claim, text: &str) {
        let message = format!(
            "Annotation {} is {text:?}, which is no RFC 3339 time; draining goes on without a deadline",
            model::labels::TERMINATION_TIMESTAMP
        );
        self.0.publish(Event::warning(claim(about), "TerminationTimestampUnreadable", message));
    }

    /// `held`: what holds up the first few of them.
    pub(crate) fn pods_waiting(&self, about: &NodeState, pods: usize, held: &[String]) {
        let why = if held.is_empty() { String::new() } else { format!(": {}", held.join("; ")) };
        let message = format!("Failed to drain node, {pods} pods are waiting to be evicted{why}");
        self.0.publish(Event::warning(node(about), "FailedDraining", message));
    }

    /// A budget refused; `why` names it, or them.
    pub(crate) fn refused(&self, about: &NodeState, pod: &Pod, why: &str, several: bool) {
        let what = if several { "is covered by multiple PDBs" } else { "would violate a PDB" };
        let message = format!("Failed to drain node, evicting pod {} {what}: {why}", pod.key());
        let distinct = [if several { "several" } else { "pdb" }.to_owned()];
        self.0.publish(Event::warning(node(about), "FailedDraining", message).distinct(distinct));
    }

    pub(crate) fn evicted(&self, about: &Pod, reason: &str) {
        self.0.publish(Event::normal(pod(about), "Evicted", format!("Evicted pod: {reason}")));
    }

    pub(crate) fn deleted_for_deadline(&self, about: &Pod, deadline: Timestamp, grace: i64) {
        let message = format!(
            "Deleting the pod to accommodate the terminationTime {} of the node. The pod was granted {grace} seconds of its {} \
             terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
            rfc3339(deadline),
            about.grace_seconds
        );
        self.0.publish(Event::normal(pod(about), "Disrupted", message));
    }

    pub(crate) fn volumes(&self, about: &NodeState, names: &[String]) {
        let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(5);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("Awaiting deletion of VolumeAttachments {shown}{more}");
        self.0.publish(Event::normal(node(about), "AwaitingVolumeDetachment", message));
    }

    pub(crate) fn untouchable(&self, about_node: Option<&NodeState>, about_claim: Option<&Claim>, why: &str) {
        let objects = about_node.map(node).into_iter().chain(about_claim.map(claim));
        for object in objects {
            self.0.publish(Event::warning(object, "InstanceNotOurs", format!("Not terminated: {why}")));
        }
    }

    pub(crate) fn shared_instance(&self, about: &Claim, other: &str) {
        let message = format!(
            "Released without terminating its instance {}, which NodeClaim {other} claims too",
            about.provider_id.as_deref().unwrap_or_default()
        );
        self.0.publish(Event::warning(claim(about), "DuplicateProviderID", message));
    }

    /// Without exactly one claim there is neither a deadline nor an instance that may be ended.
    pub(crate) fn no_claim(&self, about: &NodeState, claims: &[std::sync::Arc<Claim>]) {
        let names: Vec<&str> = claims.iter().map(|claim| &*claim.name).collect();
        let why = match &about.provider_id {
            None => "it has no provider id".to_owned(),
            Some(id) if names.is_empty() => format!("no NodeClaim has its provider id {id}"),
            Some(id) => format!("NodeClaims {} share its provider id {id}", names.join(", ")),
        };
        let message = format!("Drained without a deadline, and no instance is terminated with it: {why}");
        self.0.publish(Event::warning(node(about), "NodeClaimNotFound", message));
    }

    pub(crate) fn node_held_by_others(&self, about: &NodeState, finalizers: &[String]) {
        self.0.publish(Event::warning(node(about), HELD, held(finalizers)));
    }

    pub(crate) fn claim_held_by_others(&self, about: &Claim, finalizers: &[String]) {
        self.0.publish(Event::warning(claim(about), HELD, held(finalizers)));
    }

    pub(crate) fn claim_waits_for_node(&self, about: &Claim, node: &NodeState) {
        let message = format!("Waits for node {}: {}", node.name, held(&node.finalizers));
        self.0.publish(Event::warning(claim(about), HELD, message).distinct([node.name.to_string()]));
    }

    pub(crate) fn claim_collected(&self, about: &Claim) {
        let message = "Deleted because its instance no longer exists and its node is not ready".to_owned();
        self.0.publish(Event::warning(claim(about), "GarbageCollected", message));
    }
}

const HELD: &str = "HeldByFinalizers";

fn held(finalizers: &[String]) -> String {
    format!("Removal is done, and finalizers of others hold the object: {}", finalizers.join(", "))
}

const EXPIRING: &str = "TerminationGracePeriodExpiring";

fn expiring(deadline: Timestamp) -> String {
    format!("All pods will be deleted by {}", rfc3339(deadline))
}

//! The Kubernetes Events about warnings, on NodeClaim and Node, with the reference's reasons.

use k8s_openapi::api::core::v1::ObjectReference;
use runtime::events::{self, Event, Recorder};

use crate::claims::Claim;
use crate::message::Kind;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events(Recorder);

fn about(claim: &Claim) -> Vec<ObjectReference> {
    let mut objects = vec![events::node_claim(&claim.name, &claim.uid)];
    if !claim.node.is_empty() {
        // The name for the uid, as kubelet does; `kubectl describe node` looks for both. Saves us the watch of all nodes.
        objects.push(events::node(&claim.node, &claim.node));
    }
    objects
}

impl Events {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(recorder)
    }

    /// What AWS said; `words` are the message's own.
    pub(crate) fn warned(&self, kind: Kind, claim: &Claim, words: &str) {
        let Some((reason, sentence)) = event_of(kind) else { return };
        let more = if words.is_empty() { String::new() } else { format!(": {words}") };
        let message = format!("{sentence} (instance {}){more}", claim.instance);
        for object in about(claim) {
            let event = match kind {
                Kind::RebalanceRecommendation => Event::normal(object, reason, message.clone()),
                _ => Event::warning(object, reason, message.clone()),
            };
            self.0.publish(event.distinct([kind.as_str().to_owned()]));
        }
    }

    pub(crate) fn removing(&self, kind: Kind, claim: &Claim) {
        let message = format!("Removed because of {}", kind.as_str());
        for object in about(claim) {
            self.0.publish(Event::warning(object, "TerminatingOnInterruption", message.clone()));
        }
    }
}

fn event_of(kind: Kind) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        Kind::SpotInterrupted => ("SpotInterrupted", "EC2 will reclaim this spot instance in two minutes"),
        Kind::RebalanceRecommendation => {
            ("SpotRebalanceRecommendation", "EC2 recommends replacing this spot instance")
        }
        Kind::CapacityReservationInterrupted => (
            "CapacityReservationInstanceInterrupted",
            "EC2 will reclaim this instance from its capacity reservation",
        ),
        Kind::InstanceStopped => ("InstanceStopping", "The instance is stopping"),
        Kind::InstanceTerminated => ("InstanceTerminating", "The instance is terminating"),
        Kind::ScheduledChange => ("InstanceUnhealthy", "AWS has scheduled maintenance of the instance"),
        Kind::InstanceStatus => ("InstanceUnhealthy", "A status check of the instance fails"),
        Kind::SystemStatus => ("InstanceUnhealthy", "A status check of the instance's host fails"),
        Kind::EventStatus => ("InstanceUnhealthy", "EC2 has scheduled an event for the instance"),
        Kind::NoOp => return None,
    })
}

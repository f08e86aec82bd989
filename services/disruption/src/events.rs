//! The Kubernetes Events of disruption: the reference's reasons, with sentences that name what holds a node.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use policy::candidate::Notice;
use policy::churn::Realised;
use runtime::events::{self, Event, Recorder};

use crate::cluster::{Claim, NodeState};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events(Recorder);

const QUARTER_HOUR: Duration = Duration::from_secs(15 * 60);

fn node(node: &NodeState) -> ObjectReference {
    events::node(&node.name, &node.uid)
}

fn claim(claim: &Claim) -> ObjectReference {
    events::node_claim(&claim.name, &claim.uid)
}

fn pool(pool: &api::NodePool) -> ObjectReference {
    ObjectReference {
        api_version: Some("karpenter.sh/v1".to_owned()),
        kind: Some("NodePool".to_owned()),
        name: pool.metadata.name.clone(),
        uid: pool.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

fn pod(pod: &policy::drain::Pod) -> ObjectReference {
    events::pod(&pod.namespace, &pod.name, &pod.uid)
}

impl Events {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self(recorder)
    }

    /// About both objects of a node of ours.
    fn both(&self, about: (Option<&NodeState>, Option<&Claim>), make: impl Fn(ObjectReference) -> Event) {
        for object in about.0.map(node).into_iter().chain(about.1.map(claim)) {
            self.0.publish(make(object));
        }
    }

    pub(crate) fn blocked(&self, about: (Option<&NodeState>, Option<&Claim>), why: &str) {
        // Another obstacle is news, however soon it follows.
        self.both(about, |object| Event::normal(object, "DisruptionBlocked", why).distinct([why.to_owned()]));
    }

    pub(crate) fn pool_blocked(&self, about: &api::NodePool, reason: &str, why: &str) {
        let event = Event::normal(pool(about), "DisruptionBlocked", why);
        self.0.publish(event.distinct([reason.to_owned()]).repeat_after(Duration::from_secs(60)));
    }

    pub(crate) fn unconsolidatable(&self, about: (Option<&NodeState>, Option<&Claim>), why: &str) {
        self.both(about, |object| {
            Event::normal(object, "Unconsolidatable", why)
                .distinct([why.to_owned()])
                .repeat_after(QUARTER_HOUR)
        });
    }

    pub(crate) fn candidate(&self, about: (Option<&NodeState>, Option<&Claim>), command: &str) {
        self.both(about, |object| {
            let message = format!("Consolidation candidate: {command}");
            Event::normal(object, "ConsolidationCandidate", message).distinct([command.to_owned()])
        });
    }

    pub(crate) fn rejected(&self, about: (Option<&NodeState>, Option<&Claim>), command: &str, why: &str) {
        self.both(about, |object| {
            let message = format!("Consolidation rejected: {command}: {why}");
            Event::normal(object, "ConsolidationRejected", message)
                .distinct([command.to_owned(), why.to_owned()])
        });
    }

    /// A pool with policy Balanced finds it worth while.
    pub(crate) fn approved(&self, about: (Option<&NodeState>, Option<&Claim>), why: &str) {
        self.both(about, |object| Event::normal(object, "ConsolidationApproved", why));
    }

    /// The command begins; the name that older tutorials look for.
    pub(crate) fn initiated(&self, about: (Option<&NodeState>, Option<&Claim>), command: &str) {
        self.both(about, |object| {
            Event::normal(object, "DisruptionInitiated", format!("Disrupting: {command}"))
                .distinct([command.to_owned()])
        });
    }

    pub(crate) fn launching(&self, about: &Claim, reason: &str) {
        let event =
            Event::normal(claim(about), "DisruptionLaunching", format!("Launching NodeClaim: {reason}"));
        self.0.publish(event.distinct([reason.to_owned()]));
    }

    pub(crate) fn waiting(&self, about: &Claim) {
        let message = "Waiting on readiness to continue disruption";
        self.0.publish(Event::normal(claim(about), "DisruptionWaitingReadiness", message));
    }

    pub(crate) fn terminating(&self, about: (Option<&NodeState>, Option<&Claim>), reason: &str) {
        self.both(about, |object| {
            Event::normal(object, "DisruptionTerminating", format!("Disrupting: {reason}"))
                .distinct([reason.to_owned()])
        });
    }

    /// Ours: a command was taken back after its nodes were tainted.
    pub(crate) fn rolled_back(&self, about: (Option<&NodeState>, Option<&Claim>), command: &str, why: &str) {
        self.both(about, |object| {
            Event::normal(object, "DisruptionRolledBack", format!("{command} was taken back: {why}"))
                .distinct([command.to_owned()])
        });
    }

    /// Ours: what a command wrote on a node that stays could not be taken off.
    pub(crate) fn not_taken_back(
        &self,
        about: (Option<&NodeState>, Option<&Claim>),
        command: &str,
        error: &str,
        until: Timestamp,
    ) {
        let message = format!(
            "Command {command} was taken back, but its taint and notes cannot be taken off: {error}. It is tried again at {until}; allow karpenter-disruption to change the object"
        );
        self.both(about, |object| {
            Event::warning(object, "DisruptionNotTakenBack", message.clone()).distinct([command.to_owned()])
        });
    }

    /// Ours: a replacement that nobody needs could not be deleted.
    pub(crate) fn replacement_kept(&self, about: &Claim, command: &str, error: &str) {
        let message = format!(
            "Made for command {command}, which was taken back, and cannot be deleted: {error}. It stays as an ordinary node; delete the NodeClaim to be rid of it"
        );
        self.0.publish(
            Event::warning(claim(about), "DisruptionReplacementKept", message).distinct([command.to_owned()]),
        );
    }

    /// Ours: a replacement came after its command had been taken back.
    pub(crate) fn came_late(&self, about: &Claim, command: &str) {
        let message =
            format!("Is deleted: command {command}, which ordered it, had been taken back before it came");
        self.0.publish(Event::normal(claim(about), "DisruptionReplacementLate", message));
    }

    /// Ours: a command saved less than half of what it promised, and its pool backs off.
    pub(crate) fn savings_missed(
        &self,
        about: &api::NodePool,
        command: &str,
        realised: Realised,
        until: Timestamp,
    ) {
        let Realised { promised, saving, extra_nodes } = realised;
        let message = format!(
            "{command} saved ${saving} of the promised ${promised} an hour: {extra_nodes} more node(s) were bought for its pods; no consolidation of this NodePool before {until}"
        );
        self.0.publish(
            Event::warning(pool(about), "ConsolidationSavingsMissed", message).distinct([command.to_owned()]),
        );
    }

    pub(crate) fn repair_blocked(&self, about: (Option<&NodeState>, Option<&Claim>), why: &str) {
        self.both(about, |object| {
            Event::warning(object, "NodeRepairBlocked", why).repeat_after(QUARTER_HOUR)
        });
    }

    /// About a pod's do-not-disrupt annotation.
    pub(crate) fn notice(&self, about: &policy::drain::Pod, notice: &Notice) {
        let words = notice.to_string();
        let event = if notice.is_warning() {
            Event::warning(pod(about), notice.reason(), words.clone())
        } else {
            Event::normal(pod(about), notice.reason(), words.clone())
        };
        self.0.publish(event.distinct([words]));
    }
}

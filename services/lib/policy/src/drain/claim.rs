//! The NodeClaim finalizer: deadline, nodes, instance, release.

use std::sync::Arc;

use jiff::Timestamp;
use model::duration::GoDuration;

use super::deadline::Deadline;
use super::instance::Instance;

/// A NodeClaim of ours that is being deleted and carries our finalizer.
#[derive(Clone, Debug)]
pub struct ClaimSeen<'a> {
    /// When its deletion was asked for.
    pub deleted_at: Timestamp,
    pub termination_grace_period: Option<&'a GoDuration>,
    pub deadline: &'a Deadline,
    /// Condition `Registered` is True: its nodes are ours to delete.
    pub registered: bool,
    /// It has a provider id. Without one it was not launched, or the launch was not noted in time.
    pub launched: bool,
    /// Nodes with its provider id, and whether each is being deleted.
    pub nodes: &'a [(Arc<str>, bool)],
    /// Another claim with the same provider id that is to stay.
    pub shared_with: Option<&'a str>,
    pub instance: &'a Instance,
    pub instance_terminating: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    StampDeadline(Timestamp),
    DeleteNodes(Vec<Arc<str>>),
    /// The node finalizer drains; this waits for its end.
    AwaitNodes,
    /// No provider id: look for an instance that carries the claim's name, in case it was launched all the same.
    LookForInstance,
    EndInstance,
    /// `mark`: condition `InstanceTerminating` is to be set.
    AwaitInstance {
        mark: bool,
    },
    /// A person must act.
    Hold(String),
    /// `kept_by`: the instance stays, with the claim of that name.
    Release {
        kept_by: Option<String>,
    },
}

pub fn next_step(seen: &ClaimSeen<'_>) -> ClaimStep {
    if let Some(other) = seen.shared_with {
        return ClaimStep::Release { kept_by: Some(other.to_owned()) };
    }
    if let Some(deadline) = seen.deadline.to_stamp(seen.deleted_at, seen.termination_grace_period) {
        return ClaimStep::StampDeadline(deadline);
    }
    if seen.registered && !seen.nodes.is_empty() {
        let staying: Vec<_> =
            seen.nodes.iter().filter(|(_, deleting)| !deleting).map(|(name, _)| name.clone()).collect();
        return if staying.is_empty() { ClaimStep::AwaitNodes } else { ClaimStep::DeleteNodes(staying) };
    }
    match seen.instance {
        Instance::Unasked if !seen.launched => ClaimStep::LookForInstance,
        Instance::Unasked | Instance::Running => ClaimStep::EndInstance,
        Instance::Asking(_) => ClaimStep::AwaitInstance { mark: false },
        Instance::Ending => ClaimStep::AwaitInstance { mark: !seen.instance_terminating },
        Instance::Gone => ClaimStep::Release { kept_by: None },
        Instance::Untouchable(why) => ClaimStep::Hold(why.clone()),
    }
}

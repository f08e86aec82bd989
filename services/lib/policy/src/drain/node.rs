//! The node finalizer: one pure step at a time, in the reference's order. Claim, dead node, taint, pods, volumes,
//! instance, release.

use std::sync::Arc;

use jiff::Timestamp;

use super::deadline::Deadline;
use super::instance::Instance;
use super::leaving::{Leaving, leaving};
use super::pod::Pod;
use super::time::plus_seconds;
use super::volumes::{self, Attachment};

/// A drain lasts at least this long, so that pods which the scheduler bound before it saw the taint are noticed.
pub const LEAST_DRAIN_SECONDS: i64 = 5;

/// A node of ours that is being deleted and carries our finalizer.
#[derive(Clone, Debug)]
pub struct NodeSeen<'a> {
    pub ready: bool,
    /// Carries the disrupted taint (and no other of its key) and the label that excludes it from load balancers.
    pub tainted: bool,
    /// The one claim with its provider id. None, or several, is no claim: nothing is known about what may be ended.
    pub claim: Option<ClaimOfNode<'a>>,
    pub pods: &'a [Arc<Pod>],
    pub attachments: &'a [Attachment],
    pub instance: &'a Instance,
}

/// What the claim of the node says so far.
#[derive(Clone, Debug)]
pub struct ClaimOfNode<'a> {
    pub deleting: bool,
    pub deadline: &'a Deadline,
    pub drained: Drained,
    pub volumes: Volumes,
    /// `InstanceTerminating` is True.
    pub instance_terminating: bool,
}

/// Condition `Drained`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    NotBegun,
    Since(Timestamp),
    Done,
}

/// Condition `VolumesDetached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volumes {
    NotLooked,
    Awaited,
    Detached,
    /// False: the deadline passed first.
    Abandoned,
}

/// A condition of the claim to set before the step is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Draining,
    Drained,
    AwaitingVolumes,
    VolumesDetached,
    VolumesAbandoned,
    InstanceTerminating,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStep {
    DeleteClaim,
    /// It is not ready: ask EC2 whether its instance is still there.
    LookAtInstance,
    Taint,
    Pods(Leaving),
    /// No pod is left; late ones may still come.
    Settle,
    AwaitVolumes(Vec<Attachment>),
    EndInstance,
    AwaitInstance,
    /// A person must act.
    Hold(String),
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDecision {
    pub marks: Vec<Mark>,
    pub step: NodeStep,
    /// When to decide again although nothing happens.
    pub look_again: Option<Timestamp>,
}

impl From<NodeStep> for NodeDecision {
    fn from(step: NodeStep) -> Self {
        Self { marks: Vec::new(), step, look_again: None }
    }
}

pub fn next_step(seen: &NodeSeen<'_>, now: Timestamp) -> NodeDecision {
    if seen.claim.as_ref().is_some_and(|claim| !claim.deleting) {
        return NodeStep::DeleteClaim.into();
    }
    // A ready node has a living kubelet, whatever EC2 says: it is always drained.
    if !seen.ready {
        match seen.instance {
            Instance::Gone => return NodeStep::Release.into(),
            Instance::Unasked | Instance::Asking(None) => return NodeStep::LookAtInstance.into(),
            // An EC2 that does not answer must not hold up a polite drain.
            _ => {}
        }
    }
    if !seen.tainted {
        return NodeStep::Taint.into();
    }
    let mut marks = Vec::new();
    let deadline = seen.claim.as_ref().and_then(|claim| claim.deadline.at());
    if let Some(blocked) = pods(seen, deadline, now, &mut marks) {
        return blocked;
    }
    if let Some(blocked) = volumes(seen, deadline, now, &mut marks) {
        return blocked;
    }
    let step = instance(seen, &mut marks);
    NodeDecision { marks, step, look_again: None }
}

fn pods(
    seen: &NodeSeen<'_>,
    deadline: Option<Timestamp>,
    now: Timestamp,
    marks: &mut Vec<Mark>,
) -> Option<NodeDecision> {
    let began = match seen.claim.as_ref().map(|claim| claim.drained) {
        Some(Drained::NotBegun) => {
            marks.push(Mark::Draining);
            Some(now)
        }
        Some(Drained::Since(began)) => Some(began),
        // Without a claim there is nowhere to note when it began.
        Some(Drained::Done) | None => None,
    };
    let plan = leaving(seen.pods, deadline, now);
    if plan.awaited > 0 {
        let look_again = plan.look_again;
        return Some(NodeDecision { marks: marks.clone(), step: NodeStep::Pods(plan), look_again });
    }
    let settled = plus_seconds(began?, LEAST_DRAIN_SECONDS);
    // Noted by a replica whose clock is ahead of ours: so far in the future says nothing, and must not hold the node.
    let absurd = began > Some(plus_seconds(now, LEAST_DRAIN_SECONDS));
    if now < settled && !absurd {
        return Some(NodeDecision {
            marks: marks.clone(),
            step: NodeStep::Settle,
            look_again: Some(settled),
        });
    }
    marks.push(Mark::Drained);
    None
}

fn volumes(
    seen: &NodeSeen<'_>,
    deadline: Option<Timestamp>,
    now: Timestamp,
    marks: &mut Vec<Mark>,
) -> Option<NodeDecision> {
    let awaited = volumes::awaited(seen.attachments, seen.pods, now);
    let said = seen.claim.as_ref().map(|claim| claim.volumes);
    let mut say = |volumes: Volumes, mark: Mark| {
        if said.is_some_and(|said| said != volumes) {
            marks.push(mark);
        }
    };
    if awaited.is_empty() {
        say(Volumes::Detached, Mark::VolumesDetached);
        return None;
    }
    if deadline.is_some_and(|deadline| now >= deadline) {
        say(Volumes::Abandoned, Mark::VolumesAbandoned);
        return None;
    }
    say(Volumes::Awaited, Mark::AwaitingVolumes);
    let step = NodeStep::AwaitVolumes(awaited.into_iter().cloned().collect());
    Some(NodeDecision { marks: marks.clone(), step, look_again: deadline })
}

fn instance(seen: &NodeSeen<'_>, marks: &mut Vec<Mark>) -> NodeStep {
    let Some(claim) = &seen.claim else { return NodeStep::Release };
    if matches!(seen.instance, Instance::Ending | Instance::Gone) && !claim.instance_terminating {
        marks.push(Mark::InstanceTerminating);
    }
    match seen.instance {
        Instance::Unasked | Instance::Running => NodeStep::EndInstance,
        Instance::Asking(_) | Instance::Ending => NodeStep::AwaitInstance,
        Instance::Gone => NodeStep::Release,
        Instance::Untouchable(why) => NodeStep::Hold(why.clone()),
    }
}

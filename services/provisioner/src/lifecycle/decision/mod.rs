//! What a claim needs next, as pure functions of the claim, the Nodes with its provider id and the instant. The shell around
//! it carries out one step, looks again, and asks for the next.
//!
//! ```text
//! adopt ─► launch ─► register ─► initialize ─► scan every ten minutes
//!             └─ 5 min ─┴─ 15 min ─► give up
//! ```

mod consistency;
mod initialize;
mod liveness;
mod register;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::NodeClaim;
use api::conditions::{self, Condition, ConditionStatus, Finding};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use model::labels;

pub(crate) use consistency::{SCAN_EVERY, Shortfall};
pub(crate) use initialize::gate as initialization_gate;
pub(crate) use liveness::{Expired, Limits};
pub(crate) use register::{Registration, no_node_yet};

pub(crate) const LAUNCHED: &str = "Launched";
pub(crate) const REGISTERED: &str = "Registered";
pub(crate) const INITIALIZED: &str = "Initialized";
pub(crate) const CONSISTENT: &str = "ConsistentStateFound";

/// Everything a decision may look at.
#[derive(Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) claim: &'a NodeClaim,
    /// All Nodes with the claim's provider id.
    pub(crate) nodes: &'a [Arc<Node>],
    pub(crate) memory: &'a Memory,
    pub(crate) limits: Limits,
}

/// What is known of a claim beyond its objects. Losing it costs time, never correctness.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// Launches that failed since the claim was first seen.
    pub(crate) failed_launches: u32,
    /// No launch before this.
    pub(crate) launch_after: Option<Timestamp>,
    /// EC2 had not said the placement group's partition; it is not asked before this.
    pub(crate) ask_partition_after: Option<Timestamp>,
    /// When the Node's shape was last compared.
    pub(crate) scanned: Option<Timestamp>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Not ours, or on its way out: nothing to do, whatever happens.
    Leave,
    /// Nothing to do until something changes, or this instant comes.
    Wait(Option<Timestamp>),
    /// Put on the finalizer, and the label that marks the claim as ours. Nothing is launched before.
    Adopt,
    Launch,
    /// Took too long: delete the claim.
    GiveUp(Expired),
    /// Set this condition, nothing else.
    Note(&'static str, Finding),
    /// The conditions hold, but speak of an older generation.
    Refresh,
    /// Ask EC2 in which partition of its placement group the instance is.
    FindPartition,
    Register(Box<Registration>),
    /// Label the Node of this name, then the claim is initialized.
    Initialize(String),
    /// The Node of this name lacks the label that marks it as ours.
    LabelNode(String),
    /// The Node was compared with what was expected.
    Scanned(Vec<Shortfall>),
}

impl<'a> Observed<'a> {
    pub(crate) fn conditions(&self) -> &'a [Condition] {
        conditions_of(self.claim)
    }

    fn status(&self, type_: &str) -> ConditionStatus {
        conditions::status(self.conditions(), type_)
    }

    /// Since when a condition is what it is; a missing one is as old as the claim.
    fn since(&self, type_: &str) -> Option<Timestamp> {
        let found = conditions::find(self.conditions(), type_).map(|c| c.last_transition_time.0);
        found.or_else(|| self.claim.metadata.creation_timestamp.as_ref().map(|time| time.0))
    }

    /// The finding, unless the claim says so already.
    fn note(&self, type_: &'static str, finding: Finding) -> Option<Step> {
        let mut list = self.conditions().to_vec();
        let meta = &self.claim.metadata;
        let changed = conditions::ConditionSet::NODE_CLAIM.set(
            &mut list,
            meta,
            type_,
            finding.clone(),
            Timestamp::UNIX_EPOCH,
        );
        changed.then_some(Step::Note(type_, finding))
    }
}

pub(crate) fn conditions_of(claim: &NodeClaim) -> &[Condition] {
    claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

pub(crate) fn provider_id(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).filter(|id| !id.is_empty())
}

pub(crate) fn is_ours(claim: &NodeClaim) -> bool {
    claim.spec.node_class_ref.is_supported()
}

pub(crate) fn has_finalizer(finalizers: Option<&Vec<String>>) -> bool {
    finalizers.is_some_and(|all| all.iter().any(|f| f == labels::TERMINATION_FINALIZER))
}

/// What the claim needs next.
pub(crate) fn next_step(seen: &Observed<'_>, now: Timestamp) -> Step {
    let meta = &seen.claim.metadata;
    if !is_ours(seen.claim) || meta.deletion_timestamp.is_some() {
        return Step::Leave;
    }
    let marked = meta.labels.as_ref().is_some_and(|all| all.contains_key(labels::EC2NODECLASS));
    if !has_finalizer(meta.finalizers.as_ref()) || !marked {
        return Step::Adopt;
    }
    if seen.status(LAUNCHED) != ConditionStatus::True {
        return launch(seen, now);
    }
    if seen.status(REGISTERED) != ConditionStatus::True {
        return register::step(seen, now);
    }
    if seen.status(INITIALIZED) != ConditionStatus::True {
        return initialize::step(seen).unwrap_or_else(|| rest(seen, now));
    }
    let is_old = |type_: &str| {
        conditions::find(seen.conditions(), type_).is_some_and(|c| c.observed_generation != meta.generation)
    };
    if [LAUNCHED, REGISTERED, INITIALIZED].into_iter().any(is_old) {
        return Step::Refresh;
    }
    rest(seen, now)
}

/// At least one try, however old the claim is: the controller may have been away.
fn launch(seen: &Observed<'_>, now: Timestamp) -> Step {
    let tried = seen.memory.failed_launches > 0;
    let deadline = liveness::deadline(seen.since(LAUNCHED), seen.limits.launch);
    // Only an Unknown is tried; whoever set another status did not want a launch.
    let may = seen.status(LAUNCHED) == ConditionStatus::Unknown;
    if (tried || !may) && deadline.is_some_and(|deadline| now >= deadline) {
        return Step::GiveUp(Expired::Launch);
    }
    match seen.memory.launch_after.filter(|after| now < *after) {
        None if may => Step::Launch,
        after => Step::Wait([after, deadline].into_iter().flatten().min()),
    }
}

/// What is left once a node has registered.
fn rest(seen: &Observed<'_>, now: Timestamp) -> Step {
    let [node] = seen.nodes else { return Step::Wait(None) };
    let node_labels = node.metadata.labels.as_ref();
    if !node_labels.is_some_and(|all| all.contains_key(labels::EC2NODECLASS)) {
        return Step::LabelNode(node.metadata.name.clone().unwrap_or_default());
    }
    let due = seen.memory.scanned.and_then(|at| at.checked_add(SCAN_EVERY).ok());
    match due.filter(|due| now < *due) {
        Some(due) => Step::Wait(Some(due)),
        None => Step::Scanned(consistency::shortfalls(seen, node)),
    }
}

/// Between failed launches: from one second to one minute.
pub(crate) fn launch_backoff(failures: u32) -> SignedDuration {
    let doubled = 1_i64.checked_shl(failures.saturating_sub(1).min(6)).unwrap_or(60);
    SignedDuration::from_secs(doubled.clamp(1, 60))
}

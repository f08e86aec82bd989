//! A drain in plain form. Pure.

use jiff::Timestamp;
use proto::termination::v1 as pb;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Drain {
    /// Empty where no node ever joined.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) node: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) node_claim: String,
    pub(super) node_pool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) instance_id: String,
    pub(super) phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    pub(super) pods_gone: u32,
    pub(super) pods_total: u32,
    pub(super) waiting: Vec<Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Phase {
    Unknown,
    Draining,
    Detaching,
    Terminating,
    Gone,
}

impl Phase {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Draining => "draining",
            Self::Detaching => "detaching",
            Self::Terminating => "terminating",
            Self::Gone => "gone",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    /// Namespace and name; absent for volumes and the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<String>,
    pub(super) kind: String,
    pub(super) detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forced_at: Option<Timestamp>,
}

impl Drain {
    /// The claim stays the same while nodes come and go; a node without claim is known by its name.
    pub(super) fn key(&self) -> String {
        if self.node_claim.is_empty() { self.node.clone() } else { self.node_claim.clone() }
    }
}

fn time(at: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok())
}

impl From<pb::Drain> for Drain {
    fn from(drain: pb::Drain) -> Self {
        let phase = match drain.phase() {
            pb::DrainPhase::Unspecified => Phase::Unknown,
            pb::DrainPhase::Draining => Phase::Draining,
            pb::DrainPhase::Detaching => Phase::Detaching,
            pb::DrainPhase::Terminating => Phase::Terminating,
            pb::DrainPhase::Gone => Phase::Gone,
        };
        Self {
            phase,
            node: drain.node,
            node_claim: drain.node_claim.unwrap_or_default().name,
            node_pool: drain.node_pool,
            instance_id: drain.instance_id,
            since: time(drain.since),
            deadline: time(drain.deadline),
            reason: drain.reason,
            pods_gone: drain.pods_gone,
            pods_total: drain.pods_total,
            waiting: drain.waiting.into_iter().map(Wait::from).collect(),
        }
    }
}

impl From<pb::Waiting> for Wait {
    fn from(wait: pb::Waiting) -> Self {
        Self {
            pod: wait.pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)),
            kind: wait.kind,
            detail: wait.detail,
            since: time(wait.since),
            forced_at: time(wait.forced_at),
        }
    }
}

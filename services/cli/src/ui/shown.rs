//! What the page shows, in the form in which it reads it: short names, plain numbers, one array a pod.

use serde::Serialize;

/// CPU in thousandths of a core, memory in MiB, money in micro-dollars an hour, times in seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Node {
    pub(crate) claim: String,
    pub(crate) pool: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) zone: String,
    pub(crate) cap: String,
    /// 0 when it is not known.
    pub(crate) price: i64,
    /// Requested, allocatable.
    pub(crate) cpu: [i64; 2],
    pub(crate) mem: [i64; 2],
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) waits: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) taints: Vec<String>,
    pub(crate) pods: Vec<Pod>,
    /// Meant for it and not bound yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) meant: Vec<Pod>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) nominated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) buffers: bool,
}

/// Namespace, name, CPU, memory, priority, and the sum of what [`DAEMON`] and the others stand for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pod(
    pub(crate) String,
    pub(crate) String,
    pub(crate) i64,
    pub(crate) i64,
    pub(crate) i32,
    pub(crate) u8,
);

pub(crate) const DAEMON: u8 = 1;
pub(crate) const DO_NOT_DISRUPT: u8 = 2;
pub(crate) const TERMINATING: u8 = 4;

impl Node {
    pub(super) fn is_ours(&self) -> bool {
        !self.claim.is_empty()
    }

    /// The part of the price that nobody requested, by the resource of which most is requested.
    pub(super) fn waste(&self) -> i64 {
        let unused = |[requested, all]: [i64; 2]| {
            let free = (all - requested).clamp(0, all.max(0));
            i128::from(self.price) * i128::from(free) / i128::from(all.max(1))
        };
        i64::try_from(unused(self.cpu).min(unused(self.mem))).unwrap_or(i64::MAX)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Pending {
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<i64>,
    pub(super) nominated: String,
    pub(super) reason: String,
}

/// One decision, or one removal, or one launch, with its steps so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Decision {
    /// "launch", "disruption" or "removal".
    pub(super) kind: &'static str,
    /// When it began.
    pub(super) at: i64,
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) method: String,
    /// Last word of the steps.
    pub(super) phase: String,
    /// Nothing more will come.
    pub(super) ended: bool,
    pub(super) remove: Vec<String>,
    pub(super) add: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) saving: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moved: Option<u32>,
    pub(super) detail: String,
    /// Named in traces; empty when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) command: String,
    /// When, and what.
    pub(super) steps: Vec<(i64, String)>,
}

impl Decision {
    /// Adds a step unless it is the last one already.
    pub(super) fn step(&mut self, at: i64, what: String) {
        if self.steps.last().is_none_or(|(_, last)| *last != what) {
            self.steps.push((at, what));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Drain {
    pub(super) node: String,
    pub(super) phase: &'static str,
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline: Option<i64>,
    pub(super) total: u32,
    pub(super) gone: u32,
    /// Kind, pod, sentence.
    pub(super) waiting: Vec<(String, String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Candidate {
    pub(super) disruptable: bool,
    /// Rule, sentence, what would change it.
    pub(super) blockers: Vec<(String, String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) saving: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Budget {
    pub(super) pool: String,
    pub(super) reason: String,
    pub(super) allowed: u32,
    pub(super) used: u32,
    pub(super) problem: String,
}

/// What EC2 has run out of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Unavailable {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) cap: &'static str,
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ServiceState {
    /// "connecting", "live" or "lost".
    pub(super) state: &'static str,
    pub(super) detail: String,
    pub(super) since: i64,
}

/// The cluster's cost at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sample {
    pub(super) at: i64,
    /// Pool, capacity type, micro-dollars an hour.
    pub(super) by: Vec<(String, String, i64)>,
    pub(super) waste: i64,
    pub(super) nodes: u32,
    pub(super) pods: u32,
    pub(super) pending: u32,
}

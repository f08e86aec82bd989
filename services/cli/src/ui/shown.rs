//! What the page shows, in the form in which it reads it: short names, plain numbers, one array per pod.

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    pub(crate) pods: Vec<Pod>,
    /// Meant for it and not bound yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) meant: Vec<Pod>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) nominated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) buffers: bool,
}

/// Name, status and reason of a condition.
pub(crate) type Condition = (String, String, String);

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
    pub(crate) fn is_ours(&self) -> bool {
        !self.claim.is_empty()
    }

    /// The part of the price that nobody requested, by the resource of which most is requested.
    pub(crate) fn waste(&self) -> i64 {
        let unused = |[requested, all]: [i64; 2]| {
            let free = (all - requested).clamp(0, all.max(0));
            i128::from(self.price) * i128::from(free) / i128::from(all.max(1))
        };
        i64::try_from(unused(self.cpu).min(unused(self.mem))).unwrap_or(i64::MAX)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pending {
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<i64>,
    pub(crate) nominated: String,
    pub(crate) reason: String,
}

/// One decision, or one removal, or one launch, with its steps so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Decision {
    /// "launch", "disruption", "interruption" or "removal".
    pub(crate) kind: &'static str,
    /// When it began.
    pub(crate) at: i64,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) method: String,
    /// Last word of the steps.
    pub(crate) phase: String,
    /// Nothing more will come.
    pub(crate) ended: bool,
    pub(crate) remove: Vec<String>,
    pub(crate) add: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) saving: Option<i64>,
    /// The saving after the moved pods ran again: less the nodes bought for pods that had found no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) realised: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved: Option<u32>,
    pub(crate) detail: String,
    /// How its trace is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<TraceTag>,
    /// When, and what.
    pub(crate) steps: Vec<(i64, String)>,
}

/// Service whose span carries a tag, the tag's name, and its value.
pub(crate) type TraceTag = (&'static str, &'static str, String);

impl Decision {
    /// Adds a step unless it is the last one already.
    pub(crate) fn step(&mut self, at: i64, what: String) {
        if self.steps.last().is_none_or(|(_, last)| *last != what) {
            self.steps.push((at, what));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Drain {
    pub(crate) node: String,
    pub(crate) phase: &'static str,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<i64>,
    pub(crate) total: u32,
    pub(crate) gone: u32,
    /// Kind, pod, sentence.
    pub(crate) waiting: Vec<(String, String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Candidate {
    pub(crate) disruptable: bool,
    /// Rule, sentence, what would change it.
    pub(crate) blockers: Vec<(String, String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) saving: Option<i64>,
    /// Of the NodeClaim and of the Node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Budget {
    pub(crate) pool: String,
    pub(crate) reason: String,
    pub(crate) allowed: u32,
    pub(crate) used: u32,
    pub(crate) problem: String,
}

/// What no set of nodes for the pods of today can cost less than.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Bound {
    /// Absent when none was found in time, or the provisioner did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount: Option<i64>,
    /// Why it could not be computed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) problem: String,
    pub(crate) at: i64,
}

/// What EC2 has run out of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unavailable {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) zone: String,
    pub(crate) cap: &'static str,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ServiceState {
    /// "connecting", "live" or "lost".
    pub(crate) state: &'static str,
    pub(crate) detail: String,
    pub(crate) since: i64,
}

/// The cluster's cost at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    pub(crate) at: i64,
    /// Pool, capacity type, micro-dollars an hour.
    pub(crate) by: Vec<(String, String, i64)>,
    pub(crate) waste: i64,
    pub(crate) nodes: u32,
    pub(crate) pods: u32,
    pub(crate) pending: u32,
}

//! A pod as draining sees it, and the predicates of the reference about who is evicted and who is waited for.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use jiff::Timestamp;
use model::catalog::LabelMap;
use model::do_not_disrupt::{DoNotDisrupt, Protection};

use super::time::plus_seconds;

/// A terminating pod that is still there this long after its grace period ended is not waited for: its kubelet is gone.
pub const STUCK_AFTER_SECONDS: i64 = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub labels: Arc<LabelMap>,
    pub owner: Owner,
    pub priority: i32,
    pub size: Size,
    /// Priority class `system-cluster-critical` or `system-node-critical`, by name.
    pub critical: bool,
    pub phase: Phase,
    /// Its Ready condition is False.
    pub unhealthy: bool,
    pub deletion: Option<Deletion>,
    /// `terminationGracePeriodSeconds`.
    pub grace_seconds: i64,
    pub started: Option<Timestamp>,
    pub do_not_disrupt: DoNotDisrupt,
    /// Tolerates `karpenter.sh/disrupted:NoSchedule`.
    pub tolerates_disrupted: bool,
    /// Names of the PersistentVolumeClaims it uses, those of generic ephemeral volumes included.
    pub volume_claims: Vec<Arc<str>>,
}

/// What its containers request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    pub cpu_milli: i64,
    pub memory_bytes: i64,
}

/// Whose eviction is asked for first among pods of one group: the lowest priority, and of equal ones the largest, because it is
/// the hardest to place and must not find every gap taken by smaller pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(i32, Reverse<Size>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Daemon,
    /// A static (mirror) pod: it belongs to its node.
    Node,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    /// Succeeded or Failed.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// When its grace period ends: Kubernetes' deletionTimestamp.
    pub ends: Timestamp,
    /// The grace period it was deleted with.
    pub grace_seconds: i64,
}

/// The order in which pods leave: a group starts only when the one before it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Ordinary,
    Daemons,
    Critical,
    CriticalDaemons,
}

impl Group {
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary pods",
            Self::Daemons => "daemons",
            Self::Critical => "critical pods",
            Self::CriticalDaemons => "critical daemons",
        }
    }
}

impl Pod {
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn group(&self) -> Group {
        match (self.critical, self.owner == Owner::Daemon) {
            (false, false) => Group::Ordinary,
            (false, true) => Group::Daemons,
            (true, false) => Group::Critical,
            (true, true) => Group::CriticalDaemons,
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.phase == Phase::Done
    }

    pub fn is_active(&self) -> bool {
        !self.is_terminal() && self.deletion.is_none()
    }

    pub fn is_stuck(&self, now: Timestamp) -> bool {
        self.deletion.is_some_and(|deletion| now > plus_seconds(deletion.ends, STUCK_AFTER_SECONDS))
    }

    pub fn protection(&self, now: Timestamp) -> Protection {
        self.do_not_disrupt.at(self.started.map(Timestamp::as_nanosecond), now.as_nanosecond())
    }

    /// May be asked to leave politely.
    pub fn is_evictable(&self, now: Timestamp) -> bool {
        self.is_active()
            && !self.tolerates_disrupted
            && self.owner != Owner::Node
            && !self.protection(now).is_active()
    }

    /// Can be made to leave at all. A protected pod can: its owner, its end or the deadline lets it go.
    pub fn is_drainable(&self, now: Timestamp) -> bool {
        !self.tolerates_disrupted && self.owner != Owner::Node && !self.is_stuck(now)
    }

    /// Holds the node up.
    pub fn is_awaited(&self, now: Timestamp) -> bool {
        !self.is_terminal() && self.is_drainable(now)
    }

    pub fn rank(&self) -> Rank {
        Rank(self.priority, Reverse(self.size))
    }

    /// A stable order: by group, by rank, then by name.
    pub fn leaving_order(&self, other: &Self) -> Ordering {
        let key = |pod: &Self| (pod.group(), pod.rank());
        let name = |pod: &Self| (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        key(self).cmp(&key(other)).then_with(|| name(self).cmp(&name(other)))
    }
}

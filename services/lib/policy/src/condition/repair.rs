//! Node repair: a node that has said for long enough that it is unhealthy is replaced by force, unless too many say so at once.
//! Then the fault is likely elsewhere, and replacing nodes would only spread it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::drain::time::plus;

/// When nothing may be repaired, it is asked again after so long.
pub const BLOCKED_RETRY: SignedDuration = SignedDuration::from_mins(5);
/// Share of the nodes that may be unhealthy, in percent; rounded up to whole nodes.
const MOST_UNHEALTHY: u64 = 20;

/// What is tolerated, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Type of a node condition.
    pub condition: &'static str,
    pub status: &'static str,
    pub toleration: SignedDuration,
}

const fn policy(condition: &'static str, status: &'static str, minutes: i64) -> Policy {
    Policy { condition, status, toleration: SignedDuration::from_mins(minutes) }
}

/// Of the reference's AWS provider: kubelet's own condition and those of the EKS node monitoring agent.
pub const AWS: [Policy; 7] = [
    policy("Ready", "False", 30),
    policy("Ready", "Unknown", 30),
    policy("AcceleratedHardwareReady", "False", 10),
    policy("StorageReady", "False", 30),
    policy("NetworkingReady", "False", 30),
    policy("KernelReady", "False", 30),
    policy("ContainerRuntimeReady", "False", 30),
];

/// A condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported<'a> {
    pub condition: &'a str,
    pub status: &'a str,
    /// Its last transition.
    pub since: Timestamp,
}

/// How the nodes around it do: those of its pool, or all nodes of the cluster for a claim without pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    pub total: u32,
    /// [`is_unhealthy`], however short the time.
    pub unhealthy: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    Healthy,
    /// Unhealthy, and tolerated until then.
    Tolerated(Timestamp),
    /// Too many are unhealthy.
    Blocked(Blocked),
    /// Delete the claim; this condition is the cause.
    Replace(Policy),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub neighbours: Neighbours,
    pub most: u32,
    pub retry: Timestamp,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Neighbours { total, unhealthy } = self.neighbours;
        write!(
            f,
            "{unhealthy} of {total} nodes are unhealthy and at most {} may be ({MOST_UNHEALTHY} %): none is replaced until \
             fewer are, or somebody has looked what they have in common",
            self.most
        )
    }
}

pub fn is_unhealthy(conditions: &[Reported<'_>], policies: &[Policy]) -> bool {
    policies.iter().any(|policy| matching(conditions, policy).is_some())
}

fn matching<'a>(conditions: &'a [Reported<'a>], policy: &Policy) -> Option<&'a Reported<'a>> {
    conditions.iter().find(|c| c.condition == policy.condition && c.status == policy.status)
}

pub fn repair(
    conditions: &[Reported<'_>],
    policies: &[Policy],
    neighbours: Neighbours,
    now: Timestamp,
) -> Repair {
    let ends = |policy: &Policy| {
        let reported = matching(conditions, policy)?;
        Some((plus(reported.since, policy.toleration), *policy))
    };
    let Some((end, policy)) = policies.iter().filter_map(ends).min_by_key(|(end, _)| *end) else {
        return Repair::Healthy;
    };
    if now < end {
        return Repair::Tolerated(end);
    }
    let most = (u64::from(neighbours.total) * MOST_UNHEALTHY).div_ceil(100);
    if u64::from(neighbours.unhealthy) > most {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        return Repair::Blocked(Blocked { neighbours, most, retry: plus(now, BLOCKED_RETRY) });
    }
    Repair::Replace(policy)
}

/// The deadline to write on a claim that is repaired: now, which makes its drain forceful. `None`: the one it has is over already
/// and stays as it is.
pub fn deadline(written: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    if written.is_some_and(|written| written <= now) { None } else { Some(now) }
}

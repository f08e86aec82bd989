//! Which pods of a node are asked to leave now, which are deleted to meet the deadline, and what holds up each of the
//! others.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use model::do_not_disrupt::Protection;

use super::deadline::{forced_at, forced_grace};
use super::pdb::{self, Block, Pdb};
use super::pod::{Group, Pod, STUCK_AFTER_SECONDS};
use super::time::{plus_seconds, seconds_between};

/// What to do about the pods of one node. Empty lists with `awaited` above zero mean: wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// To be evicted within their budgets: of the first group that has not left yet.
    pub evict: Vec<Arc<Pod>>,
    /// To be deleted with this grace in seconds, whatever protects them: the deadline is near.
    pub delete: Vec<(Arc<Pod>, i64)>,
    /// Pods of all groups that hold the node up.
    pub awaited: usize,
    /// When this answer can change although nothing happens.
    pub look_again: Option<Timestamp>,
}

pub fn leaving(pods: &[Arc<Pod>], deadline: Option<Timestamp>, now: Timestamp) -> Leaving {
    let mut awaited: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_awaited(now)).collect();
    awaited.sort_by(|a, b| a.leaving_order(b));
    let mut plan = Leaving { awaited: awaited.len(), ..Leaving::default() };
    let Some(first) = awaited.first().map(|pod| pod.group()) else { return plan };
    for pod in &awaited {
        let forced = deadline.and_then(|deadline| forced_grace(pod, deadline, now));
        match forced {
            Some(grace) => plan.delete.push((Arc::clone(pod), grace)),
            None if pod.group() == first && pod.is_evictable(now) => plan.evict.push(Arc::clone(pod)),
            None => {}
        }
    }
    plan.look_again = awaited.iter().filter_map(|pod| changes_by_itself(pod, deadline, now)).min();
    plan
}

/// The next moment at which time alone changes what is done about the pod.
fn changes_by_itself(pod: &Pod, deadline: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let stuck = pod.deletion.map(|deletion| plus_seconds(deletion.ends, STUCK_AFTER_SECONDS));
    let unprotected = match pod.protection(now) {
        Protection::Until(end) => Timestamp::from_nanosecond(end).ok(),
        _ => None,
    };
    let forced = deadline.map(|deadline| forced_at(pod, deadline));
    let moments = [stuck, unprotected, forced].into_iter().flatten();
    // All limits are "later than", so the first moment of change lies just behind them.
    moments.filter(|moment| *moment >= now).min().map(|moment| plus_seconds(moment, 1))
}

/// Why a pod has not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its time to end by itself is running.
    Grace {
        seconds: i64,
        left: i64,
    },
    /// The same is over and its object is still there; `gone_in` seconds from now it is no longer waited for.
    Overdue {
        gone_in: i64,
    },
    /// `karpenter.sh/do-not-disrupt`, for good or until a time.
    Protected {
        until: Option<Timestamp>,
        text: String,
    },
    Budget(Block),
    /// Its group has not begun.
    Turn {
        group: Group,
        before: Group,
        pods: usize,
    },
    /// Nothing of the above: its eviction is asked for now.
    Asking,
}

impl Obstacle {
    /// Stable names, for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Grace { .. } | Self::Overdue { .. } => "grace-period",
            Self::Protected { .. } => "do-not-disrupt",
            Self::Budget(_) => "pdb",
            Self::Turn { .. } | Self::Asking => "queue",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grace { seconds, left } => write!(f, "grace period {seconds} s, {left} s left"),
            Self::Overdue { gone_in } => write!(
                f,
                "grace period is over and its kubelet has not confirmed the end; not waited for any more in {gone_in} s"
            ),
            Self::Protected { until: Some(until), .. } => {
                write!(f, "annotation karpenter.sh/do-not-disrupt protects it until {until}")
            }
            Self::Protected { until: None, text } => {
                write!(f, "annotation karpenter.sh/do-not-disrupt={text} protects it")
            }
            Self::Budget(block) => block.fmt(f),
            Self::Turn { group, before, pods } => {
                write!(
                    f,
                    "{} leave after the {}, of which {pods} are still here",
                    group.words(),
                    before.words()
                )
            }
            Self::Asking => f.write_str("eviction is being asked for"),
        }
    }
}

/// One pod that holds a node up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub pod: Arc<Pod>,
    pub obstacle: Obstacle,
    /// When it will be made to leave regardless.
    pub forced_at: Option<Timestamp>,
}

/// Every pod that holds the node up, in the order in which they leave. `pdbs` are those of all namespaces concerned.
pub fn waiting(
    pods: &[Arc<Pod>],
    pdbs: &[Arc<Pdb>],
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Waiting> {
    let mut awaited: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_awaited(now)).collect();
    awaited.sort_by(|a, b| a.leaving_order(b));
    let Some(first) = awaited.first().map(|pod| pod.group()) else { return Vec::new() };
    let in_first = awaited.iter().filter(|pod| pod.group() == first).count();
    let obstacle = |pod: &Pod| {
        if let Some(deletion) = pod.deletion {
            return match seconds_between(now, deletion.ends) {
                left if left >= 0 => Obstacle::Grace { seconds: deletion.grace_seconds, left },
                over => Obstacle::Overdue { gone_in: (STUCK_AFTER_SECONDS + over).max(0) },
            };
        }
        match pod.protection(now) {
            Protection::Until(end) => {
                let until = Timestamp::from_nanosecond(end).ok();
                return Obstacle::Protected { until, text: String::new() };
            }
            Protection::Open => {
                let text = match &pod.do_not_disrupt {
                    model::do_not_disrupt::DoNotDisrupt::For(span) => span.as_str().to_owned(),
                    _ => model::labels::TRUE.to_owned(),
                };
                return Obstacle::Protected { until: None, text };
            }
            Protection::None | Protection::Elapsed(_) => {}
        }
        if pod.group() != first {
            return Obstacle::Turn { group: pod.group(), before: first, pods: in_first };
        }
        pdb::block(pod, pdbs).map_or(Obstacle::Asking, Obstacle::Budget)
    };
    awaited
        .into_iter()
        .map(|pod| Waiting {
            obstacle: obstacle(pod),
            forced_at: deadline.map(|deadline| forced_at(pod, deadline)),
            pod: Arc::clone(pod),
        })
        .collect()
}

//! Whether a running pod may be evicted, and what its eviction costs.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::catalog::LabelMap;
use model::duration::GoDuration;
use model::labels;
use model::taint::{Taint, Toleration};

use super::budget::PodBudget;
use super::pod::{is_terminal, owned_by};

/// What forbids to take a node away from a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    DoNotDisrupt,
    /// This budget allows no eviction at the moment.
    Budget(String),
    /// The eviction API refuses pods that several budgets select.
    SeveralBudgets(Vec<String>),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoNotDisrupt => write!(f, "has {}", labels::DO_NOT_DISRUPT),
            Self::Budget(key) => {
                write!(f, "is held by PodDisruptionBudget {key}, which allows no eviction now")
            }
            Self::SeveralBudgets(keys) => {
                write!(
                    f,
                    "is selected by several PodDisruptionBudgets ({}), so it cannot be evicted",
                    keys.join(", ")
                )
            }
        }
    }
}

/// The annotation's meaning at `now`: `true` protects for good, a positive duration from the pod's start on (without a start
/// time it protects); anything else does not count.
pub fn do_not_disrupt(pod: &Pod, now: Timestamp) -> bool {
    let Some(value) = pod.metadata.annotations.as_ref().and_then(|all| all.get(labels::DO_NOT_DISRUPT))
    else {
        return false;
    };
    if value == labels::TRUE {
        return true;
    }
    let Ok(length) = value.parse::<GoDuration>() else { return false };
    if length.nanos() <= 0 {
        return false;
    }
    match pod.status.as_ref().and_then(|s| s.start_time.as_ref()) {
        Some(start) => now.as_nanosecond() - start.0.as_nanosecond() < i128::from(length.nanos()),
        None => true,
    }
}

/// Neither finished nor on its way out.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Budgets matter only for pods that would be evicted at all.
fn is_evictable(pod: &Pod, tolerations: &[Toleration], now: Timestamp) -> bool {
    is_active(pod)
        && !Taint::disrupted().is_tolerated_by(tolerations)
        && !owned_by(pod, "v1", "Node")
        && !do_not_disrupt(pod, now)
}

fn unready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Ready" && c.status == "False")
}

/// The budgets that stand in the way, if any: `blocks` says which of them do when only one selects the pod.
fn held<'a>(
    pod: &Pod,
    labels: &LabelMap,
    budgets: &'a [PodBudget],
    blocks: impl Fn(&PodBudget) -> bool,
) -> Vec<&'a PodBudget> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let covering: Vec<&PodBudget> = budgets.iter().filter(|b| b.covers(namespace, labels)).collect();
    match covering.as_slice() {
        [only] if (only.lets_unready_go && unready(pod)) || !blocks(only) => Vec::new(),
        _ => covering,
    }
}

/// Whether the pod's node may not be disrupted gracefully because of it (candidate rule).
pub fn obstacle(
    pod: &Pod,
    labels: &LabelMap,
    tolerations: &[Toleration],
    budgets: &[PodBudget],
    now: Timestamp,
) -> Option<Obstacle> {
    if is_active(pod) && do_not_disrupt(pod, now) {
        return Some(Obstacle::DoNotDisrupt);
    }
    if !is_evictable(pod, tolerations, now) {
        return None;
    }
    let held = held(pod, labels, budgets, |b| b.disruptions_allowed == 0);
    match held.as_slice() {
        [] => None,
        [only] => Some(Obstacle::Budget(only.key())),
        several => Some(Obstacle::SeveralBudgets(several.iter().map(|b| b.key()).collect())),
    }
}

/// Whether no amount of waiting would let the pod go (simulation rule): then it needs no new place.
pub fn fully_blocked(
    pod: &Pod,
    labels: &LabelMap,
    tolerations: &[Toleration],
    budgets: &[PodBudget],
    now: Timestamp,
) -> bool {
    is_evictable(pod, tolerations, now) && !held(pod, labels, budgets, |b| b.forbids_all).is_empty()
}

/// Eviction costs are counted in units of 2^-27, so that the sums are exact.
const COST_UNIT: i64 = 1 << 27;
const COST_LIMIT: i64 = 10 * COST_UNIT;

/// `1 + deletion cost / 2^27 + priority / 2^25`, within ±10, in units of [`COST_UNIT`]. A deletion cost that is no number
/// does not count.
pub fn eviction_cost(pod: &Pod, priority: i32) -> i64 {
    let annotation = pod.metadata.annotations.as_ref().and_then(|all| all.get(labels::POD_DELETION_COST));
    let deletion_cost: i64 = annotation.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0).into();
    (COST_UNIT + deletion_cost + 4 * i64::from(priority)).clamp(-COST_LIMIT, COST_LIMIT)
}

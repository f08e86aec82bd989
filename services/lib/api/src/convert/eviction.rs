//! Whether a running pod may be evicted, and what its eviction costs.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::catalog::LabelMap;
use model::do_not_disrupt::DoNotDisrupt;
use model::taint::{Taint, Toleration};
use model::{eviction, labels};

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

/// Its annotation protects it at `now`.
pub fn do_not_disrupt(pod: &Pod, now: Timestamp) -> bool {
    let annotation = pod.metadata.annotations.as_ref().and_then(|all| all.get(labels::DO_NOT_DISRUPT));
    let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let started = started.map(|time| time.0.as_nanosecond());
    DoNotDisrupt::parse(annotation.map(String::as_str)).at(started, now.as_nanosecond()).is_active()
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
    eviction::holding(covering, unready(pod), |only| !blocks(only), |only| only.lets_unready_go)
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

/// What its eviction costs, by [`eviction::eviction_cost`].
pub fn eviction_cost(pod: &Pod, priority: i32) -> i64 {
    let annotation = pod.metadata.annotations.as_ref().and_then(|all| all.get(labels::POD_DELETION_COST));
    eviction::eviction_cost(annotation.map(String::as_str), priority)
}

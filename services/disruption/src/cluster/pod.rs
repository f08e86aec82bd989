//! A bound pod, reduced to what decisions about its node need.

use std::sync::Arc;

use api::convert::owned_by;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use model::labels;
use model::quantity::Quantity;
use policy::candidate::{Resident, eviction_cost};
use policy::drain;
use policy::drain::pod::Owner;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodState {
    pub(crate) resident: Arc<Resident>,
    /// When it last was bound, began to leave or ended, by its own timestamps.
    pub(crate) touched: Option<Timestamp>,
    /// Millicores and bytes that it requests.
    pub(crate) requests: (i64, i64),
}

impl PodState {
    pub(crate) fn of(pod: &Pod, shared: &mut residents::Labels) -> Option<(Arc<str>, Self)> {
        let (node, drain) = residents::pod(pod, shared)?;
        let spec = pod.spec.as_ref()?;
        let mut requests = (0, 0);
        for container in &spec.containers {
            let amounts = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            let amount = |name: &str| amounts?.get(name)?.0.parse::<Quantity>().ok();
            requests.0 += amount("cpu").map_or(0, Quantity::milli_ceil);
            requests.1 += amount("memory").map_or(0, Quantity::value_ceil);
        }
        let cost = pod.metadata.annotations.as_ref().and_then(|all| all.get(labels::POD_DELETION_COST));
        let state = Self {
            touched: touched(pod, &drain),
            requests,
            resident: Arc::new(Resident {
                stateful: owned_by(pod, "apps/v1", "StatefulSet"),
                eviction_cost: eviction_cost(cost.map(String::as_str), spec.priority.unwrap_or(0)),
                pod: drain,
            }),
        };
        Some((node, state))
    }
}

/// The reference counts binding, the end, and the beginning of the end. Taken from the pod itself, so that a restart of this
/// process is no event.
fn touched(pod: &Pod, drain: &drain::Pod) -> Option<Timestamp> {
    if drain.owner == Owner::Daemon {
        return None;
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let at = |type_: &str| {
        let found = conditions.iter().find(|condition| condition.type_ == type_)?;
        Some(found.last_transition_time.as_ref()?.0)
    };
    let bound = at("PodScheduled").or_else(|| Some(pod.metadata.creation_timestamp.as_ref()?.0));
    // A pod that ended is not ready any more, since then.
    let ended = if drain.is_terminal() { at("Ready") } else { None };
    let leaving = drain.deletion.map(|deletion| {
        deletion.ends.checked_sub(SignedDuration::from_secs(deletion.grace_seconds)).unwrap_or(deletion.ends)
    });
    [bound, ended, leaving].into_iter().flatten().max()
}

//! A node from launch to deletion: the merge of a Node object and its NodeClaim.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSINode;
use model::labels;
use model::node::{Node, NodeState};
use model::resources::Resources;
use model::taint::{Effect, Taint, UnknownName};

use super::error::{At, Error, Invalid};
use super::quantities::{amounts, quantities};
use crate::conditions::{Condition, ConditionStatus};
use crate::nodeclaim::NodeClaim;

/// What is known of a node beyond its objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFacts {
    /// Marked in memory, before any object says so.
    pub marked_for_deletion: bool,
    /// Pods were promised to it recently.
    pub nominated: bool,
    /// Within `consolidateAfter` of its last pod event.
    pub settling: bool,
}

/// At least one of `object` and `claim` must be given; they share a provider id. `Ok(None)` where neither is, and where a
/// Node of ours cannot be understood yet (no instance type and not initialised).
pub fn node(
    object: Option<&core::Node>,
    claim: Option<&NodeClaim>,
    csi: Option<&CSINode>,
    facts: NodeFacts,
) -> Result<Option<Node>, Error> {
    let node_labels = object.and_then(|n| n.metadata.labels.as_ref());
    let label = |key: &str| node_labels.and_then(|all| all.get(key)).map(String::as_str);
    let managed = claim.is_some();
    let registered = object.is_some() && (!managed || label(labels::REGISTERED) == Some(labels::TRUE));
    let initialized = object.is_some() && (!managed || label(labels::INITIALIZED) == Some(labels::TRUE));
    let half_made = object.is_some()
        && claim.is_none()
        && label(labels::NODEPOOL).is_some()
        && label(labels::INSTANCE_TYPE).is_none()
        && label(labels::INITIALIZED) != Some(labels::TRUE);
    let node_name = object.and_then(|n| n.metadata.name.as_deref());
    let claim_name = claim.and_then(|c| c.metadata.name.as_deref());
    let name = if registered { node_name } else { claim_name.or(node_name) };
    let Some(name) = name.filter(|_| !half_made) else { return Ok(None) };

    let own_labels = if registered { node_labels } else { claim.and_then(|c| c.metadata.labels.as_ref()) };
    let merged = own_labels.or(node_labels).cloned().unwrap_or_default();
    let node_error = |invalid: Invalid| invalid.of("Node", None, Some(name));
    let claim_error = |invalid: Invalid| invalid.of("NodeClaim", None, Some(name));
    let taints = match (object, claim) {
        (Some(object), _) if registered => taints_of_node(object).map_err(node_error)?,
        (_, Some(claim)) => taints_of(claim.spec.taints.as_deref(), &At::Root.key("spec").key("taints"))
            .map_err(claim_error)?,
        (Some(object), None) => taints_of_node(object).map_err(node_error)?,
        (None, None) => Vec::new(),
    };
    let startup_taints = match claim {
        Some(claim) => {
            taints_of(claim.spec.startup_taints.as_deref(), &At::Root.key("spec").key("startupTaints"))
                .map_err(claim_error)?
        }
        None => Vec::new(),
    };
    let (capacity, allocatable) = {
        let at = At::Root;
        let status_at = at.key("status");
        let status = object.and_then(|n| n.status.as_ref());
        let capacity_at = status_at.key("capacity");
        let allocatable_at = status_at.key("allocatable");
        let mut capacity =
            quantities(status.and_then(|s| s.capacity.as_ref()), &capacity_at).map_err(node_error)?;
        let mut allocatable =
            quantities(status.and_then(|s| s.allocatable.as_ref()), &allocatable_at).map_err(node_error)?;
        if let Some(expected) = claim.and_then(|c| c.status.as_ref()).filter(|_| !initialized) {
            fill(&mut capacity, amounts(expected.capacity.as_ref(), &capacity_at).map_err(claim_error)?);
            fill(
                &mut allocatable,
                amounts(expected.allocatable.as_ref(), &allocatable_at).map_err(claim_error)?,
            );
        }
        (capacity, allocatable)
    };
    Ok(Some(Node {
        name: Arc::from(name),
        claim: claim_name.map(Arc::from),
        pool: merged.get(labels::NODEPOOL).map(|pool| Arc::from(pool.as_str())),
        labels: merged,
        taints,
        startup_taints,
        allocatable,
        capacity,
        state: state(object, claim, registered, facts),
        registered: object.is_some() && registered,
        initialized: initialized || (!managed && object.is_some()),
        nominated: facts.nominated,
        settling: facts.settling,
        csi_limits: csi_limits(csi),
    }))
}

fn state(
    object: Option<&core::Node>,
    claim: Option<&NodeClaim>,
    registered: bool,
    facts: NodeFacts,
) -> NodeState {
    let claim_is_going = claim.is_some_and(|c| {
        let terminating =
            |c: &Condition| c.type_ == "InstanceTerminating" && c.status == ConditionStatus::True;
        c.metadata.deletion_timestamp.is_some()
            || c.status.iter().flat_map(|s| s.conditions.iter().flatten()).any(terminating)
    });
    let node_is_going = claim.is_none() && object.is_some_and(|n| n.metadata.deletion_timestamp.is_some());
    let ready = object.is_some_and(|n| {
        let conditions = n.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
    });
    if facts.marked_for_deletion || claim_is_going || node_is_going {
        NodeState::Deleting
    } else if registered && ready {
        NodeState::Ready
    } else {
        NodeState::InFlight
    }
}

/// Zero and absent amounts are taken from what the instance type promises: kubelets start with zero devices.
fn fill(amounts: &mut Resources, expected: Resources) {
    for (name, amount) in expected {
        if amounts.get(&name).is_zero() {
            amounts.insert(name, amount);
        }
    }
}

fn taints_of_node(object: &core::Node) -> Result<Vec<Taint>, Invalid> {
    let at = At::Root;
    let spec_at = at.key("spec");
    let list_at = spec_at.key("taints");
    let taints = object.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    taints.iter().enumerate().map(|(index, taint)| node_taint(taint, &list_at.index(index))).collect()
}

/// A taint of the core API.
pub fn node_taint(taint: &core::Taint, at: &At<'_>) -> Result<Taint, Invalid> {
    let effect = effect(&taint.effect, at)?;
    Ok(Taint::new(taint.key.as_str(), taint.value.as_deref().unwrap_or_default(), effect))
}

/// Taints of a NodePool or a NodeClaim.
pub(super) fn taints_of(taints: Option<&[crate::taint::Taint]>, at: &At<'_>) -> Result<Vec<Taint>, Invalid> {
    let taints = taints.unwrap_or_default().iter().enumerate();
    taints
        .map(|(index, taint)| {
            let effect = effect(taint.effect.as_str(), &at.index(index))?;
            Ok(Taint::new(taint.key.as_str(), taint.value.as_deref().unwrap_or_default(), effect))
        })
        .collect()
}

fn effect(text: &str, at: &At<'_>) -> Result<Effect, Invalid> {
    text.parse().map_err(|error: UnknownName| at.key("effect").invalid(error))
}

/// A driver without a count is not limited.
fn csi_limits(csi: Option<&CSINode>) -> BTreeMap<Arc<str>, u32> {
    csi.iter()
        .flat_map(|c| &c.spec.drivers)
        .filter_map(|driver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((Arc::from(driver.name.as_str()), u32::try_from(count).unwrap_or(0)))
        })
        .collect()
}

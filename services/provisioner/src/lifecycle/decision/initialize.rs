//! Initialization: the Node is ready for pods. There is no time limit; a node that never gets there is a case for a person or
//! for node repair.

use api::NodeClaim;
use api::conditions::{ConditionStatus, Finding};
use k8s_openapi::api::core::v1::{Node, Taint};
use model::labels;
use model::quantity::Quantity;
use model::taint::EPHEMERAL;

use super::{INITIALIZED, Observed, Step};

pub(super) fn step(seen: &Observed<'_>) -> Option<Step> {
    if seen.status(INITIALIZED) != ConditionStatus::Unknown {
        return None;
    }
    let [node] = seen.nodes else {
        let message = match seen.nodes.len() {
            0 => "the claim's Node is gone from the cluster",
            _ => "several Nodes have the claim's provider id",
        };
        return seen.note(INITIALIZED, Finding::open("NodeNotFound", message));
    };
    match gate(seen.claim, node) {
        Some(finding) => seen.note(INITIALIZED, finding),
        None => Some(Step::Initialize(node.metadata.name.clone().unwrap_or_default())),
    }
}

/// The first thing that is in the way, in the reference's order; `None` when nothing is.
pub(crate) fn gate(claim: &NodeClaim, node: &Node) -> Option<Finding> {
    let status = node.status.as_ref();
    let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
    match conditions.find(|c| c.type_ == "Ready") {
        Some(ready) if ready.status == "True" => {}
        Some(ready) => {
            let why = ready.message.as_deref().or(ready.reason.as_deref()).unwrap_or("no reason given");
            let message = format!("the Node's condition Ready is {}: {why}", ready.status);
            return Some(Finding::open("NodeNotReady", message));
        }
        None => return Some(Finding::open("NodeNotReady", "the Node has no condition Ready yet")),
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let startup = claim.spec.startup_taints.as_deref().unwrap_or_default();
    let is_startup =
        |t: &&Taint| startup.iter().any(|own| own.key == t.key && own.effect.as_str() == t.effect);
    if let Some(taint) = taints.iter().find(is_startup) {
        return Some(Finding::open(
            "StartupTaintsExist",
            format!("startup taint {} is still there", told(taint)),
        ));
    }
    if let Some(taint) = taints.iter().find(|taint| is_ephemeral(taint)) {
        let message = format!("taint {} of starting nodes is still there", told(taint));
        return Some(Finding::open("KnownEphemeralTaintsExist", message));
    }
    unregistered_resource(claim, node).map(|name| {
        let message = format!("resource {name} was requested and is not in the Node's allocatable yet");
        Finding::open("ResourceNotRegistered", message)
    })
}

fn told(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

fn is_ephemeral(taint: &Taint) -> bool {
    taint.key.starts_with(labels::READINESS_TAINT_PREFIX)
        || EPHEMERAL.iter().any(|(key, effect)| taint.key == *key && taint.effect == effect.as_str())
}

fn unregistered_resource<'a>(claim: &'a NodeClaim, node: &Node) -> Option<&'a str> {
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let is_there = |name: &str| {
        let amount =
            allocatable.and_then(|all| all.get(name)).and_then(|amount| amount.0.parse::<Quantity>().ok());
        amount.is_some_and(|amount| !amount.is_zero())
    };
    requests.into_iter().flatten().find_map(|(name, wanted)| {
        // An amount that does not parse was never checked by anybody; it asks for something.
        let asked = wanted.text().parse::<Quantity>().map_or(true, |amount| !amount.is_zero());
        (asked && !is_there(name)).then_some(name.as_str())
    })
}

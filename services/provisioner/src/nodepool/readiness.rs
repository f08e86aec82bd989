//! Whether the class of a pool can be used, and whether the pool itself makes sense.

use api::conditions::{self, ConditionStatus, Finding, READY};
use api::{EC2NodeClass, NodePool, validate};

/// Condition `NodeClassReady`.
pub(super) fn node_class_ready(name: &str, class: Option<&EC2NodeClass>) -> Finding {
    let Some(class) = class else {
        return Finding::fails("NodeClassNotFound", format!("there is no EC2NodeClass {name}"));
    };
    if class.metadata.deletion_timestamp.is_some() {
        return Finding::fails("NodeClassTerminating", format!("EC2NodeClass {name} is being deleted"));
    }
    let list = class.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    match conditions::find(list, READY) {
        Some(ready) if ready.status == ConditionStatus::True => Finding::holds(),
        Some(ready) if ready.status == ConditionStatus::False => {
            Finding::fails(ready.reason.clone(), ready.message.clone())
        }
        _ => Finding::fails(
            "NodeClassReadinessUnknown",
            format!("EC2NodeClass {name} does not say yet whether it is ready"),
        ),
    }
}

/// Condition `ValidationSucceeded`.
pub(super) fn validation(pool: &NodePool) -> Finding {
    let problems = validate::node_pool(pool);
    if problems.is_empty() {
        return Finding::holds();
    }
    Finding::fails("NodePoolValidationFailed", validate::message(&problems))
}

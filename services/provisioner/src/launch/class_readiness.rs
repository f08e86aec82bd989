//! Whether a class may be launched from.

use api::EC2NodeClass;
use api::conditions::{self, ConditionSet, ConditionStatus, READY};

use super::error::LaunchError;

/// A class that is not ready launches nothing.
pub(super) fn check_class(class: &EC2NodeClass, reserved_capacity: bool) -> Result<(), LaunchError> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    if class.metadata.deletion_timestamp.is_some() {
        return Err(LaunchError::insufficient(format!("EC2NodeClass {name} is being deleted")));
    }
    let conditions = class.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let root = conditions::find(conditions, READY);
    let told = root.map(|c| c.message.clone()).unwrap_or_default();
    match conditions::status(conditions, READY) {
        ConditionStatus::True => {}
        ConditionStatus::False => {
            return Err(LaunchError::not_ready(format!("EC2NodeClass {name} is not ready: {told}")));
        }
        _ => {
            let text = format!("whether EC2NodeClass {name} is ready is not known yet: {told}");
            return Err(LaunchError::retryable("NodeClassReadinessUnknown", text));
        }
    }
    if !ConditionSet::ec2_node_class(reserved_capacity).is_ready(conditions, &class.metadata) {
        let text = format!("EC2NodeClass {name} has changed and is not looked at again yet");
        return Err(LaunchError::not_ready(text));
    }
    match crate::nodeclass::forbidden_tag(class) {
        Some(key) => {
            Err(LaunchError::not_ready(format!("EC2NodeClass {name}: tag {key} is the autoscaler's own")))
        }
        None => Ok(()),
    }
}

//! Says on every NodeOverlay what became of it. All replicas come to the same verdict; whoever writes first wins, and the
//! others find nothing left to write.

use std::sync::Arc;

use api::NodeOverlay;
use api::conditions::{ConditionSet, Finding};
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tracing::{debug, warn};

use super::judge::Verdict;
use crate::store::FIELD_MANAGER;

const VALIDATION: &str = "ValidationSucceeded";

/// The status patch that states `verdict`; `None` when the object says so already.
fn patch(object: &NodeOverlay, verdict: &Verdict, now: Timestamp) -> Option<Value> {
    let mut conditions = object.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let finding = match verdict {
        Verdict::Valid => Finding::holds(),
        Verdict::Conflict(why) => Finding::fails("Conflict", why),
        Verdict::Invalid(why) => Finding::fails("RuntimeValidation", why),
    };
    let changed = ConditionSet::NODE_OVERLAY.set(&mut conditions, &object.metadata, VALIDATION, finding, now);
    changed.then(|| {
        json!({
            // What was read: somebody else's newer status is not overwritten.
            "metadata": {"resourceVersion": object.metadata.resource_version},
            "status": {"conditions": conditions},
        })
    })
}

/// Failures are not retried here: the watch brings the newer object, or the next evaluation comes.
pub(super) async fn write(client: &Client, object: &Arc<NodeOverlay>, verdict: &Verdict) {
    let Some(body) = patch(object, verdict, Timestamp::now()) else { return };
    let api: Api<NodeOverlay> = Api::all(client.clone());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let name = object.name_any();
    match api.patch_status(&name, &params, &Patch::Merge(body)).await {
        Ok(_) => debug!(nodeoverlay = name, ?verdict, "status written"),
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
            debug!(nodeoverlay = name, "changed or deleted meanwhile");
        }
        Err(error) => warn!(nodeoverlay = name, %error, "could not write the status of a NodeOverlay"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> NodeOverlay {
        let mut object = NodeOverlay::default();
        object.metadata.name = Some("one".into());
        object.metadata.generation = Some(3);
        object.metadata.resource_version = Some("17".into());
        object
    }

    fn condition<'a>(patch: &'a Value, kind: &str) -> &'a Value {
        let all = patch["status"]["conditions"].as_array().unwrap();
        all.iter().find(|c| c["type"] == kind).unwrap()
    }

    // Cases: SCH-O-3, SCH-O-4
    #[test]
    fn a_verdict_is_stated_once_and_ready_follows_it() {
        let mut object = object();
        for (verdict, status, reason) in [
            (Verdict::Valid, "True", "ValidationSucceeded"),
            (Verdict::Conflict("with b".into()), "False", "Conflict"),
            (Verdict::Invalid("cpu".into()), "False", "RuntimeValidation"),
        ] {
            let stated = patch(&object, &verdict, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(stated["metadata"]["resourceVersion"], "17");
            let validation = condition(&stated, VALIDATION);
            assert_eq!((&validation["status"], &validation["reason"]), (&json!(status), &json!(reason)));
            assert_eq!(validation["observedGeneration"], 3);
            assert_eq!(condition(&stated, "Ready")["status"], status);
            object.status = Some(serde_json::from_value(stated["status"].clone()).unwrap());
            assert_eq!(patch(&object, &verdict, Timestamp::now()), None, "nothing new to say");
        }
    }
}

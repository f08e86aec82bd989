//! Writes to a class, and the Events that tell of changed conditions.

use anyhow::Context as _;
use api::EC2NodeClass;
use api::conditions::{self, ConditionSet, READY};
use api::ec2nodeclass::EC2NodeClassStatus;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource as _};
use runtime::events::Event;
use serde_json::{Value, json};

use super::FIELD_MANAGER;
use super::reconcile::Visit;

impl Visit {
    pub(super) async fn patch(&self, class: &EC2NodeClass, patch: &Value) -> Result<(), kube::Error> {
        let api: Api<EC2NodeClass> = Api::all(self.kube.clone());
        let name = class.metadata.name.as_deref().unwrap_or_default();
        api.patch(name, &params(), &Patch::Merge(patch)).await.map(drop)
    }

    /// Whole, with the resource version that it was made from.
    pub(super) async fn write_status(
        &self,
        class: &EC2NodeClass,
        status: &EC2NodeClassStatus,
    ) -> anyhow::Result<()> {
        let api: Api<EC2NodeClass> = Api::all(self.kube.clone());
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let mut written = serde_json::to_value(status).context("write the status as JSON")?;
        // A field that is gone must be named, or a merge keeps it.
        for field in ["amis", "subnets", "securityGroups", "capacityReservations", "instanceProfile"] {
            if written.get(field).is_none() {
                written[field] = Value::Null;
            }
        }
        let patch = json!({
            "metadata": {"resourceVersion": class.metadata.resource_version},
            "status": written,
        });
        api.patch_status(name, &params(), &Patch::Merge(&patch)).await.map(drop).context("write the status")
    }

    /// An Event for each condition whose status is another.
    pub(super) fn tell(&self, class: &EC2NodeClass, status: &EC2NodeClassStatus) {
        let before = class.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let after = status.conditions.as_deref().unwrap_or_default();
        let set = ConditionSet::ec2_node_class(self.reserved_capacity);
        for type_ in set.dependents().iter().copied().chain([READY]) {
            let (old, new) = (conditions::status(before, type_), conditions::status(after, type_));
            let Some(condition) = conditions::find(after, type_).filter(|_| old != new) else { continue };
            let text = format!(
                "Status condition transitioned, Type: {type_}, Status: {old} -> {new}, Reason: {}",
                condition.reason
            );
            let told = if condition.message.is_empty() {
                text
            } else {
                format!("{text}, Message: {}", condition.message)
            };
            self.recorder
                .publish(Event::normal(class.object_ref(&()), type_, told).distinct([new.to_string()]));
        }
    }
}

pub(super) fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

pub(super) fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

pub(super) fn is_conflict(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<kube::Error>();
    matches!(status, Some(kube::Error::Api(status)) if status.code == 409)
}

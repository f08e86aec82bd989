//! The end of a class: it waits for its claims, then takes along what was made for it.

use std::time::Duration;

use anyhow::Context as _;
use api::EC2NodeClass;
use kube::Resource as _;
use model::labels;
use runtime::events::Event;
use serde_json::json;
use tracing::info;

use super::reconcile::{Next, Visit};
use super::write::is_gone;

/// How often an ending class looks whether its claims are gone.
const WAIT_FOR_CLAIMS: Duration = Duration::from_secs(5);

impl Visit {
    /// A class ends when no claim needs it: profiles and launch templates go, then the object may.
    pub(super) async fn finalize(&self, class: &EC2NodeClass) -> anyhow::Result<Next> {
        let name = class.metadata.name.clone().unwrap_or_default();
        let finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|f| f == labels::EC2NODECLASS_FINALIZER) {
            return Ok(Next::Wait);
        }
        let claims = self.claims_of(class).await?;
        if !claims.is_empty() {
            let names: Vec<String> = claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect();
            let more = names.len().saturating_sub(5);
            let shown = names.into_iter().take(5).collect::<Vec<_>>().join(", ");
            let rest = if more > 0 { format!(" and {more} other(s)") } else { String::new() };
            let text = format!("Waiting on NodeClaim termination for {shown}{rest}");
            self.recorder.publish(Event::normal(
                class.object_ref(&()),
                "WaitingOnNodeClaimTermination",
                text,
            ));
            return Ok(Next::After(WAIT_FOR_CLAIMS));
        }
        if !self.isolated_vpc {
            self.profiles.delete_of_class(class).await.context("delete instance profiles")?;
        }
        self.templates.delete_of_class(&name).await.context("delete launch templates")?;
        let left: Vec<String> =
            finalizers.into_iter().filter(|f| f != labels::EC2NODECLASS_FINALIZER).collect();
        let patch = json!({"metadata": {
            "resourceVersion": class.metadata.resource_version,
            "finalizers": left,
        }});
        match self.patch(class, &patch).await {
            Ok(()) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error).context("remove the finalizer"),
        }
        self.validation.forget(&name);
        self.resolved.remove(&name);
        self.recorder.publish(Event::normal(
            class.object_ref(&()),
            "Finalized",
            format!("Finalized {}", labels::EC2NODECLASS_FINALIZER),
        ));
        info!(ec2nodeclass = name, "finalized EC2NodeClass");
        Ok(Next::Wait)
    }
}

//! Messages that anybody who may write to the queue can send, and that EC2 knows nothing of.

use anyhow::{Context as _, Result, ensure};
use integration::{Stack, eventually, kubernetes};
use kube::api::DeleteParams;
use serde_json::json;

use crate::interruption_scene::{Interruptions, send, spot_warning};

pub(super) async fn a_warning_that_ec2_does_not_confirm_drains_within_budgets(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "forged", &[]).await?;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    all.scene.node_is_ready(&name, true).await?;
    all.scene.budget("held", json!({"maxUnavailable": 0})).await?;
    all.scene.pod("held", &name, json!({})).await?;
    send(all.stack(), &[spot_warning(all.stack(), &instance)?])?;
    let event = all.told_once(&instance, "MESSAGE_KIND_SPOT_INTERRUPTED").await?;
    let detail = event["detail"].as_str().unwrap_or_default();
    ensure!(event["action"] == "ACTION_DRAIN" && detail.contains("EC2 has not confirmed"), "{event}");
    eventually("the drain to have begun", || async {
        let claim = all.claims().await?.get(&name).await?;
        Ok(claim.metadata.deletion_timestamp.is_some().then_some(()))
    })
    .await?;
    let annotations = all.claims().await?.get(&name).await?.metadata.annotations.unwrap_or_default();
    let deadline = annotations.get("karpenter.sh/nodeclaim-termination-timestamp");
    ensure!(
        deadline.is_none(),
        "an end past the budget at {deadline:?} by a message that EC2 does not confirm"
    );
    ensure!(all.scene.pods().get_opt("held").await?.is_some(), "the pod went past its budget");

    let budgets = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                         "metadata": {"namespace": all.scene.namespace}});
    let budgets = kubernetes::api_of(&all.scene.client, &budgets).await.context("budgets")?;
    budgets.delete("held", &DeleteParams::default()).await?;
    all.scene.is_gone(&name, &instance).await?;
    all.queue_is_empty().await?;
    all.end()
}

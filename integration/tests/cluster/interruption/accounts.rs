//! Messages of other AWS accounts, as an event bus that serves several accounts delivers them.

use anyhow::{Context as _, Result, ensure};
use integration::{Service, Stack, eventually};
use serde_json::{Value, json};

use crate::interruption_scene::{Interruptions, SERVICE, send, spot_warning};

const OTHER: &str = "999999999999";
const KIND: &str = "MESSAGE_KIND_SPOT_INTERRUPTED";
const REFUSED: &str = "karpenter_interruption_refused_messages_total";

pub(super) async fn a_message_of_another_account_is_refused_unless_a_setting_names_it(
    stack: Stack,
) -> Result<()> {
    let mut all = Interruptions::new(stack, "account", &[]).await?;
    let name = all.scene.name(1);
    let instance = all.spot_node(&name).await?;
    all.scene.node_is_ready(&name, true).await?;

    send(all.stack(), &[warning_of_other(all.stack(), &instance, "refused")?])?;
    let event = all.told_once(&instance, KIND).await?;
    let detail = event["detail"].as_str().unwrap_or_default();
    ensure!(event["action"] == "ACTION_NONE", "{event}");
    ensure!(detail.contains(OTHER) && detail.contains("--event-accounts"), "{event}");
    all.queue_is_empty().await?;
    // SQS may deliver a message more than once.
    ensure!(all.watcher.metric(REFUSED, "reason=\"account\"")? >= 1.0, "the refusal is not counted");
    let log = all.stack().dir().join(format!("log/{}.log", all.watcher.identity()));
    let text = std::fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
    let logged = text.lines().any(|line| line.contains("message refused") && line.contains(&instance));
    ensure!(logged, "the refusal is not in the log");
    let claim = all.claims().await?.get(&name).await?;
    ensure!(claim.metadata.deletion_timestamp.is_none(), "a message of another account ended {name}");

    all.watcher.stop(all.stack())?;
    all.watcher = Service::start(all.stack(), SERVICE, 1, &[&format!("--event-accounts={OTHER}")])?;
    send(all.stack(), &[warning_of_other(all.stack(), &instance, "accepted")?])?;
    eventually("the drain that the message asks for", || async {
        let told = all.told(&instance)?;
        Ok(told.into_iter().find(|event| event["kind"] == KIND && event["action"] == "ACTION_DRAIN"))
    })
    .await?;
    all.scene.is_gone(&name, &instance).await?;
    ensure!(all.watcher.metric(REFUSED, "")? == 0.0, "refused although the setting names the account");
    all.queue_is_empty().await?;
    all.end()
}

fn warning_of_other(stack: &Stack, instance: &str, id: &str) -> Result<String> {
    let mut body: Value = serde_json::from_str(&spot_warning(stack, instance)?)?;
    body["account"] = json!(OTHER);
    body["id"] = json!(id);
    Ok(body.to_string())
}

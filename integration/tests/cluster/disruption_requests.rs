//! What a person can ask for: a command taken back, a pool left alone for a while, a pool evaluated at once; and what of a command
//! is seen with kubectl and Prometheus.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Stack, Test, aws, eventually, test};
use kube::ResourceExt as _;
use kube::api::Api;
use model::labels;
use proto::disruption::v1::{Command, CommandPhase};
use serde_json::{Value, json};

use crate::disruption_scene::{QUICK, Scene, pool};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, a_command_is_taken_back_when_a_person_asks),
        test!("disruption", alone, a_paused_pool_begins_nothing_until_it_is_resumed),
        test!("disruption", alone, a_pool_is_evaluated_once_when_its_annotation_asks),
    ]
}

/// Makes every node of the pool drift.
async fn drift(scene: &Scene, team: &str) -> Result<()> {
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": team}}}})).await?;
    scene.all_claims("Drifted", true).await
}

async fn command_about(scene: &Scene, node: &str, phase: CommandPhase) -> Result<Command> {
    eventually(&format!("a command with {node} in {phase:?}"), || async {
        let is = |c: &Command| c.phase() == phase && c.remove_nodes.iter().any(|name| name == node);
        Ok(scene.commands().await?.into_iter().find(is))
    })
    .await
}

// Cases: TNT-2, DRC-21
async fn a_command_is_taken_back_when_a_person_asks(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "cancel", pool(json!({"consolidateAfter": "Never"}))).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    // Boots that outlast the test: the command waits for its replacement.
    let slow = json!({"match": {"karpenter.sh/nodepool": scene.workload.name}, "bootDelayMs": 600_000});
    aws::put(&scene.stack, "/boot", &slow)?;
    drift(&scene, "new").await?;
    let id = command_about(&scene, &node, CommandPhase::Replacing).await?.id;
    let replacement = eventually("its replacement to be ordered", || async {
        let commands = scene.commands().await?;
        let own = commands.into_iter().find(|command| command.id == id).context("the command")?;
        Ok(own.replacements.into_iter().next())
    })
    .await?;
    // It is not proposed again at once.
    scene.patch_pool(json!({"disruption": {"budgets": [{"nodes": "0"}]}})).await?;
    let output = scene.kubectl(&["commands", "cancel", &id])?;
    ensure!(output.contains(&id) && output.contains(&node), "{output}");
    let command = command_about(&scene, &node, CommandPhase::RolledBack).await?;
    ensure!(command.id == id && command.detail.contains("cancelled"), "{command:?}");
    scene.event_about(&node, "DisruptionRolledBack", "cancelled").await?;
    eventually("its replacement to be gone and the node to be as before", || async {
        let claims = scene.workload.claims().await?;
        ensure!(claims.iter().all(|claim| claim.name_any() != replacement.name), "{replacement:?} is there");
        let marked = claims.iter().any(|claim| claim.annotations().contains_key(labels::COMMAND));
        Ok((!marked && !scene.is_tainted(&node).await?).then_some(()))
    })
    .await?;
    scene.workload.running("app", 1).await?;
    ensure!(scene.node_names().await? == BTreeSet::from([node]), "the node stays");
    let again = scene.kubectl(&["commands", "cancel", &id]).err().context("it is over")?;
    ensure!(format!("{again:#}").contains("cannot be taken back"), "{again:#}");
    let unknown = scene.kubectl(&["commands", "cancel", "nobody"]).err().context("there is none")?;
    ensure!(format!("{unknown:#}").contains("nobody"), "{unknown:#}");
    aws::delete(&scene.stack, "/boot")?;
    scene.end().await
}

/// The annotation of the pool that pauses it.
async fn paused_until(scene: &Scene) -> Result<Option<String>> {
    let pools: Api<api::NodePool> = Api::all(scene.workload.client.clone());
    Ok(pools.get(&scene.workload.name).await?.annotations().get(labels::PAUSED_UNTIL).cloned())
}

async fn a_paused_pool_begins_nothing_until_it_is_resumed(stack: Stack) -> Result<()> {
    let mut scene = Scene::new(stack, "pause", pool(json!({}))).await?;
    let nodes = scene.spread("app", 2, "1", json!({})).await?;
    let output = scene.kubectl(&["pause", "--pool", &scene.workload.name, "--for", "1h"])?;
    let until = paused_until(&scene).await?.context("the annotation")?;
    ensure!(output.contains(&until), "{output}");
    // One would go as empty, the other as drifted.
    scene.workload.scale("app", 1).await?;
    let kept = scene.workload.running("app", 1).await?.remove(0);
    drift(&scene, "new").await?;
    for node in &nodes {
        scene.held_by(node, "cool-down", labels::PAUSED_UNTIL).await?;
    }
    scene.restart(&QUICK)?;
    for node in &nodes {
        scene.held_by(node, "cool-down", labels::PAUSED_UNTIL).await?;
    }
    // Another pool shows that nodes are looked for and removed.
    let other = Workload::new(&scene.stack, "goes", pool(json!({})), json!({})).await?;
    other.deploy("app", 1, "1", json!({})).await?;
    other.running("app", 1).await?;
    other.scale("app", 0).await?;
    eventually("the empty node of another pool to go", || async {
        Ok(other.nodes().await?.is_empty().then_some(()))
    })
    .await?;
    let begun = |command: &Command| command.remove_nodes.iter().any(|node| nodes.contains(node));
    let commands = scene.commands().await?;
    ensure!(!commands.iter().any(begun), "nothing is begun: {commands:?}");
    ensure!(scene.node_names().await? == nodes.iter().cloned().collect(), "both are there");

    scene.kubectl(&["resume", "--pool", &scene.workload.name])?;
    ensure!(paused_until(&scene).await?.is_none(), "the annotation is gone");
    let command = scene.ended_command(&kept, CommandPhase::Done).await?;
    ensure!(command.reason == "Drifted", "{command:?}");
    scene.settled_at(1).await?;
    scene.workload.running("app", 1).await?;
    other.remove().await?;
    scene.end().await
}

fn asking(value: Value) -> Value {
    json!({labels::EVALUATE_NOW: value})
}

async fn a_pool_is_evaluated_once_when_its_annotation_asks(stack: Stack) -> Result<()> {
    let mut scene = Scene::new(stack, "manual", pool(json!({"consolidateAfter": "1h"}))).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    scene.workload.scale("app", 0).await?;
    scene.held_by(&node, "consolidate-after", "").await?;
    scene.annotate_pool(asking(json!(labels::MANUAL_CONSOLIDATION))).await?;
    let command = scene.ended_command(&node, CommandPhase::Done).await?;
    ensure!(command.reason == "Empty" && command.remove_nodes == [node.clone()], "{command:?}");
    scene.left(&BTreeSet::new()).await?;
    // Names that tutorials look for, beside the exact ones.
    scene.event_about(&node, "DisruptionInitiated", "Disrupting: empty/").await?;
    scene.event_about(&node, "DisruptionTerminating", "Empty").await?;
    let pool_label = format!("nodepool=\"{}\"", scene.workload.name);
    let counted = |reason: &str| {
        let labels = format!("reason=\"{reason}\",{pool_label}");
        scene.disruption.metric("karpenter_nodeclaims_disrupted_total", &labels)
    };
    ensure!(counted("empty")? == 1.0 && counted("consolidation")? == 1.0, "counted under both names");

    // That it was evaluated is on the pool, so that another process does not do it again.
    let condition = scene.pool_condition(EVALUATED).await?.context("a condition")?;
    ensure!(condition.reason == "ManualConsolidation", "{condition:?}");
    eventually("the time of the evaluation to be over", || async {
        let over = condition.last_transition_time.0.checked_add(jiff::SignedDuration::from_secs(61))?;
        Ok((jiff::Timestamp::now() > over).then_some(()))
    })
    .await?;
    scene.restart(&QUICK)?;
    scene.workload.scale("app", 1).await?;
    let next = scene.workload.running("app", 1).await?.remove(0);
    scene.workload.scale("app", 0).await?;
    scene.held_by(&next, "consolidate-after", "").await?;
    ensure!(scene.node_names().await? == BTreeSet::from([next.clone()]), "evaluated a second time");
    // Taken off and set again, it asks anew.
    scene.annotate_pool(asking(Value::Null)).await?;
    eventually("the condition to be gone", || async {
        Ok(scene.pool_condition(EVALUATED).await?.is_none().then_some(()))
    })
    .await?;
    scene.annotate_pool(asking(json!(labels::MANUAL_CONSOLIDATION))).await?;
    scene.left(&BTreeSet::new()).await?;
    scene.end().await
}

/// The condition of a NodePool that says that its request was granted, and since when.
const EVALUATED: &str = "ManualConsolidation";

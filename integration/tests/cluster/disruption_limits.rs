//! What holds nodes back, and what no budget holds: budgets by reason and by schedule, consolidateAfter, do-not-disrupt for a
//! time, settings that cannot be read; expiration and repair.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use api::conditions::ConditionStatus;
use integration::history::{History, State, is_deleting};
use integration::{Stack, Test, eventually, test};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use model::labels;
use proto::disruption::v1::CommandPhase;
use serde_json::{Value, json};

use crate::disruption_scene::{QUICK, Scene, pool};

/// The condition of a NodePool that says what cannot be read.
const SETTINGS: &str = "DisruptionSettingsValid";

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, budgets_hold_by_reason_and_by_schedule),
        test!("disruption", alone, a_budget_ends_with_its_window),
        test!("disruption", alone, a_budget_that_cannot_be_read_allows_nothing),
        test!("disruption", alone, consolidate_after_counts_from_the_last_pod_whatever_restarts),
        test!("disruption", alone, a_pod_may_protect_its_node_for_a_time),
        test!("disruption", alone, an_expired_node_goes_whatever_the_budget_says),
        test!("disruption", alone, an_unhealthy_node_is_repaired_by_force).expecting(&["without eviction"]),
        test!("disruption", alone, a_pool_with_too_many_unhealthy_nodes_is_not_repaired)
            .expecting(&["without eviction"]),
    ]
}

// Cases: DRC-2, DRC-20, BEV-13
async fn budgets_hold_by_reason_and_by_schedule(stack: Stack) -> Result<()> {
    // A window that opened an hour ago and is open for a day: nothing empty may go. Drift may, one at a time.
    let budgets = json!({"budgets": [
        {"nodes": "0", "reasons": ["Empty"], "schedule": "0 * * * *", "duration": "24h"},
        {"nodes": "1", "reasons": ["Drifted"]},
    ]});
    let scene = Scene::new(stack, "budget", pool(budgets)).await?;
    let nodes = scene.spread("app", 3, "1", json!({})).await?;
    scene.workload.scale("app", 0).await?;
    scene.all_claims("Consolidatable", true).await?;
    scene.event_about(&scene.workload.name, "DisruptionBlocked", "Empty").await?;
    let seen = scene.candidates().await?;
    let empty = seen.budgets.iter().find(|b| b.reason == "Empty").context("a budget")?;
    ensure!(empty.allowed == 0 && empty.problem.is_empty(), "{empty:?}");
    scene.held_by(&nodes[0], "budget", "0 * * * *").await?;
    ensure!(scene.node_names().await?.len() == 3, "nothing may go");

    let history = History::of_pool(&scene.workload.client, &scene.workload.name).await?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    eventually("all nodes to be deleted as drifted", || async {
        let claims = scene.workload.claims().await?;
        Ok(claims.is_empty().then_some(()))
    })
    .await?;
    // A node counts until it is gone; its claim waits a moment longer for the instance to end.
    let is_draining = |claim: &NodeClaim| {
        let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        is_deleting(claim) && !api::conditions::is_true(all, "InstanceTerminating")
    };
    let most = history.most(is_draining)?;
    ensure!(most == 1, "{most} nodes were being removed at the same time, the budget allows one");
    // Others may have been proposed while the pods were deleted, one after the other.
    let all = scene.commands().await?;
    for command in all.iter().filter(|command| command.phase() == CommandPhase::Done) {
        ensure!(command.reason == "Drifted", "{command:?}");
    }
    scene.end().await
}

/// A budget that allows nothing in a window that is open now, and when it closes. Hits of a schedule are whole minutes, in UTC.
fn closing_window() -> (Value, jiff::Timestamp) {
    let now = jiff::Timestamp::now();
    let opened = now.as_second() / 60 * 60;
    // Long enough for an empty node to be deleted if the budget did not hold.
    let minutes = if now.as_second() - opened < 45 { 1 } else { 2 };
    let time = jiff::Timestamp::from_second(opened).unwrap_or(now).to_zoned(jiff::tz::TimeZone::UTC);
    let budget = json!({"nodes": "0", "schedule": format!("{} {} * * *", time.minute(), time.hour()),
        "duration": format!("{minutes}m")});
    (budget, jiff::Timestamp::from_second(opened + 60 * minutes).unwrap_or(now))
}

// Cases: BEV-17
async fn a_budget_ends_with_its_window(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "window", pool(json!({"budgets": [{"nodes": "0"}]}))).await?;
    scene.spread("app", 1, "1", json!({})).await?;
    scene.workload.scale("app", 0).await?;
    scene.all_claims("Consolidatable", true).await?;
    let history = History::of_pool(&scene.workload.client, &scene.workload.name).await?;
    let (budget, closes) = closing_window();
    scene.patch_pool(json!({"disruption": {"budgets": [budget]}})).await?;
    scene.left(&BTreeSet::new()).await?;
    let deleted = history
        .states()?
        .into_iter()
        .flat_map(State::into_values)
        .find_map(|claim| claim.metadata.deletion_timestamp.as_ref().map(|time| time.0));
    let deleted = deleted.context("a deleted claim")?;
    ensure!(deleted >= closes, "deleted at {deleted}, the window closed at {closes}");
    scene.end().await
}

// Cases: BEV-6, BEV-7
async fn a_budget_that_cannot_be_read_allows_nothing(stack: Stack) -> Result<()> {
    // The schema lets it through; no calendar has it.
    let budgets = json!({"budgets": [{"nodes": "100%"}, {"nodes": "50%", "schedule": "99 99 99 99 99", "duration": "1h"}]});
    let scene = Scene::new(stack, "unread", pool(budgets)).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    scene.workload.scale("app", 0).await?;
    scene.all_claims("Consolidatable", true).await?;
    let seen = eventually("the budgets to be looked at", || async {
        let seen = scene.candidates().await?;
        Ok((!seen.budgets.is_empty()).then_some(seen))
    })
    .await?;
    ensure!(
        seen.budgets.iter().all(|b| b.allowed == 0 && b.problem.contains("budgets[1]")),
        "{:?}",
        seen.budgets
    );
    scene.event_about(&scene.workload.name, "DisruptionBlocked", "budgets[1]").await?;
    scene.held_by(&node, "budget", "budgets[1]").await?;
    let told = eventually("the NodePool to say so", || scene.pool_condition(SETTINGS)).await?;
    ensure!(told.status == ConditionStatus::False && told.reason == "BudgetUnreadable", "{told:?}");
    ensure!(told.message.contains("budgets[1]") && told.message.contains("99 99 99 99 99"), "{told:?}");
    let ready = scene.pool_condition("Ready").await?.context("a condition")?;
    ensure!(ready.status == ConditionStatus::True, "nodes may still be made: {ready:?}");
    ensure!(scene.node_names().await?.len() == 1, "nothing may go");
    scene.patch_pool(json!({"disruption": {"budgets": [{"nodes": "100%"}]}})).await?;
    scene.left(&BTreeSet::new()).await?;
    ensure!(scene.pool_condition(SETTINGS).await?.is_none(), "what can be read again is not complained of");
    scene.end().await
}

/// As written on the one claim.
async fn last_pod_event(scene: &Scene) -> Result<Option<jiff::Timestamp>> {
    let claims = scene.workload.claims().await?;
    let claim = claims.first().context("a claim")?;
    Ok(claim.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0))
}

// Cases: CSB-2, PEV-1
async fn consolidate_after_counts_from_the_last_pod_whatever_restarts(stack: Stack) -> Result<()> {
    const AFTER: i64 = 20;
    let after = format!("{AFTER}s");
    let mut scene = Scene::new(stack, "after", pool(json!({"consolidateAfter": after}))).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    scene.workload.scale("app", 0).await?;
    scene.held_by(&node, "consolidate-after", "").await?;
    // The pod's end is the last event; it is written down within seconds.
    let gone = eventually("the pod to be gone", || async {
        let pods = scene.pods().list(&kube::api::ListParams::default()).await?.items;
        Ok(pods.is_empty().then(jiff::Timestamp::now))
    })
    .await?;
    let before = eventually("the time of the last event", || last_pod_event(&scene)).await?;
    scene.restart(&QUICK)?;
    scene.all_claims("Consolidatable", true).await?;
    let after = last_pod_event(&scene).await?.context("a time")?;
    // Deletion of pods may be told twice, as it begins and as it ends, but never later than it happened.
    ensure!(before <= after && after <= gone, "{before} became {after}; the pod went at {gone}");
    let claim = scene.workload.claims().await?.into_iter().next().context("a claim")?;
    let all = claim.status.and_then(|status| status.conditions).unwrap_or_default();
    let since = api::conditions::find(&all, "Consolidatable").context("a condition")?.last_transition_time.0;
    let waited = since.duration_since(after).as_secs();
    ensure!(waited >= AFTER, "Consolidatable after {waited} s");
    scene.left(&BTreeSet::new()).await?;
    scene.end().await
}

// Cases: DRC-10, DRC-13, POD-6
async fn a_pod_may_protect_its_node_for_a_time(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "hold", pool(json!({"consolidateAfter": "Never"}))).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    let pods = scene.pods().list(&kube::api::ListParams::default()).await?.items;
    let pod = pods.first().context("a pod")?;
    let name = pod.name_any();
    let annotate = |value: String| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {labels::DO_NOT_DISRUPT: value}}}));
        let (pods, name) = (scene.pods(), name.clone());
        async move { pods.patch(&name, &PatchParams::default(), &patch).await }
    };
    annotate("true".to_owned()).await?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    scene.all_claims("Drifted", true).await?;
    scene.held_by(&node, "do-not-disrupt", &name).await?;
    // The time counts from the start of the pod: what has passed of it, and a little more.
    let started = pod.status.as_ref().and_then(|s| s.start_time.as_ref()).context("a start")?.0;
    let seconds = jiff::Timestamp::now().as_second() - started.as_second() + 12;
    annotate(format!("{seconds}s")).await?;
    scene.event_about(&name, "DoNotDisruptUntil", "").await?;
    eventually("the node to be replaced when the time is over", || async {
        Ok((!scene.node_names().await?.contains(&node)).then_some(()))
    })
    .await?;
    scene.workload.running("app", 1).await?;
    let command = scene.ended_command(&node, CommandPhase::Done).await?;
    let proposed = command.proposed_at.context("a time")?.seconds;
    ensure!(
        proposed >= started.as_second() + seconds,
        "decided at {proposed}, protected from {started} for {seconds} s"
    );
    scene.end().await
}

// Cases: EXP-1, EXP-3
async fn an_expired_node_goes_whatever_the_budget_says(stack: Stack) -> Result<()> {
    let mut pool = pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    pool["template"] = json!({"spec": {"expireAfter": "20s"}});
    let scene = Scene::new(stack, "expire", pool).await?;
    scene.workload.deploy("app", 1, "200m", json!({})).await?;
    let first = scene.workload.running("app", 1).await?.remove(0);
    eventually("the first node to be gone", || async {
        Ok((!scene.node_names().await?.contains(&first)).then_some(()))
    })
    .await?;
    let counted = scene.disruption.metric("karpenter_nodeclaims_disrupted_total", "reason=\"expired\"")?;
    ensure!(counted >= 1.0, "{counted} counted");
    scene.patch_pool(json!({"template": {"spec": {"expireAfter": "Never"}}})).await?;
    scene.workload.running("app", 1).await?;
    scene.end().await
}

/// kwok writes only what it knows; other conditions stay. Long enough ago to be tolerated no more.
async fn report(scene: &Scene, node: &str, status: &str) -> Result<()> {
    let since = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_mins(31))?.to_string();
    let condition = json!({"type": "StorageReady", "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": since, "lastHeartbeatTime": since});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    scene.nodes().patch_status(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

const REPAIRING: [&str; 2] = ["--validation-wait=2s", "--feature-gates=NodeRepair=true"];

// Cases: HLT-1, HLT-10, HLT-15
async fn an_unhealthy_node_is_repaired_by_force(stack: Stack) -> Result<()> {
    // No budget holds what is broken, nor does a pod that must not be disturbed.
    let closed = pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    let scene = Scene::with(stack, "repair", closed, &REPAIRING).await?;
    let nodes = scene.spread("app", 3, "1", json!({})).await?;
    let pods = scene.pods().list(&kube::api::ListParams::default()).await?.items;
    let protect = Patch::Merge(json!({"metadata": {"annotations": {labels::DO_NOT_DISRUPT: "true"}}}));
    for pod in &pods {
        scene.pods().patch(&pod.name_any(), &PatchParams::default(), &protect).await?;
    }
    report(&scene, &nodes[0], "False").await?;
    eventually("the sick node to be gone", || async {
        Ok((!scene.node_names().await?.contains(&nodes[0])).then_some(()))
    })
    .await?;
    scene.workload.running("app", 3).await?;
    let left = scene.node_names().await?;
    ensure!(left.contains(&nodes[1]) && left.contains(&nodes[2]), "the healthy ones stay: {left:?}");
    let counted = |name: &str, labels: &str| scene.disruption.metric(name, labels);
    ensure!(
        counted("karpenter_nodeclaims_disrupted_total", "reason=\"unhealthy\"")? == 1.0,
        "one was counted"
    );
    let by = "condition=\"storage_ready\"";
    ensure!(counted("karpenter_nodeclaims_unhealthy_disrupted_total", by)? == 1.0, "by its condition");
    scene.end().await
}

// Cases: HLT-12, HLT-14
async fn a_pool_with_too_many_unhealthy_nodes_is_not_repaired(stack: Stack) -> Result<()> {
    let closed = pool(json!({"consolidateAfter": "Never"}));
    let mut scene = Scene::new(stack, "sick", closed).await?;
    let nodes = scene.spread("app", 3, "1", json!({})).await?;
    // Without the gate nobody repairs, so that both are sick when it comes.
    report(&scene, &nodes[1], "False").await?;
    report(&scene, &nodes[2], "False").await?;
    scene.restart(&REPAIRING)?;
    // Two of three are more than a fifth, rounded up to one.
    scene.event_about(&nodes[1], "NodeRepairBlocked", "unhealthy").await?;
    scene.event_about(&nodes[2], "NodeRepairBlocked", "unhealthy").await?;
    ensure!(scene.node_names().await? == nodes.iter().cloned().collect(), "none was removed");
    report(&scene, &nodes[1], "True").await?;
    // One of three may be repaired; a new process looks at once and not only after five minutes.
    scene.restart(&REPAIRING)?;
    eventually("the one that is still sick to be gone", || async {
        Ok((!scene.node_names().await?.contains(&nodes[2])).then_some(()))
    })
    .await?;
    scene.workload.running("app", 3).await?;
    ensure!(scene.node_names().await?.contains(&nodes[1]), "the one that recovered stays");
    scene.end().await
}

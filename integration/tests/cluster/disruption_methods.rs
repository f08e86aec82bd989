//! The ways to a cheaper and fresher cluster beyond deleting and replacing one: several by several, policy Balanced, settings
//! against churn, spot by spot, pools of a fixed size; and commands as they are watched.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use integration::history::History;
use integration::{Stack, Test, eventually, test};
use kube::ResourceExt as _;
use model::labels;
use proto::disruption::v1::{Command, CommandPhase, WatchCommandsRequest};
use serde_json::{Value, json};

use crate::disruption_scene::{QUICK, Scene, on_demand, pool};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, several_nodes_become_several_cheaper_ones_where_the_pool_opts_in),
        test!("disruption", alone, a_balanced_pool_weighs_savings_against_disturbance),
        test!("disruption", alone, a_pool_asks_for_a_minimum_and_rests_between_consolidations),
        test!("disruption", alone, spot_replaces_spot_only_with_the_gate_and_among_fifteen_types),
        test!("disruption", alone, a_drifted_pool_of_fixed_size_is_replaced_one_by_one),
        test!("disruption", alone, commands_are_watched_from_proposal_to_end),
    ]
}

/// Large and small pods in pairs, one pair a node; then the large ones go.
async fn large_nodes_with_small_pods(scene: &Scene, count: u32) -> Result<Vec<String>> {
    scene.workload.deploy("large", count, "12", repelling("large")).await?;
    scene.workload.running("large", count as usize).await?;
    scene.workload.deploy("small", count, "500m", repelling("small")).await?;
    let nodes = scene.workload.running("small", count as usize).await?;
    ensure!(scene.node_names().await?.len() == count as usize, "one pair a node: {nodes:?}");
    scene.workload.scale("large", 0).await?;
    scene.workload.running("large", 0).await?;
    Ok(nodes)
}

fn repelling(app: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

// Cases: TXT-15
async fn several_nodes_become_several_cheaper_ones_where_the_pool_opts_in(stack: Stack) -> Result<()> {
    // Nothing may go until all three can: one that was ready before the others would go by itself.
    let scene = Scene::new(stack, "many", on_demand(pool(json!({"budgets": [{"nodes": "0"}]})))).await?;
    let nodes = large_nodes_with_small_pods(&scene, 3).await?;
    scene.annotate_pool(json!({labels::MANY_FOR_MANY: "true"})).await?;
    scene.all_claims("Consolidatable", true).await?;
    scene.patch_pool(json!({"disruption": {"budgets": [{"nodes": "100%"}]}})).await?;
    let command = scene.ended_command(&nodes[0], CommandPhase::Done).await?;
    ensure!(command.method == "n-to-m" && command.reason == "Underutilized", "{command:?}");
    let removed: BTreeSet<&String> = command.remove_nodes.iter().collect();
    ensure!(removed == nodes.iter().collect(), "{command:?}");
    ensure!(command.replacements.len() == 3 && command.pods_moved == 3, "{command:?}");
    ensure!(command.saving_micro_usd_per_hour > 0 && command.payback_seconds > 0, "{command:?}");
    let left = scene.settled_at(3).await?;
    ensure!(nodes.iter().all(|node| !left.contains(node)), "{left:?}");
    scene.workload.running("small", 3).await?;
    scene.all_at_home().await?;
    // And then it is still: nothing is cheaper than what is there.
    ensure!(scene.commands().await?.iter().all(|c| c.phase() == CommandPhase::Done), "nothing under way");
    scene.end().await
}

/// Containers that ask for memory, too.
fn sized(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "app", "image": "pause",
        "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

fn of_cpus(cpus: &[&str]) -> Value {
    json!([
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels::INSTANCE_FAMILY, "operator": "In", "values": ["c5", "m5", "r5"]},
        {"key": labels::INSTANCE_CPU, "operator": "In", "values": cpus},
    ])
}

// Cases: BAL-46, BAL-66
async fn a_balanced_pool_weighs_savings_against_disturbance(stack: Stack) -> Result<()> {
    let mut balanced = pool(json!({"consolidateAfter": "Never", "consolidationPolicy": "Balanced"}));
    balanced["template"] = json!({"spec": {"requirements": of_cpus(&["4"])}});
    let scene = Scene::new(stack, "weigh", balanced).await?;
    // A node with much memory; then what needed it goes, and one of the same size with little memory would do.
    scene.workload.deploy("heavy", 1, "1", sized("1", "24Gi")).await?;
    scene.workload.running("heavy", 1).await?;
    scene.workload.deploy("light", 1, "1", json!({})).await?;
    let node = scene.workload.running("light", 1).await?.remove(0);
    ensure!(scene.node_names().await? == BTreeSet::from([node.clone()]), "both on one node");
    scene.workload.scale("heavy", 0).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    // All of the pool's pods for a third of its price: not worth it.
    scene.held_by(&node, "no-saving", "Balanced").await?;
    let pool_label = format!("nodepool=\"{}\"", scene.workload.name);
    let rejected = format!("decision=\"rejected\",{pool_label},policy=\"Balanced\"");
    ensure!(scene.disruption.metric("karpenter_consolidation_moves_total", &rejected)? >= 1.0, "counted");
    ensure!(scene.node_names().await? == BTreeSet::from([node.clone()]), "it stays");
    // Half the size saves two thirds: approved.
    scene.patch_pool(json!({"template": {"spec": {"requirements": of_cpus(&["2", "4"])}}})).await?;
    let command = scene.ended_command(&node, CommandPhase::Done).await?;
    ensure!(command.reason == "Underutilized" && command.replacements.len() == 1, "{command:?}");
    scene.event_about(&node, "ConsolidationApproved", "% of the pool's cost").await?;
    let approved = format!("decision=\"approved\",{pool_label},policy=\"Balanced\"");
    ensure!(scene.disruption.metric("karpenter_consolidation_moves_total", &approved)? >= 1.0, "counted");
    scene.settled_at(1).await?;
    scene.end().await
}

async fn a_pool_asks_for_a_minimum_and_rests_between_consolidations(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "rests", on_demand(pool(json!({"consolidateAfter": "Never"})))).await?;
    let node = large_nodes_with_small_pods(&scene, 1).await?.remove(0);
    scene.annotate_pool(json!({labels::MINIMUM_SAVING: "99%"})).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    scene.held_by(&node, "no-saving", "asks for at least").await?;
    // A value that cannot be read is no brake that may be ignored.
    scene.annotate_pool(json!({labels::MINIMUM_SAVING: "a lot"})).await?;
    scene.held_by(&node, "no-saving", "a lot").await?;
    eventually("the NodePool to say so", || async {
        let told = scene.pool_condition("DisruptionSettingsValid").await?;
        Ok(told.filter(|told| told.reason == "AnnotationUnreadable"))
    })
    .await?;
    ensure!(scene.node_names().await?.contains(&node), "it stays");

    scene.annotate_pool(json!({labels::MINIMUM_SAVING: "10%", labels::COOL_DOWN: "1h"})).await?;
    let command = scene.ended_command(&node, CommandPhase::Done).await?;
    ensure!(command.reason == "Underutilized", "{command:?}");
    let next = scene.settled_at(1).await?.pop_first().context("a node")?;
    scene.held_by(&next, "cool-down", &scene.workload.name).await?;
    scene.end().await
}

// Cases: REP-1, REP-2, REP-3, REP-5
async fn spot_replaces_spot_only_with_the_gate_and_among_fifteen_types(stack: Stack) -> Result<()> {
    let families = |families: &[&str]| {
        json!([
            {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
            {"key": labels::INSTANCE_FAMILY, "operator": "In", "values": families},
        ])
    };
    let mut spot = pool(json!({"consolidateAfter": "Never"}));
    spot["template"] = json!({"spec": {"requirements": families(&["m5"])}});
    let mut scene = Scene::new(stack, "spot", spot).await?;
    let node = large_nodes_with_small_pods(&scene, 1).await?.remove(0);
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    scene.held_by(&node, "no-saving", "SpotToSpotConsolidation").await?;

    let gate: Vec<&str> = QUICK.into_iter().chain(["--feature-gates=SpotToSpotConsolidation=true"]).collect();
    scene.restart(&gate)?;
    // One family has too few cheaper types: the next one would soon be replaced again.
    scene.held_by(&node, "no-saving", "15 are needed").await?;
    ensure!(scene.node_names().await?.contains(&node), "it stays");
    let wide = families(&["m5", "m5a", "m5d", "m6i", "m6a", "c5", "c5a", "c5d", "c6i", "c6a"]);
    scene.patch_pool(json!({"template": {"spec": {"requirements": wide}}})).await?;
    let command = scene.ended_command(&node, CommandPhase::Done).await?;
    ensure!(command.replacements.len() == 1, "{command:?}");
    let claim = scene.claims().get(&command.replacements[0].name).await?;
    let types = claim.spec.requirements.iter().find(|r| r.key == labels::INSTANCE_TYPE);
    let types = types.context("types of the replacement")?.values();
    ensure!(types.len() == 15, "launched among the fifteen cheapest: {types:?}");
    scene.settled_at(1).await?;
    scene.end().await
}

// Cases: EMP-20, SDR-6, SDR-7, STA-1
async fn a_drifted_pool_of_fixed_size_is_replaced_one_by_one(stack: Stack) -> Result<()> {
    let mut fixed = pool(json!({"budgets": [{"nodes": "100%"}]}));
    fixed["replicas"] = json!(2);
    fixed["limits"] = json!({"nodes": "3"});
    let gate = ["--feature-gates=StaticCapacity=true"];
    let scene = Scene::of(stack, "fixed", fixed, json!({}), &QUICK, &gate).await?;
    let before = scene.settled_at(2).await?;
    // They are empty and may be consolidated at once, but the number is the owner's.
    let node = before.first().context("a node")?;
    scene.held_by(node, "fixed-size", &scene.workload.name).await?;
    let old: Vec<String> = scene.workload.claims().await?.iter().map(|claim| claim.name_any()).collect();
    let history = History::of_pool(&scene.workload.client, &scene.workload.name).await?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    eventually("both to be replaced", || async {
        let now = scene.node_names().await?;
        let claims = scene.workload.claims().await?;
        Ok((now.len() == 2 && claims.len() == 2 && now.is_disjoint(&before)).then_some(()))
    })
    .await?;
    history.replaced_before_deletion(&old)?;
    let most = history.most(|_| true)?;
    ensure!(most <= 3, "{most} claims at the same time, the limit is 3");
    for node in &before {
        let command = scene.ended_command(node, CommandPhase::Done).await?;
        ensure!(command.reason == "Drifted" && command.remove_nodes == [node.clone()], "{command:?}");
        ensure!(command.replacements.len() == 1, "{command:?}");
    }
    scene.end().await
}

// Cases: EMP-7, MUL-5
async fn commands_are_watched_from_proposal_to_end(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "watch", pool(json!({}))).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    let mut stream = scene.client().watch_commands(WatchCommandsRequest::default()).await?.into_inner();
    scene.workload.scale("app", 0).await?;
    let mut seen: Vec<Command> = Vec::new();
    while seen.last().is_none_or(|last| last.phase() != CommandPhase::Done) {
        let next = stream.next().await.context("the stream ended")??.command.context("a command")?;
        ensure!(next.remove_nodes == [node.clone()], "{next:?}");
        ensure!(seen.first().is_none_or(|first| first.id == next.id), "one command: {seen:?}");
        seen.push(next);
    }
    let mut phases: Vec<CommandPhase> = seen.iter().map(Command::phase).collect();
    phases.dedup();
    // Of a phase that is over within one look, nothing is sent.
    ensure!(phases.is_sorted(), "{phases:?}");
    ensure!(
        phases.contains(&CommandPhase::Validating) && phases.contains(&CommandPhase::Removing),
        "{phases:?}"
    );
    ensure!(seen.iter().all(|command| command.reason == "Empty" && !command.id.is_empty()), "{seen:?}");
    scene.left(&BTreeSet::new()).await?;

    // A person sees the same, and what the nodes cost.
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1h"}})).await?;
    let node = scene.spread("again", 1, "1", json!({})).await?.remove(0);
    let explained = scene.kubectl(&["explain", "node", &node])?;
    ensure!(explained.contains(&node) && explained.contains("what would change it"), "{explained}");
    let top = scene.kubectl(&["top"])?;
    ensure!(top.contains(&node) && top.contains(&scene.workload.name) && top.contains('$'), "{top}");
    scene.end().await
}

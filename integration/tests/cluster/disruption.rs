//! Nodes that go: empty, underutilised, drifted; with replacements first, and never by surprise.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use integration::history::History;
use integration::{Service, Stack, Test, eventually, test};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use model::labels;
use proto::disruption::v1::{CommandPhase, ListCommandsRequest};
use serde_json::json;

use crate::disruption_scene::{QUICK, Scene, on_demand, pool};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, empty_nodes_go_and_a_protected_one_stays_and_says_why),
        test!("disruption", alone, part_filled_nodes_become_fewer_and_every_pod_keeps_a_home),
        test!("disruption", alone, a_drifted_node_is_replaced_before_it_goes),
        test!("disruption", alone, a_pod_that_lands_after_the_taint_brings_its_node_back),
        test!("disruption", alone, a_pod_disruption_budget_holds_a_node_until_it_opens),
        test!("disruption", alone, a_dear_node_is_replaced_by_a_cheaper_one),
        test!("disruption", alone, a_replacement_that_never_comes_leaves_the_old_node),
        test!("disruption", alone, a_new_leader_goes_on_with_what_the_old_one_began),
    ]
}

// Cases: CAND-12, MET-1, EMP-10, QUE-7, DEL-6
async fn empty_nodes_go_and_a_protected_one_stays_and_says_why(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "empty", pool(json!({}))).await?;
    let nodes = scene.spread("app", 3, "1", json!({})).await?;
    ensure!(nodes.iter().collect::<BTreeSet<_>>().len() == 3, "one pod a node: {nodes:?}");
    let kept = nodes[0].clone();
    scene.annotate_node(&kept, json!({labels::DO_NOT_DISRUPT: "true"})).await?;
    scene.workload.scale("app", 0).await?;
    scene.left(&BTreeSet::from([kept.clone()])).await?;

    let command = scene.ended_command(&nodes[1], CommandPhase::Done).await?;
    ensure!(command.reason == "Empty" && command.method == "emptiness", "{command:?}");
    ensure!(command.saving_micro_usd_per_hour > 0 && command.replacements.is_empty(), "{command:?}");
    scene.event_about(&nodes[1], "DisruptionTerminating", "Empty").await?;
    let pool_label = format!("reason=\"empty\",nodepool=\"{}\"", scene.workload.name);
    let counted = |name: &str, labels: &str| scene.disruption.metric(name, labels);
    ensure!(counted("karpenter_nodeclaims_disrupted_total", &pool_label)? == 2.0, "two nodes went");
    let decided = "karpenter_voluntary_disruption_decisions_total";
    ensure!(
        counted(decided, "decision=\"delete\",reason=\"empty\",consolidation_type=\"empty\"")? >= 1.0,
        "{decided}"
    );

    let why = scene.explain(&kept).await?;
    let candidate = why.candidate.context("a candidate")?;
    ensure!(!candidate.disruptable && candidate.blockers[0].rule == "do-not-disrupt", "{candidate:?}");
    ensure!(why.summary.contains(labels::DO_NOT_DISRUPT), "{}", why.summary);
    scene.event_about(&kept, "DisruptionBlocked", labels::DO_NOT_DISRUPT).await?;

    // What holds it is taken away, and it goes like the others.
    scene.annotate_node(&kept, json!({labels::DO_NOT_DISRUPT: null})).await?;
    scene.left(&BTreeSet::new()).await?;
    scene.end().await
}

// Cases: DEL-1, MUL-1
async fn part_filled_nodes_become_fewer_and_every_pod_keeps_a_home(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "thin", on_demand(pool(json!({"consolidateAfter": "Never"})))).await?;
    // Pods of three CPUs make nodes of about four; the small ones that come along stay behind alone.
    let _ = scene.spread("wide", 4, "2500m", json!({})).await?;
    scene.spread("small", 4, "200m", json!({})).await?;
    let before = scene.node_names().await?;
    ensure!(before.len() == 4, "{before:?}");
    // Without the anti-affinity of the small ones they would fit on one node; a fresh deployment takes their place.
    scene.workload.deploy("rest", 4, "200m", json!({})).await?;
    scene.workload.running("rest", 4).await?;
    scene.workload.scale("small", 0).await?;
    scene.workload.scale("wide", 1).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    let left = scene.settled_at(1).await?;
    scene.workload.running("rest", 4).await?;
    scene.all_at_home().await?;
    let commands = scene.commands().await?;
    let moved = commands.iter().filter(|c| c.reason == "Underutilized" && c.phase() == CommandPhase::Done);
    ensure!(moved.clone().count() > 0 || before.is_disjoint(&left), "{commands:?}");
    ensure!(
        moved.map(|c| c.replacements.len()).max().unwrap_or(0) <= 1,
        "at most one replacement: {commands:?}"
    );
    scene.end().await
}

// Cases: DRC-16, QUE-1, DFT-23
async fn a_drifted_node_is_replaced_before_it_goes(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "drift", pool(json!({"consolidateAfter": "Never"}))).await?;
    let nodes = scene.spread("app", 2, "1", json!({})).await?;
    let old: Vec<String> = scene.workload.claims().await?.iter().map(|claim| claim.name_any()).collect();
    let history = History::of_pool(&scene.workload.client, &scene.workload.name).await?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    scene.all_claims("Drifted", true).await?;
    eventually("both nodes to be replaced", || async {
        let now = scene.node_names().await?;
        Ok((now.len() == 2 && nodes.iter().all(|node| !now.contains(node))).then_some(()))
    })
    .await?;
    history.replaced_before_deletion(&old)?;
    scene.workload.running("app", 2).await?;
    scene.all_at_home().await?;
    for node in &nodes {
        let command = scene.ended_command(node, CommandPhase::Done).await?;
        ensure!(command.reason == "Drifted" && command.remove_nodes == [node.clone()], "{command:?}");
        ensure!(command.replacements.len() == 1, "{command:?}");
        let replacement = &command.replacements[0].name;
        let claim = scene.claims().get(replacement).await?;
        ensure!(claim.annotations().get(labels::COMMAND) == Some(&command.id), "{:?}", claim.annotations());
        scene.event_about(replacement, "DisruptionLaunching", "Drifted").await?;
    }
    let created = scene.others[1].metric("karpenter_nodeclaims_created_total", "reason=\"drifted\"")?;
    ensure!(created >= 2.0, "{created} replacements counted");
    scene.all_claims("Drifted", false).await?;
    scene.end().await
}

// Cases: DEL-2
async fn a_pod_that_lands_after_the_taint_brings_its_node_back(stack: Stack) -> Result<()> {
    // Time enough between the taint and the last look.
    let flags = ["--validation-wait=1s", "--look-interval=200ms", "--settle-wait=4s"];
    let scene = Scene::with(stack, "race", pool(json!({})), &flags).await?;
    let nodes = scene.spread("app", 2, "1", json!({})).await?;
    scene.workload.scale("app", 0).await?;
    let tainted = eventually("both nodes to be tainted", || async {
        for node in &nodes {
            if !scene.is_tainted(node).await? {
                return Ok(None);
            }
        }
        Ok(Some(()))
    });
    tainted.await?;
    scene.bind("late", &nodes[0], json!({labels::DO_NOT_DISRUPT: "true"})).await?;
    scene.left(&BTreeSet::from([nodes[0].clone()])).await?;
    eventually("the taint to be taken off", || async {
        Ok((!scene.is_tainted(&nodes[0]).await?).then_some(()))
    })
    .await?;
    scene.event_about(&nodes[0], "DisruptionRolledBack", "late").await?;
    let pod = scene.pods().get("late").await?;
    ensure!(pod.metadata.deletion_timestamp.is_none(), "the pod that landed is being removed");
    let claims = scene.workload.claims().await?;
    let claim = claims.iter().find(|claim| claim.metadata.deletion_timestamp.is_none()).context("a claim")?;
    ensure!(!claim.annotations().contains_key(labels::COMMAND), "{:?}", claim.annotations());
    // It would hold its node while the pool is removed, as it should.
    scene.pods().delete("late", &DeleteParams::default()).await?;
    scene.end().await
}

// Cases: CAND-14, DEL-5
async fn a_pod_disruption_budget_holds_a_node_until_it_opens(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "pdb", on_demand(pool(json!({})))).await?;
    let budget = |most: u32| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "app"},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": "app"}}}})
    };
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(scene.workload.client.clone(), &scene.workload.name);
    budgets.create(&PostParams::default(), &serde_json::from_value(budget(0))?).await?;
    scene.workload.deploy("app", 1, "200m", json!({})).await?;
    let node = scene.workload.running("app", 1).await?.remove(0);
    scene.event_about(&node, "DisruptionBlocked", &format!("{}/app", scene.workload.name)).await?;
    // Drift is held, too: no terminationGracePeriod bounds the wait.
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    scene.all_claims("Drifted", true).await?;
    let why = scene.explain(&node).await?.candidate.context("a candidate")?;
    ensure!(why.blockers[0].rule == "pdb", "{why:?}");
    ensure!(scene.node_names().await? == BTreeSet::from([node.clone()]), "the node was held");
    let patch = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    budgets.patch("app", &PatchParams::default(), &patch).await?;
    eventually("the node to be replaced", || async {
        Ok((!scene.node_names().await?.contains(&node)).then_some(()))
    })
    .await?;
    scene.workload.running("app", 1).await?;
    scene.end().await
}

// Cases: REP-1
async fn a_dear_node_is_replaced_by_a_cheaper_one(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "dear", on_demand(pool(json!({"consolidateAfter": "Never"})))).await?;
    // Both make one large node; when the large pod goes, the small one sits on it alone.
    scene.workload.deploy("large", 1, "12", json!({})).await?;
    scene.workload.deploy("small", 1, "500m", json!({})).await?;
    scene.workload.running("large", 1).await?;
    let old = scene.workload.running("small", 1).await?.remove(0);
    scene.workload.scale("large", 0).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    eventually("the large node to be gone", || async {
        let nodes = scene.node_names().await?;
        Ok((!nodes.contains(&old) && nodes.len() == 1).then_some(()))
    })
    .await?;
    scene.workload.running("small", 1).await?;
    let command = scene.ended_command(&old, CommandPhase::Done).await?;
    ensure!(command.reason == "Underutilized" && command.saving_micro_usd_per_hour > 0, "{command:?}");
    ensure!(command.pods_moved == 1, "{command:?}");
    scene.event_about(&old, "ConsolidationCandidate", "savings: $").await?;
    scene.end().await
}

// Cases: TNT-2, DRC-21
async fn a_replacement_that_never_comes_leaves_the_old_node(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "broken", pool(json!({"consolidateAfter": "Never"}))).await?;
    let nodes = scene.spread("app", 1, "1", json!({})).await?;
    // EC2 has nothing to give: the replacement fails at once and is deleted.
    integration::aws::put(
        &scene.stack,
        "/ice",
        &json!({"capacityType": "*", "instanceType": "*", "zone": "*"}),
    )?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    let command = scene.ended_command(&nodes[0], CommandPhase::RolledBack).await;
    let outcome = async {
        let command = command?;
        ensure!(command.detail.contains("replacement"), "{command:?}");
        eventually("the taint to be taken off", || async {
            Ok((!scene.is_tainted(&nodes[0]).await?).then_some(()))
        })
        .await?;
        ensure!(scene.node_names().await?.contains(&nodes[0]), "the old node is gone");
        let failed = scene.disruption.metric("karpenter_voluntary_disruption_queue_failures_total", "")?;
        ensure!(failed >= 1.0, "{failed} failures counted");
        scene.workload.running("app", 1).await.map(drop)
    };
    let outcome = outcome.await;
    integration::aws::delete(&scene.stack, "/ice")?;
    outcome?;
    eventually("the node to be replaced after all", || async {
        Ok((!scene.node_names().await?.contains(&nodes[0])).then_some(()))
    })
    .await?;
    scene.end().await
}

// Cases: QUE-1
async fn a_new_leader_goes_on_with_what_the_old_one_began(stack: Stack) -> Result<()> {
    let mut scene = Scene::new(stack, "leader", pool(json!({"consolidateAfter": "Never"}))).await?;
    let nodes = scene.spread("app", 2, "1", json!({})).await?;
    let second = Service::start(&scene.stack, "disruption", 2, &QUICK)?;
    // Boots take long enough to be killed in between.
    integration::aws::put(
        &scene.stack,
        "/boot",
        &json!({"match": {"karpenter.sh/nodepool": scene.workload.name}, "bootDelayMs": 5000}),
    )?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    let noted = eventually("a node to be taken", || async {
        let claims = scene.workload.claims().await?;
        let reason = |c: &&api::NodeClaim| {
            let all = c.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            api::conditions::is_true(all, "DisruptionReason")
        };
        Ok(claims.iter().find(reason).map(|c| (c.name_any(), c.annotations().get(labels::COMMAND).cloned())))
    })
    .await?;
    // Both replicas tell of it: the one that follows from the objects.
    let note = noted.1.clone().context("a note on the claim")?;
    let id = serde_json::from_str::<serde_json::Value>(&note)?["id"].as_str().unwrap_or_default().to_owned();
    let replicas = scene.replicas();
    ensure!(replicas.len() == 2, "{replicas:?}");
    for replica in &replicas {
        let request = ListCommandsRequest { with_ended: false };
        let told = scene.client_of(replica).list_commands(request).await?.into_inner().commands;
        let own = told.iter().find(|command| command.id == id);
        let own = own.with_context(|| format!("{replica} tells of {id}: {told:?}"))?;
        ensure!(own.reason == "Drifted" && own.phase() == CommandPhase::Replacing, "{replica}: {own:?}");
    }
    let (leader, follower) = {
        let leads = |s: &Service| s.metric("leader_election_master_status", "").is_ok_and(|v| v > 0.0);
        if leads(&scene.disruption) {
            (scene.disruption.clone(), second)
        } else {
            (second, scene.disruption.clone())
        }
    };
    leader.kill(&scene.stack)?;
    scene.disruption = follower;
    eventually("both nodes to be replaced", || async {
        let now = scene.node_names().await?;
        Ok((now.len() == 2 && nodes.iter().all(|node| !now.contains(node))).then_some(()))
    })
    .await?;
    integration::aws::delete(&scene.stack, "/boot")?;
    scene.workload.running("app", 2).await?;
    // A claim goes a moment after its node.
    eventually("the two replacements to be the only claims", || async {
        let claims: Vec<String> = scene.workload.claims().await?.iter().map(|c| c.name_any()).collect();
        ensure!(claims.len() == 2, "{claims:?}");
        Ok(Some(()))
    })
    .await?;
    scene.end().await
}

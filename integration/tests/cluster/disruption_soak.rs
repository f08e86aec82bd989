//! The long proofs of disruption: a fragmented cluster settles and then stays still, an AMI change rolls through within its
//! budget and a broken one stops, and killing services at any moment costs nothing but time.
//!
//! `DISRUPTION_SOAK_NODES` scales them down for a quick look on a small machine.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{NodeClaim, conditions};
use integration::rpc::Impersonation;
use integration::{Service, Stack, Test, aws, eventually, patiently, test};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use model::labels;
use proto::disruption::v1::{Command, CommandPhase};
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::provisioner::v1::{GetSnapshotRequest, SimulateRequest, SimulationPurpose};
use serde_json::json;

use crate::disruption_scene::{QUICK, Scene};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!(
            "disruption_soak",
            soak,
            fragmented_nodes_settle_at_little_more_than_a_fresh_plan_and_stay_still
        ),
        test!("disruption_soak", soak, an_ami_change_rolls_within_its_budget_and_a_broken_one_stops),
        test!(
            "disruption_soak",
            soak,
            killing_services_at_any_moment_exceeds_no_budget_and_leaves_nothing_over
        ),
    ]
}

#[expect(clippy::disallowed_methods, reason = "the size of a long proof is its runner's to choose")]
fn nodes_wanted(default: u32) -> u32 {
    std::env::var("DISRUPTION_SOAK_NODES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Small machines of one size, so that the number of nodes is what the test says.
fn small_machines() -> serde_json::Value {
    json!({"spec": {"expireAfter": "Never", "requirements": [
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": labels::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
        {"key": labels::INSTANCE_GENERATION, "operator": "Gt", "values": ["4"]},
        {"key": labels::INSTANCE_CPU, "operator": "In", "values": ["4"]},
    ]}})
}

/// Ends a proof that will never end by itself.
const LONG: Duration = Duration::from_secs(1200);

async fn running(scene: &Scene, app: &str, count: usize) -> Result<()> {
    patiently(7, &format!("{count} pods of {app}"), || async {
        let selector = ListParams::default().labels(&format!("app={app}"));
        let pods = scene.pods().list(&selector).await?.items;
        let up = |pod: &&k8s_openapi::api::core::v1::Pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
                && pod.metadata.deletion_timestamp.is_none()
        };
        Ok((pods.len() == count && pods.iter().filter(up).count() == count).then_some(()))
    })
    .await
}

/// What the nodes cost, and what a plan from scratch for the same pods would, in micro-dollars an hour.
async fn prices(scene: &Scene) -> Result<(i64, i64)> {
    let (caller, callee) = (runtime::Service::Disruption, runtime::Service::Provisioner);
    let caller = Impersonation::new(&scene.stack, caller, callee).await?;
    let mut client = ProvisionerClient::new(caller.peers.leader()).max_decoding_message_size(64 << 20);
    let request = GetSnapshotRequest { with_nodes: false, with_pending: false };
    let now = client.get_snapshot(request).await?.into_inner().micro_usd_per_hour;
    let request = SimulateRequest {
        remove_nodes: scene.node_names().await?.into_iter().collect(),
        purpose: SimulationPurpose::Drift.into(),
        ..SimulateRequest::default()
    };
    let fresh = client.simulate(request).await?.into_inner();
    ensure!(fresh.unschedulable.is_empty(), "a fresh plan has a place for every pod");
    Ok((now, fresh.added_micro_usd_per_hour))
}

fn is_under_way(command: &Command) -> bool {
    use CommandPhase::{Removing, Replacing, Validating};
    matches!(command.phase(), Validating | Replacing | Removing)
}

async fn fragmented_nodes_settle_at_little_more_than_a_fresh_plan_and_stay_still(stack: Stack) -> Result<()> {
    let nodes = nodes_wanted(200);
    let pool = json!({"template": small_machines(),
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}});
    // Every node is looked at again as often in two minutes as it would be in an hour.
    let scene = Scene::with(stack, "settle", pool, &["--full-look-interval=10s"]).await?;
    // Three pods of one CPU a node of four; two of three go.
    let pods = nodes * 3;
    scene.workload.deploy("app", pods, "1", json!({})).await?;
    running(&scene, "app", pods as usize).await?;
    scene.workload.scale("app", nodes).await?;
    running(&scene, "app", nodes as usize).await?;
    let before = scene.node_names().await?.len();
    let (cost_before, _) = prices(&scene).await?;
    let used_before = scene.disruption.cpu_ticks()?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "0s"}})).await?;
    let begun = Instant::now();
    // Settled when no node has come or gone for twenty seconds and nothing is tried; then as of the last node's move.
    let (mut moved, mut last, mut tries) = (begun, BTreeSet::new(), true);
    while tries || moved.elapsed() < Duration::from_secs(20) {
        ensure!(begun.elapsed() < LONG, "did not settle: {} of {before}", last.len());
        tokio::time::sleep(Duration::from_millis(500)).await;
        // A connection that breaks off on a busy machine says nothing.
        let (Ok(claims), Ok(commands)) = (scene.workload.claims().await, scene.commands().await) else {
            continue;
        };
        let leaving = claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_some());
        let names: BTreeSet<String> = claims.iter().map(|claim| claim.name_any()).collect();
        if leaving || names != last {
            moved = Instant::now();
        }
        tries = commands.iter().any(is_under_way);
        last = names;
    }
    let took = moved.duration_since(begun);
    let left = scene.node_names().await?;
    running(&scene, "app", nodes as usize).await?;
    scene.all_at_home().await?;
    let (cost, fresh) = prices(&scene).await?;
    let dollars = |micro: i64| micro as f64 / 1e6;
    println!(
        "settled: {before} -> {} nodes, ${:.2} -> ${:.2} an hour (a fresh plan ${:.2}) in {:.0} s (bar 45 s for 200 nodes, at \
         no more than 73 of them); {:.1} s of a core, {} MB",
        left.len(),
        dollars(cost_before),
        dollars(cost),
        dollars(fresh),
        took.as_secs_f64(),
        (scene.disruption.cpu_ticks()? - used_before) as f64 / 100.0,
        scene.disruption.resident_bytes()? >> 20
    );
    ensure!(left.len() < before && cost < cost_before, "fewer nodes and a lower price");
    ensure!(cost * 10 <= fresh * 11, "{cost} where a fresh plan costs {fresh}");
    let ended = scene.commands().await?.len();
    tokio::time::sleep(Duration::from_secs(120)).await;
    ensure!(scene.node_names().await? == left, "it did not stay still");
    let commands = scene.commands().await?;
    ensure!(commands.len() == ended, "nothing is even tried: {:?}", commands.first());
    scene.end().await
}

fn holds(claim: &NodeClaim, condition: &str) -> bool {
    let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions::is_true(all, condition)
}

/// Claims that a budget counts as away: going, or taken by a command that makes replacements first.
fn away(claims: &[NodeClaim]) -> usize {
    let is_away = |claim: &&NodeClaim| match claim.metadata.deletion_timestamp {
        Some(_) => holds(claim, "Initialized") && !holds(claim, "InstanceTerminating"),
        None => holds(claim, "DisruptionReason"),
    };
    claims.iter().filter(is_away).count()
}

// Cases: DRC-3
async fn an_ami_change_rolls_within_its_budget_and_a_broken_one_stops(stack: Stack) -> Result<()> {
    let nodes = nodes_wanted(100);
    let pool = json!({"template": small_machines(),
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]}});
    let mut scene = Scene::new(stack, "ami", pool).await?;
    scene.spread("app", nodes, "2", json!({})).await?;
    let old: BTreeSet<String> = scene.node_names().await?;
    let most = (nodes as usize).div_ceil(10);
    release(&mut scene, "v20990101")?;
    let (mut worst, mut largest) = (0, nodes as usize);
    let begun = Instant::now();
    loop {
        let claims = scene.workload.claims().await?;
        worst = worst.max(away(&claims));
        // A share of all that have joined, rounded up; replacements join before the old ones go.
        largest = largest.max(claims.iter().filter(|claim| holds(claim, "Initialized")).count());
        let allowed = largest.div_ceil(10);
        ensure!(worst <= allowed, "{worst} nodes away where {allowed} may be");
        if scene.node_names().await?.is_disjoint(&old) && claims.len() == nodes as usize {
            break;
        }
        ensure!(begun.elapsed() < LONG, "the roll did not end");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    running(&scene, "app", nodes as usize).await?;
    scene.all_at_home().await?;
    println!(
        "rolled {nodes} nodes in {:.0} s, at most {worst} of {} away",
        begun.elapsed().as_secs_f64(),
        largest.div_ceil(10)
    );

    // Nodes of the next image never join.
    let rolled = scene.node_names().await?;
    let rule = json!({"match": {"karpenter.sh/nodepool": scene.workload.name}, "neverJoin": true});
    aws::put(&scene.stack, "/boot", &rule)?;
    let outcome = broken(&mut scene, &rolled, most).await;
    aws::delete(&scene.stack, "/boot")?;
    outcome?;
    scene.end().await
}

/// A new image of the family. A provisioner that begins anew looks at once and not only after minutes.
fn release(scene: &mut Scene, version: &str) -> Result<()> {
    aws::put(&scene.stack, "/ami", &json!({"family": "al2023", "version": version}))?;
    let provisioner = scene.others.iter_mut().find(|s| s.name == "provisioner").context("a provisioner")?;
    provisioner.stop(&scene.stack)?;
    *provisioner = Service::start(&scene.stack, "provisioner", 1, &[])?;
    Ok(())
}

async fn broken(scene: &mut Scene, rolled: &BTreeSet<String>, most: usize) -> Result<()> {
    release(scene, "v20990202")?;
    scene.all_claims("Drifted", true).await?;
    let fresh = |claims: Vec<NodeClaim>| -> Vec<String> {
        claims.iter().filter(|c| !holds(c, "Registered")).map(|c| c.name_any()).collect()
    };
    let tried = eventually("the first replacements", || async {
        let tried = fresh(scene.workload.claims().await?);
        ensure!(tried.len() <= most + 1, "{} replacements at once", tried.len());
        Ok((!tried.is_empty()).then_some(tried))
    })
    .await?;
    // What becomes of a claim whose node never registers, after fifteen minutes.
    for claim in &tried {
        let _ = scene.claims().delete(claim, &DeleteParams::default()).await;
    }
    let failed = scene.ended_rolled_back().await?;
    let node = failed.remove_nodes.first().context("the node that stays")?;
    scene.held_by(node, "cool-down", "its last replacement failed").await?;
    // Those that were under way meanwhile end the same way, whenever they come to make their replacements; then nothing new
    // is tried.
    eventually("all commands to be taken back", || async {
        for claim in fresh(scene.workload.claims().await?) {
            let _ = scene.claims().delete(&claim, &DeleteParams::default()).await;
        }
        Ok((!scene.commands().await?.iter().any(is_under_way)).then_some(()))
    })
    .await?;
    let failed = scene.commands().await?.len();
    tokio::time::sleep(Duration::from_secs(15)).await;
    ensure!(scene.commands().await?.len() == failed, "the pool rests after its failures");
    println!("a broken image: {} replacements tried, then the pool rests", tried.len());
    ensure!(rolled.is_subset(&scene.node_names().await?), "the old nodes stay");
    for node in rolled {
        ensure!(!scene.is_tainted(node).await?, "{node} is still tainted");
    }
    scene.all_at_home().await
}

// Cases: TNT-1
async fn killing_services_at_any_moment_exceeds_no_budget_and_leaves_nothing_over(
    stack: Stack,
) -> Result<()> {
    let nodes = nodes_wanted(30);
    // A number: a share would grow with every replacement that has joined.
    let most = (nodes as usize).div_ceil(5);
    let pool = json!({"template": small_machines(),
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": most.to_string()}]}});
    let mut scene = Scene::new(stack, "kill", pool).await?;
    scene.spread("app", nodes, "2", json!({})).await?;
    let mut old = scene.node_names().await?;
    let (mut worst, mut generation) = (0, 0);
    for round in 0..50_u64 {
        // Whenever all nodes are new, the next change: something is under way at every kill.
        if generation == 0 || scene.node_names().await?.is_disjoint(&old) {
            generation += 1;
            old = scene.node_names().await?;
            let team = json!({"team": format!("number-{generation}")});
            scene.patch_pool(json!({"template": {"metadata": {"labels": team}}})).await?;
        }
        let pause = Duration::from_millis(400 + 173 * (round % 11));
        let until = Instant::now() + pause;
        while Instant::now() < until {
            worst = worst.max(away(&scene.workload.claims().await?));
            ensure!(worst <= most, "round {round}: {worst} nodes away where {most} may be");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let index = usize::try_from(round % 4)?;
        if index == 3 {
            scene.disruption.kill(&scene.stack)?;
            scene.disruption = Service::start(&scene.stack, "disruption", 1, &QUICK)?;
        } else {
            let name = scene.others[index].name.clone();
            scene.others[index].kill(&scene.stack)?;
            scene.others[index] = Service::start(&scene.stack, &name, 1, &[])?;
        }
    }
    let begun = Instant::now();
    loop {
        let claims = scene.workload.claims().await?;
        worst = worst.max(away(&claims));
        ensure!(worst <= most, "{worst} nodes away where {most} may be");
        let now = scene.node_names().await?;
        // Nobody answers until the last process that was started leads.
        let quiet = scene.commands().await.is_ok_and(|all| !all.iter().any(is_under_way));
        let all = nodes as usize;
        if quiet && now.is_disjoint(&old) && now.len() == all && claims.len() == all {
            break;
        }
        ensure!(begun.elapsed() < LONG, "not all nodes were replaced");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    running(&scene, "app", nodes as usize).await?;
    println!("50 kills, {generation} rolls of {nodes} nodes, at most {worst} of {most} away");
    let instances = aws::get(&scene.stack, "/instances?state=running")?;
    let ours = instances["instances"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|instance| instance["tags"]["karpenter.sh/nodepool"] == scene.workload.name.as_str());
    ensure!(ours.count() == nodes as usize, "instances without a node: {instances}");
    for claim in scene.workload.claims().await? {
        let note = claim.annotations().get(labels::COMMAND);
        ensure!(
            note.is_none_or(|note| !note.starts_with('{')),
            "{} still has a note: {note:?}",
            claim.name_any()
        );
        ensure!(!holds(&claim, "DisruptionReason"), "{} still has a reason to go", claim.name_any());
    }
    for node in scene.node_names().await? {
        ensure!(!scene.is_tainted(&node).await?, "{node} is still tainted");
    }
    scene.end().await
}

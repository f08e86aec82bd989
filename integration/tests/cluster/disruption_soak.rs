//! The long proofs of disruption: a fragmented cluster settles and then stays still, an AMI change rolls through within its
//! budget and a broken one stops, and killing services at any moment costs nothing but time.
//!
//! `DISRUPTION_SOAK_NODES` scales them down for a quick look on a small machine.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use integration::{Service, Stack, Test, aws, test};
use kube::ResourceExt as _;
use kube::api::ListParams;
use model::labels;
use proto::disruption::v1::{Command, CommandPhase};
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

/// Waits longer than an ordinary test may: there is much to do.
async fn patiently<T, F, Fut>(what: &str, limit: Duration, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<T>>>,
{
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(begun.elapsed() < limit, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

const LONG: Duration = Duration::from_secs(1200);

async fn running(scene: &Scene, app: &str, count: usize) -> Result<()> {
    patiently(&format!("{count} pods of {app}"), LONG, || async {
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

async fn fragmented_nodes_settle_at_little_more_than_a_fresh_plan_and_stay_still(stack: Stack) -> Result<()> {
    let nodes = nodes_wanted(200);
    let pool = json!({"template": small_machines(),
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}});
    let flags = ["--look-interval=1s"];
    let scene = Scene::with(stack, "settle", pool, &flags).await?;
    // Three pods of one CPU a node of four; two of three go.
    let pods = nodes * 3;
    scene.workload.deploy("app", pods, "1", json!({})).await?;
    running(&scene, "app", pods as usize).await?;
    scene.workload.scale("app", nodes).await?;
    running(&scene, "app", nodes as usize).await?;
    let before = scene.node_names().await?.len();
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "0s"}})).await?;
    let begun = Instant::now();
    // Twenty seconds without a command and with the same claims: settled.
    let (mut still, mut last) = (0, usize::MAX);
    while still < 40 {
        ensure!(begun.elapsed() < LONG, "did not settle: {last} of {before}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let claims = scene.workload.claims().await?;
        let leaving = claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_some());
        let under_way = |command: &Command| {
            use CommandPhase::{Removing, Replacing, Validating};
            matches!(command.phase(), Validating | Replacing | Removing)
        };
        let moving = leaving || scene.commands().await?.iter().any(under_way);
        still = if !moving && claims.len() == last { still + 1 } else { 0 };
        last = claims.len();
    }
    let took = begun.elapsed().saturating_sub(Duration::from_secs(20));
    let left = scene.node_names().await?.len();
    scene.all_at_home().await?;
    // Three pods of one CPU fit a node of four beside what kubelet keeps.
    let fresh = (nodes as usize).div_ceil(3);
    println!(
        "settled: {before} -> {left} nodes ({fresh} in a fresh plan) in {took:?}; CPU {} ticks, {} MB",
        scene.disruption.cpu_ticks()?,
        scene.disruption.resident_bytes()? >> 20
    );
    ensure!(left * 10 <= fresh * 11, "{left} nodes where a fresh plan needs {fresh}");
    let quiet = scene.node_names().await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    ensure!(scene.node_names().await? == quiet, "it did not stay still");
    scene.end().await
}

async fn an_ami_change_rolls_within_its_budget_and_a_broken_one_stops(stack: Stack) -> Result<()> {
    let nodes = nodes_wanted(100);
    let pool = json!({"template": small_machines(),
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]}});
    let scene = Scene::new(stack, "ami", pool).await?;
    scene.spread("app", nodes, "2", json!({})).await?;
    let old: BTreeSet<String> = scene.node_names().await?;
    let most = (nodes as usize).div_ceil(10);
    aws::put(&scene.stack, "/ami", &json!({"family": "al2023", "version": "v20990101"}))?;
    let mut worst = 0;
    let begun = Instant::now();
    loop {
        let claims = scene.workload.claims().await?;
        let away = claims.iter().filter(|claim| {
            let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            claim.metadata.deletion_timestamp.is_some()
                && !api::conditions::is_true(all, "InstanceTerminating")
                || api::conditions::is_true(all, "DisruptionReason")
                    && claim.metadata.deletion_timestamp.is_none()
        });
        worst = worst.max(away.count());
        ensure!(worst <= most, "{worst} nodes away where {most} may be");
        if scene.node_names().await?.is_disjoint(&old) && claims.len() == nodes as usize {
            break;
        }
        ensure!(begun.elapsed() < LONG, "the roll did not end");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    running(&scene, "app", nodes as usize).await?;
    println!("rolled {nodes} nodes in {:?}, at most {worst} of {most} away", begun.elapsed());

    // Nodes of the next image never join: their claims time out, and the old nodes stay.
    let rolled = scene.node_names().await?;
    aws::put(
        &scene.stack,
        "/boot",
        &json!({"match": {"karpenter.sh/nodepool": scene.workload.name}, "neverJoin": true}),
    )?;
    aws::put(&scene.stack, "/ami", &json!({"family": "al2023", "version": "v20990202"}))?;
    scene.all_claims("Drifted", true).await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let outcome = async {
        ensure!(
            rolled.is_subset(&scene.node_names().await?),
            "a node went without its replacement being ready"
        );
        let claims = scene.workload.claims().await?.len();
        ensure!(claims <= nodes as usize + most, "{claims} claims: it goes on launching");
        Ok(())
    };
    let outcome: Result<()> = outcome.await;
    aws::delete(&scene.stack, "/boot")?;
    outcome?;
    scene.end().await
}

async fn killing_services_at_any_moment_exceeds_no_budget_and_leaves_nothing_over(
    stack: Stack,
) -> Result<()> {
    let nodes = nodes_wanted(30);
    let pool = json!({"template": small_machines(),
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "20%"}]}});
    let mut scene = Scene::new(stack, "kill", pool).await?;
    scene.spread("app", nodes, "2", json!({})).await?;
    let most = (nodes as usize).div_ceil(5);
    let old = scene.node_names().await?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    for round in 0..50_u64 {
        tokio::time::sleep(Duration::from_millis(400 + 173 * (round % 11))).await;
        let index = usize::try_from(round % 4)?;
        if index == 3 {
            scene.disruption.kill(&scene.stack)?;
            scene.disruption = Service::start(&scene.stack, "disruption", 1, &QUICK)?;
        } else {
            let name = scene.others[index].name.clone();
            scene.others[index].kill(&scene.stack)?;
            scene.others[index] = Service::start(&scene.stack, &name, 1, &[])?;
        }
        let claims = scene.workload.claims().await?;
        let leaving = claims.iter().filter(|claim| {
            let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            claim.metadata.deletion_timestamp.is_some()
                && !api::conditions::is_true(all, "InstanceTerminating")
        });
        let leaving = leaving.count();
        ensure!(leaving <= most, "round {round}: {leaving} nodes leaving where {most} may");
    }
    patiently("all nodes to be replaced", LONG, || async {
        let now = scene.node_names().await?;
        let claims = scene.workload.claims().await?.len();
        Ok((now.is_disjoint(&old) && now.len() == nodes as usize && claims == nodes as usize).then_some(()))
    })
    .await?;
    running(&scene, "app", nodes as usize).await?;
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
    }
    scene.end().await
}

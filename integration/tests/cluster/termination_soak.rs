//! The long proofs of removal: nothing lost and no budget broken under a service that is killed again and again while EC2
//! throttles, a thousand nodes that drain at once, and how little five thousand that rest cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use integration::{Stack, Test, aws, eventually, patiently, test};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;

use crate::removal_scene::{Options, Scene};
use crate::termination::fewest_ready;

/// So few that their claims are written long before the collector takes the instances for garbage.
const LAUNCHED_AT_ONCE: usize = 100;
const REQUESTS_AT_ONCE: usize = 32;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("termination_soak", alone, two_hundred_nodes_go_at_once),
        test!(
            "termination_soak",
            soak,
            a_hundred_kills_during_a_hundred_drains_lose_nothing_and_break_no_budget
        ),
        test!("termination_soak", soak, a_thousand_nodes_with_thirty_thousand_pods_drain_at_once),
        test!("termination_soak", soak, five_thousand_nodes_at_rest_cost_a_listing_now_and_then),
    ]
}

/// Names and instances.
async fn many(scene: &Scene, count: usize, options: &Options) -> Result<Vec<(String, String)>> {
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let first = all.len();
        let launched = scene.launch_many(LAUNCHED_AT_ONCE.min(count - first), "many", true)?;
        let make = |(number, id): (usize, String)| async move {
            let name = scene.name(first + number);
            scene.around(&name, &id, options).await?;
            anyhow::Ok((name, id))
        };
        let made = futures::stream::iter(launched.into_iter().enumerate()).map(make);
        all.extend(made.buffer_unordered(REQUESTS_AT_ONCE).try_collect::<Vec<_>>().await?);
    }
    Ok(all)
}

async fn delete_all(scene: &Scene, nodes: &[(String, String)]) -> Result<()> {
    let delete = |(name, _): &(String, String)| {
        let name = name.clone();
        async move { scene.delete_claim(&name).await }
    };
    let all = futures::stream::iter(nodes).map(delete);
    all.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// One look at all: asking for each in turn would be most of the work.
pub(crate) async fn are_gone(scene: &Scene, nodes: &[(String, String)]) -> Result<()> {
    patiently(20, "the nodes and their claims to be gone", || async {
        let claims = scene.claims().list_metadata(&ListParams::default()).await?.items;
        let mut there: BTreeSet<String> = claims.iter().map(|claim| claim.name_any()).collect();
        there.extend(scene.node_names().await?);
        Ok((!nodes.iter().any(|(name, _)| there.contains(name))).then_some(()))
    })
    .await?;
    let living = scene.living()?;
    for (name, instance) in nodes {
        ensure!(!living.contains(instance), "instance {instance} outlived its claim {name}");
    }
    Ok(())
}

/// When each node was first seen with the taint. Never ends by itself.
async fn watch_taints(scene: &Scene, seen: &std::sync::Mutex<BTreeMap<String, Instant>>) -> Result<()> {
    let own = watcher::Config::default().labels(&format!("test={}", scene.namespace));
    let events = watcher::watcher(scene.nodes(), own);
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let (watcher::Event::Apply(node) | watcher::Event::InitApply(node)) = event? else { continue };
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        if taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")) {
            let mut seen = seen.lock().expect("nobody panics with it");
            seen.entry(node.name_any()).or_insert_with(Instant::now);
        }
    }
    anyhow::bail!("the watch ended")
}

/// Half of them one after the other, to see how soon a deleted one is tainted; the others all together.
// Cases: TRM-6
async fn two_hundred_nodes_go_at_once(stack: Stack) -> Result<()> {
    let scene = Scene::alone(stack, "many").await?;
    let nodes = many(&scene, 200, &Options::default()).await?;
    // Of one that is not ready, EC2 is asked first whether it is there at all.
    for (name, _) in &nodes {
        scene.node_is_ready(name, true).await?;
    }
    let seen = std::sync::Mutex::default();
    let mut deleted: BTreeMap<String, Instant> = BTreeMap::new();
    let removal = async {
        for (name, _) in &nodes[..100] {
            deleted.insert(name.clone(), Instant::now());
            scene.delete_claim(name).await?;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        delete_all(&scene, &nodes[100..]).await?;
        are_gone(&scene, &nodes).await
    };
    tokio::select! {
        watched = watch_taints(&scene, &seen) => watched?,
        removed = removal => removed?,
    }
    let seen = seen.into_inner().expect("nobody panics with it");
    let mut delays: Vec<Duration> = deleted
        .iter()
        .map(|(name, at)| seen.get(name).map(|taint| taint.duration_since(*at)).context("never tainted"))
        .collect::<Result<_>>()?;
    delays.sort();
    println!("from deletion to taint: median {:?}, p99 {:?}, worst {:?}", delays[50], delays[98], delays[99]);
    scene.no_drain_is_left().await
}

/// A replicated workload on the nodes of the scene, behind a budget of one.
async fn guarded(scene: &Scene, replicas: usize) -> Result<()> {
    scene.budget("db", json!({"maxUnavailable": 1})).await?;
    let workload = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "db"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "db"}}, "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"nodeSelector": {"test": scene.namespace}, "terminationGracePeriodSeconds": 1,
                     "containers": [{"name": "c", "image": "registry.example/db"}]},
        }},
    });
    scene.create(workload).await?;
    eventually("the workload to be ready", || async {
        let pdbs: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
            Api::namespaced(scene.client.clone(), &scene.namespace);
        let status = pdbs.get("db").await?.status.context("a status")?;
        Ok((usize::try_from(status.current_healthy)? == replicas).then_some(()))
    })
    .await
}

async fn a_hundred_kills_during_a_hundred_drains_lose_nothing_and_break_no_budget(
    stack: Stack,
) -> Result<()> {
    let mut scene = Scene::alone(stack, "kills").await?;
    // Ten more than are drained, so that the guarded pods have somewhere to go.
    let nodes = many(&scene, 110, &Options::default()).await?;
    guarded(&scene, 60).await?;
    let (leaving, staying) = nodes.split_at(100);
    let refusal =
        json!({"action": "*Instances", "code": "RequestLimitExceeded", "status": 503, "percent": 30});
    aws::put(&scene.stack, "/errors", &refusal)?;
    let fewest = AtomicUsize::new(60);
    let pods = scene.pods();
    let kills = async {
        // One more drain with every kill, so that there is always something in every state.
        for (round, (name, _)) in leaving.iter().enumerate() {
            scene.delete_claim(name).await?;
            tokio::time::sleep(Duration::from_millis(200 + (round as u64 * 7919) % 2300)).await;
            scene.kill_and_restart()?;
        }
        are_gone(&scene, leaving).await
    };
    tokio::select! {
        watched = fewest_ready(pods, &fewest) => watched?,
        killed = kills => killed?,
    }
    aws::delete(&scene.stack, "/errors")?;
    let fewest = fewest.into_inner();
    println!("fewest ready of 60: {fewest}");
    ensure!(fewest >= 59, "the budget of one was broken: {fewest} of 60 ready");
    let workload =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": scene.namespace}});
    integration::kubernetes::api_of(&scene.client, &workload)
        .await?
        .delete("db", &DeleteParams::default())
        .await?;
    delete_all(&scene, staying).await?;
    are_gone(&scene, staying).await?;
    scene.no_drain_is_left().await
}

async fn a_thousand_nodes_with_thirty_thousand_pods_drain_at_once(stack: Stack) -> Result<()> {
    let scene = Scene::alone(stack, "thousand").await?;
    let nodes = many(&scene, 1000, &Options::default()).await?;
    let pods = scene.pods();
    let make = |number: usize| {
        let (pods, node) = (pods.clone(), nodes[number % 1000].0.clone());
        async move {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("p{number}"), "labels": {"app": format!("a{}", number % 50)}},
                "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1,
                         "containers": [{"name": "c", "image": "registry.example/c"}]},
            });
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
            anyhow::Ok(())
        }
    };
    futures::stream::iter(0..30_000).map(make).buffer_unordered(64).try_collect::<()>().await?;
    println!("resident at rest: {} MiB", scene.service.resident_bytes()? >> 20);
    let evicted = || scene.service.metric("karpenter_pods_eviction_requests_total", "code=\"200\"");
    delete_all(&scene, &nodes).await?;
    let (began, mut most) = (Instant::now(), 0);
    while evicted()? < 30_000.0 {
        most = most.max(scene.service.resident_bytes()?);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left = pods.list(&ListParams::default().limit(1)).await?.items.len();
        if left == 0 {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} evictions in {seconds:.0} s: {:.0} a second; resident at most {} MiB",
        evicted()?,
        evicted()? / seconds,
        most >> 20
    );
    are_gone(&scene, &nodes).await?;
    println!("all gone after {:.0} s", began.elapsed().as_secs_f64());
    ensure!(most < 150 << 20, "{} MiB resident", most >> 20);
    Ok(())
}

/// Nobody plays their kubelets: what counts is what the service asks about them.
async fn five_thousand_nodes_at_rest_cost_a_listing_now_and_then(stack: Stack) -> Result<()> {
    let scene = Scene::alone(stack, "rest").await?;
    let quiet = Options {
        node: json!({"metadata": {"annotations": {"kwok.x-k8s.io/node": "real"}}}),
        ..Options::default()
    };
    let nodes = many(&scene, 5000, &quiet).await?;
    aws::delete(&scene.stack, "/calls")?;
    let (looked_for, cpu) = (Duration::from_secs(60), scene.service.cpu_ticks()?);
    tokio::time::sleep(looked_for).await;
    let calls = aws::get(&scene.stack, "/calls?limit=0")?;
    let asked = calls["byAccessKey"]["termination"]["ec2:DescribeInstances"].as_u64().unwrap_or(0);
    println!(
        "5000 nodes at rest: {asked} calls of DescribeInstances in {looked_for:?}, {} ms of CPU, {} MiB resident",
        (scene.service.cpu_ticks()? - cpu) * 10,
        scene.service.resident_bytes()? >> 20
    );
    // A look every three seconds here, of five pages each; the joiner has a feed of its own.
    ensure!((1..=200).contains(&asked), "{asked} calls: {calls}");
    let began = Instant::now();
    delete_all(&scene, &nodes).await?;
    are_gone(&scene, &nodes).await?;
    println!("all gone after {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

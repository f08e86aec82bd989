//! The long proofs of removal: nothing lost and no budget broken under a service that is killed again and again while EC2
//! throttles, and a thousand nodes that drain at once.

use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use integration::{Stack, Test, aws, eventually, test};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::removal_scene::{Options, Scene};
use crate::termination::fewest_ready;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!(
            "termination_soak",
            soak,
            a_hundred_kills_during_a_hundred_drains_lose_nothing_and_break_no_budget
        ),
        test!("termination_soak", soak, a_thousand_nodes_with_thirty_thousand_pods_drain_at_once),
    ]
}

async fn many(scene: &Scene, count: usize) -> Result<Vec<(String, String)>> {
    let make = |number: usize| async move {
        let name = scene.name(number);
        let instance = scene.node(&name, &Options::default()).await?;
        anyhow::Ok((name, instance))
    };
    futures::stream::iter(0..count).map(make).buffer_unordered(16).try_collect().await
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
    let mut scene = Scene::new(stack, "kills").await?;
    // Ten more than are drained, so that the guarded pods have somewhere to go.
    let nodes = many(&scene, 110).await?;
    guarded(&scene, 60).await?;
    let (leaving, staying) = nodes.split_at(100);
    for (name, _) in leaving {
        scene.delete_claim(name).await?;
    }
    let fewest = AtomicUsize::new(60);
    let pods = scene.pods();
    let kills = async {
        for round in 0..100_u64 {
            // Every third call of EC2 or so is refused.
            for action in ["DescribeInstances", "TerminateInstances"] {
                let refusal = json!({"action": action, "code": "RequestLimitExceeded", "message": "slow down", "count": 1});
                aws::put(&scene.stack, "/errors", &refusal)?;
            }
            tokio::time::sleep(Duration::from_millis(200 + (round * 7919) % 2300)).await;
            scene.kill_and_restart()?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        watched = fewest_ready(pods, &fewest) => watched?,
        killed = kills => killed?,
    }
    aws::delete(&scene.stack, "/errors")?;
    for (name, instance) in leaving {
        scene.is_gone(name, instance).await?;
    }
    let fewest = fewest.into_inner();
    println!("fewest ready of 60: {fewest}");
    ensure!(fewest >= 59, "the budget of one was broken: {fewest} of 60 ready");
    let workload =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": scene.namespace}});
    integration::kubernetes::api_of(&scene.client, &workload)
        .await?
        .delete("db", &DeleteParams::default())
        .await?;
    for (name, _) in staying {
        scene.delete_claim(name).await?;
    }
    for (name, instance) in staying {
        scene.is_gone(name, instance).await?;
    }
    scene.no_drain_is_left().await?;
    scene.end()
}

async fn a_thousand_nodes_with_thirty_thousand_pods_drain_at_once(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "thousand").await?;
    let nodes = many(&scene, 1000).await?;
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
    let delete = |(name, _): (String, String)| {
        let scene = &scene;
        async move { scene.delete_claim(&name).await }
    };
    let deleted = futures::stream::iter(nodes.clone()).map(delete).buffer_unordered(64);
    deleted.try_collect::<()>().await?;
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
    for (name, instance) in &nodes {
        scene.is_gone(name, instance).await?;
    }
    ensure!(most < 150 << 20, "{} MiB resident", most >> 20);
    scene.end()
}

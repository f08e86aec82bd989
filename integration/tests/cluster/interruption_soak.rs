//! The long proofs of interruption handling: a storm for a thousand nodes with kills in it, and how soon a node of five
//! thousand is tainted.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use integration::{Stack, Test, patiently, test};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::watcher;

use crate::interruption::storm;
use crate::interruption_scene::{Interruptions, send, spot_warning};
use crate::removal_scene::Options;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("interruption_soak", soak, ten_thousand_messages_for_a_thousand_nodes_with_kills_in_between),
        test!("interruption_soak", soak, a_node_of_five_thousand_is_tainted_within_a_second),
    ]
}

async fn ten_thousand_messages_for_a_thousand_nodes_with_kills_in_between(stack: Stack) -> Result<()> {
    storm(stack, "bigstorm", 1000, 10_000, &[2000, 3000, 1000].map(Duration::from_millis)).await
}

const NODES: usize = 5000;
const WARNED: usize = 200;

async fn a_node_of_five_thousand_is_tainted_within_a_second(stack: Stack) -> Result<()> {
    let mut all = Interruptions::new(stack, "many", &[]).await?;
    // Nobody collects nodes without instances while they are not ready yet.
    all.scene.service.stop(&all.scene.stack)?;
    let make = |number: usize| {
        let all = &all;
        async move {
            let name = all.scene.name(number);
            if number < WARNED {
                return anyhow::Ok((all.spot_node(&name).await?, name));
            }
            // Only the warned ones need an instance that can end.
            let id = format!("i-{number:017x}");
            let provider_id = format!("aws:///{}/{id}", all.scene.zone);
            all.scene.bare_node(&name, &provider_id, &Options::default()).await?;
            anyhow::Ok((id, name))
        }
    };
    let nodes: Vec<(String, String)> =
        futures::stream::iter(0..NODES).map(make).buffered(32).try_collect().await?;
    are_ready(&all).await?;
    all.scene.restart()?;
    println!("{NODES} nodes; watcher at rest {} MiB", all.watcher.resident_bytes()? >> 20);

    let tainted: Mutex<HashMap<String, Instant>> = Mutex::default();
    let watching = async {
        let nodes: Api<Node> = Api::all(all.scene.client.clone());
        let mut changes = std::pin::pin!(watcher(nodes, watcher::Config::default()));
        while let Some(change) = changes.next().await {
            if let Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node)) = change {
                let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
                if taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted") {
                    let mut seen = tainted.lock().expect("no test panics with it");
                    seen.entry(node.name_any()).or_insert_with(Instant::now);
                }
            }
        }
        anyhow::bail!("the watch ended")
    };
    let warning = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let mut sent = HashMap::new();
        // Not a storm but a steady trickle: each is measured by itself.
        for (instance, name) in &nodes[..WARNED] {
            send(all.stack(), &[spot_warning(all.stack(), instance)?])?;
            sent.insert(name.clone(), Instant::now());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let began = Instant::now();
        while tainted.lock().expect("no test panics with it").len() < WARNED {
            ensure!(began.elapsed() < Duration::from_secs(180), "not all were tainted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(sent)
    };
    let sent = tokio::select! {
        ended = watching => return ended,
        sent = warning => sent?,
    };
    let tainted = tainted.into_inner().context("no test panics with it")?;
    let mut took: Vec<Duration> = sent
        .iter()
        .map(|(name, at)| Some(tainted.get(name)?.saturating_duration_since(*at)))
        .collect::<Option<_>>()
        .context("one that nobody warned about was tainted")?;
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    let resident = all.watcher.resident_bytes()? >> 20;
    println!(
        "sent to tainted: p50 {:?}, p99 {:?}, most {:?}; watcher {resident} MiB",
        at(50),
        at(99),
        at(100)
    );
    for (instance, name) in &nodes[..WARNED] {
        all.scene.is_gone(name, instance).await?;
    }
    all.watcher.stop(all.stack())?;
    clean_up(&all).await
}

async fn are_ready(all: &Interruptions) -> Result<()> {
    let nodes: Api<Node> = Api::all(all.scene.client.clone());
    let own = ListParams::default().labels(&format!("karpenter.sh/nodepool={}", all.scene.namespace));
    let ready = |node: &&Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    patiently(5, "all nodes to be ready", || async {
        let found = nodes.list(&own).await?.items;
        Ok((found.iter().filter(ready).count() == NODES).then_some(()))
    })
    .await
}

/// The other nodes have no instances: they are taken away without termination.
async fn clean_up(all: &Interruptions) -> Result<()> {
    all.scene.service.kill(all.stack())?;
    let claims = all.claims().await?;
    let nodes: Api<kube::api::DynamicObject> = integration::kubernetes::api_of(
        &all.scene.client,
        &serde_json::json!({"apiVersion": "v1", "kind": "Node"}),
    )
    .await?;
    let own = format!("karpenter.sh/nodepool={}", all.scene.namespace);
    for api in [claims, nodes] {
        let left = api.list_metadata(&ListParams::default().labels(&own)).await?.items;
        let free = |name: String| {
            let api = api.clone();
            async move {
                let patch = serde_json::json!({"metadata": {"finalizers": null}});
                api.patch(&name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await?;
                api.delete(&name, &DeleteParams::default()).await?;
                anyhow::Ok(())
            }
        };
        let names = left.into_iter().map(|object| object.name_any());
        futures::stream::iter(names).map(free).buffer_unordered(32).try_collect::<()>().await?;
    }
    Ok(())
}

//! The long proofs of interruption handling: a storm for a thousand nodes with kills in it, and how soon a node of five
//! thousand is tainted.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use integration::{Stack, Test, eventually, test};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::watcher;
use tokio::task::JoinSet;

use crate::interruption::storm;
use crate::interruption_scene::{Interruptions, send, spot_warning};
use crate::removal_scene::Options;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("interruption_soak", soak, ten_thousand_messages_for_a_thousand_nodes_with_kills_in_between)
            .expecting(&["message removed without being handled"]),
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
                return anyhow::Ok((all.unseen_spot_node(&name).await?, name));
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

    let tainted: Arc<Mutex<HashMap<String, Timestamp>>> = Arc::default();
    let (listed, mut is_listed) = tokio::sync::watch::channel(false);
    // A task of its own: what sends must not keep it from looking.
    let mut watching = JoinSet::new();
    watching.spawn(note_taints(Api::all(all.scene.client.clone()), tainted.clone(), listed));
    is_listed.wait_for(|listed| *listed).await?;
    let mut sent = HashMap::new();
    // Not a storm but a steady trickle: each is measured by itself.
    for (instance, name) in &nodes[..WARNED] {
        let (stack, body) = (all.stack().clone(), spot_warning(all.stack(), instance)?);
        sent.insert(name.clone(), Timestamp::now());
        tokio::task::spawn_blocking(move || send(&stack, &[body])).await??;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let noted = || tainted.lock().expect("no test panics with it").clone();
    eventually("all to be tainted", || async {
        let noted = noted();
        Ok(sent.keys().all(|name| noted.contains_key(name)).then_some(()))
    })
    .await?;
    watching.abort_all();
    let tainted = noted();
    let mut received: HashMap<String, Timestamp> = HashMap::new();
    for (instance, name) in &nodes[..WARNED] {
        let told = all.told_once(instance, "MESSAGE_KIND_SPOT_INTERRUPTED").await?;
        received.insert(name.clone(), told["receivedAt"].as_str().context("a time of receipt")?.parse()?);
    }
    println!("sent to tainted: {}", spread(&sent, &tainted)?);
    println!("received to tainted: {}", spread(&received, &tainted)?);
    println!("watcher {} MiB", all.watcher.resident_bytes()? >> 20);
    for (instance, name) in &nodes[..WARNED] {
        all.scene.is_gone(name, instance).await?;
    }
    all.watcher.stop(all.stack())?;
    clean_up(&all).await
}

/// How long it took from the one to the other, by node.
fn spread(from: &HashMap<String, Timestamp>, to: &HashMap<String, Timestamp>) -> Result<String> {
    let took = |(name, at): (&String, &Timestamp)| Some(to.get(name)?.duration_since(*at).as_millis());
    let mut took: Vec<i128> = from.iter().map(took).collect::<Option<_>>().context("one was not tainted")?;
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    Ok(format!("p50 {} ms, p99 {} ms, most {} ms", at(50), at(99), at(100)))
}

async fn note_taints(
    nodes: Api<Node>,
    tainted: Arc<Mutex<HashMap<String, Timestamp>>>,
    listed: tokio::sync::watch::Sender<bool>,
) {
    let mut changes = std::pin::pin!(watcher(nodes, watcher::Config::default()));
    while let Some(change) = changes.next().await {
        match change {
            Ok(watcher::Event::InitDone) => {
                listed.send_replace(true);
            }
            Ok(watcher::Event::Apply(node)) => {
                let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
                if taints.into_iter().any(|taint| taint.key == "karpenter.sh/disrupted") {
                    let mut seen = tainted.lock().expect("no test panics with it");
                    seen.entry(node.name_any()).or_insert_with(Timestamp::now);
                }
            }
            _ => {}
        }
    }
}

/// By a watch: lists of so many nodes would slow down what makes them ready.
async fn are_ready(all: &Interruptions) -> Result<()> {
    let nodes: Api<Node> = Api::all(all.scene.client.clone());
    let own = watcher::Config::default().labels(&format!("karpenter.sh/nodepool={}", all.scene.namespace));
    let mut changes = std::pin::pin!(watcher(nodes, own));
    let mut ready = HashSet::new();
    while ready.len() < NODES {
        let change = tokio::time::timeout(Duration::from_secs(180), changes.next()).await;
        let change = change.with_context(|| format!("only {} of {NODES} nodes became ready", ready.len()))?;
        if let Some(Ok(watcher::Event::Apply(node) | watcher::Event::InitApply(node))) = change
            && is_ready(&node)
        {
            ready.insert(node.name_any());
        }
    }
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
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

//! The live page in a real browser: what happens in the cluster is drawn, explained and answered there, and stays text.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use api::NodeClaim;
use futures::StreamExt as _;
use integration::{Stack, Test, eventually, kubernetes, test};
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::live_page_scene::{Scene, kubectl_karpenter};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("live_page", alone, a_scale_up_is_drawn_soon_after_its_pod_is_created),
        test!("live_page", alone, a_drain_shows_the_pod_and_the_budget_that_block_it),
        test!("live_page", alone, a_what_if_has_the_numbers_of_plan_live),
        test!("live_page", alone, hostile_text_of_the_cluster_stays_text),
        test!("live_page", alone, the_link_of_a_launch_finds_the_trace_that_its_claim_names),
    ]
}

/// Each is one more node. A busy machine delays some; the page's own delay is in all of them.
const SCALE_UPS: u32 = 3;
/// From a pod's creation to its node on the page, the provisioner's batch window included; printed beside what was measured.
const BAR_SECONDS: f64 = 2.0;
/// No machine that is merely slow needs as long.
const FAR_BEYOND_SECONDS: f64 = 30.0;

/// Remembers when each claim's node was first among the boxes of a drawn frame.
const RECORDER: &str = "
    window.drawnAt = {};
    const look = () => {
      for (const row of window.karpenter.cluster.boxes?.rows ?? [])
        for (const { node } of row.items) if (node.claim) window.drawnAt[node.claim] ??= Date.now();
      requestAnimationFrame(look);
    };
    look();";

/// One pod per node: how many nodes there are does not depend on how the pods come.
fn apart() -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
    ]}}})
}

async fn a_scale_up_is_drawn_soon_after_its_pod_is_created(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "scale-up", &[]).await?;
    let workload = &scene.workload;
    scene.page.run(RECORDER, &json!([]))?;
    let of_pool = watcher::Config::default().labels(&format!("karpenter.sh/nodepool={}", workload.name));
    let claims = Visible::new(Api::<NodeClaim>::all(workload.client.clone()), of_pool);
    let pods = Visible::new(workload.pods(), watcher::Config::default());
    workload.deploy("web", 0, "500m", apart()).await?;
    let (mut of_pods, mut of_claims): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for replicas in 1..=SCALE_UPS {
        let (pods_before, claims_before) = (pods.all(), claims.all());
        workload.scale("web", replicas).await?;
        let (_, created_at) = pods.another("pod", &pods_before).await?;
        let (claim, claimed_at) = claims.another("claim", &claims_before).await?;
        let drawn_at = eventually("its node to be drawn", || async {
            Ok(scene.page.run("return window.drawnAt[arguments[0]]", &json!([claim]))?.as_f64())
        })
        .await?;
        of_pods.push((drawn_at - created_at) / 1e3);
        of_claims.push((drawn_at - claimed_at) / 1e3);
    }
    println!("from the pod in the API to its node on the page: {of_pods:.2?} s, the bar is {BAR_SECONDS} s");
    println!("from the claim in the API to its node on the page: {of_claims:.2?} s");
    let best = of_pods.iter().copied().fold(f64::INFINITY, f64::min);
    ensure!(best <= FAR_BEYOND_SECONDS, "the page shows the nodes of new pods after {of_pods:.2?} s");
    drop((claims, pods));
    scene.end().await
}

/// When the API server first had each object, in milliseconds since the epoch.
struct Visible {
    seen: Arc<Mutex<BTreeMap<String, f64>>>,
    _watching: JoinSet<()>,
}

impl Visible {
    fn new<K>(objects: Api<K>, which: watcher::Config) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let seen: Arc<Mutex<BTreeMap<String, f64>>> = Arc::default();
        let known = Arc::clone(&seen);
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            let mut events = std::pin::pin!(watcher(objects, which));
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.entry(object.name_any()).or_insert(now.as_secs_f64() * 1e3);
                }
            }
        });
        Self { seen, _watching: watching }
    }

    fn all(&self) -> BTreeMap<String, f64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for one that was not there before: its name, and when it came.
    async fn another(&self, what: &str, before: &BTreeMap<String, f64>) -> Result<(String, f64)> {
        eventually(&format!("the API to have another {what}"), || async {
            Ok(self.all().into_iter().find(|(name, _)| !before.contains_key(name)))
        })
        .await
    }
}

async fn a_drain_shows_the_pod_and_the_budget_that_block_it(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "page-drain", &[]).await?;
    let workload = &scene.workload;
    workload.deploy("web", 1, "1", json!({})).await?;
    let node = workload.running("web", 1).await?.swap_remove(0);
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "all-of-web-stays", "namespace": workload.name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    });
    let budgets = kubernetes::api_of(&workload.client, &budget).await?;
    budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
    let pod = workload.pods().list(&kube::api::ListParams::default()).await?.items.swap_remove(0).name_any();
    let claim = workload.claims().await?.swap_remove(0).name_any();
    let claims: Api<NodeClaim> = Api::all(workload.client.clone());
    claims.delete(&claim, &DeleteParams::default()).await?;

    scene.page.show("waiting")?;
    scene.page.shows("#view-waiting", &[&node, &pod, "all-of-web-stays"]).await?;
    scene.page.show("cluster")?;
    scene.page.run("window.karpenter.cluster.select(arguments[0])", &json!([node]))?;
    scene.page.shows("#view-cluster aside", &["Draining", &pod, "all-of-web-stays"]).await?;
    ensure!(claims.get_opt(&claim).await?.is_some(), "the budget did not hold {claim}");

    budgets.delete("all-of-web-stays", &DeleteParams::default()).await?;
    let gone = "return !window.karpenter.model.nodes.has(arguments[0])";
    scene.page.comes_to("the node to leave the page", gone, &json!([node])).await?;
    scene.page.show("decisions")?;
    scene.page.shows("#view-decisions", &[&format!("Drain {node}")]).await?;
    scene.end().await
}

/// The page's table of today beside the answer: rows by title.
type Rows = BTreeMap<String, (String, String)>;

impl Scene {
    /// Asks a question and reads the answer. The button is the one of this name.
    async fn what_if(&self, prepare: &str, argument: &Value, button: &str) -> Result<Rows> {
        self.page.show("question")?;
        self.page.run(prepare, &json!([argument]))?;
        let press = "[...document.querySelectorAll('#view-question button')].find((each) => each.textContent === arguments[0]).click()";
        self.page.run(press, &json!([button]))?;
        eventually("the page's answer", || async {
            let read = "return [...document.querySelectorAll('#view-question table.compare tr')].map((row) => [...row.children].map((cell) => cell.textContent))";
            let rows: Vec<Vec<String>> = serde_json::from_value(self.page.run(read, &json!([]))?)?;
            let rows: Rows = rows.into_iter().filter_map(|row| <[String; 3]>::try_from(row).ok()).map(|[a, b, c]| (a, (b, c))).collect();
            ensure!(!rows.is_empty(), "{}", self.page.text_of("#view-question")?);
            Ok(Some(rows))
        })
        .await
    }

    /// What `plan --live` of the same person says.
    fn plan(&self, manifests: &Value, words: &[&str]) -> Result<Value> {
        let mut command = kubectl_karpenter(&self.person.kubeconfig)?;
        command.args(["plan", "--live", "-f", "-", "-o", "json"]).args(words);
        let mut running =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut input = running.stdin.take().context("piped")?;
        input.write_all(manifests.to_string().as_bytes())?;
        drop(input);
        let output = running.wait_with_output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// To as many digits as the page shows.
fn is_amount(shown: &str, dollars: &Value) -> bool {
    let Some(shown) = shown.strip_prefix('$').map(|amount| amount.replace(',', "")) else { return false };
    let digits = shown.split_once('.').map_or(0, |(_, digits)| digits.len());
    dollars.as_f64().is_some_and(|dollars| format!("{dollars:.digits$}") == shown)
}

fn equals(rows: &Rows, planned: &Value) -> Result<()> {
    let row = |title: &str| rows.get(title).with_context(|| format!("no row {title:?} in {rows:?}"));
    let (today, then) = row("Nodes")?;
    let counts = [today, then].map(|count| count.parse::<u64>().ok());
    let expected = [&planned["today"]["nodes"], &planned["changed"]["nodes"]].map(Value::as_u64);
    ensure!(counts == expected, "{rows:?} beside {planned}");
    let (today, then) = row("$/h")?;
    ensure!(is_amount(today, &planned["today"]["hourly"]), "{rows:?} beside {planned}");
    ensure!(is_amount(then, &planned["changed"]["hourly"]), "{rows:?} beside {planned}");
    let new = planned["nodes"].as_array().map(Vec::len);
    let shown = row("Nodes kept, removed, new")?.1.rsplit(", ").next().and_then(|new| new.parse().ok());
    ensure!(shown == new, "{rows:?} beside {planned}");
    let left = planned["unschedulable"].as_array().map(|pods| pods.len().to_string());
    ensure!(Some(&row("Pods without a place")?.1) == left.as_ref(), "{rows:?} beside {planned}");
    Ok(())
}

async fn a_what_if_has_the_numbers_of_plan_live(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "what-if", &[]).await?;
    let workload = &scene.workload;
    workload.deploy("web", 2, "1", apart()).await?;
    let node = workload.running("web", 2).await?.swap_remove(0);
    let mut more = serde_json::to_value(workload.deployments().get("web").await?)?;
    (more["apiVersion"], more["kind"]) = (json!("apps/v1"), json!("Deployment"));
    eventually("page and provisioner to know that every pod runs", || async {
        let same = scene.plan(&more, &[])?;
        ensure!(same["today"] == same["changed"] && same["nodes"] == json!([]), "{same}");
        let ready = "return [...window.karpenter.model.nodes.values()].filter((node) => node.pool === arguments[0] && node.price > 0 && node.phase === 'initialised' && node.pods.length > 0).length";
        let ready = scene.page.run(ready, &json!([workload.name]))?;
        let pending = scene.page.run("return window.karpenter.model.pending.size", &json!([]))?;
        ensure!(ready == 2 && pending == 0, "{ready} nodes ready, {pending} pods pending");
        Ok(Some(()))
    })
    .await?;

    // A workload that grows by three nodes.
    more["spec"]["replicas"] = json!(5);
    let planned = scene.plan(&more, &[])?;
    ensure!(planned["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3), "{planned}");
    let write = "document.querySelector('#view-question textarea').value = arguments[0]";
    let rows = scene.what_if(write, &json!(more.to_string()), "With these objects").await?;
    equals(&rows, &planned)?;

    // A node that goes.
    let nothing = json!({"apiVersion": "v1", "kind": "List", "items": []});
    let planned = scene.plan(&nothing, &["--remove", &format!("Node/{node}")])?;
    ensure!(planned["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1), "{planned}");
    let choose = "[...document.querySelectorAll('#view-question .list label')].find((each) => each.textContent.includes(arguments[0])).querySelector('input').click()";
    let rows = scene.what_if(choose, &json!(node), "Without these nodes").await?;
    equals(&rows, &planned)?;
    ensure!(workload.claims().await?.len() == 2, "a question changed the cluster");
    scene.end().await
}

/// As whoever may create pods in one namespace could write it; the API does not check these texts.
const HOSTILE: &str =
    "<img src=x onerror=\"window.owned='by text'\"><script>window.owned='by a script'</script>";

async fn hostile_text_of_the_cluster_stays_text(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "hostile", &[]).await?;
    let volume = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": HOSTILE}}]});
    scene.workload.deploy("web", 1, "100m", volume).await?;
    scene.page.show("waiting")?;
    scene.page.shows("#view-waiting", &[HOSTILE]).await?;
    // In a question, and in its answer.
    let unknown = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": HOSTILE, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100000"}}}]},
        }},
    });
    let write = "document.querySelector('#view-question textarea').value = arguments[0]";
    scene.what_if(write, &json!(unknown.to_string()), "With these objects").await?;
    scene.page.shows("#view-question", &["<img src=x"]).await?;
    let count = "return [document.images.length, document.scripts.length, window.owned ?? null]";
    let found = scene.page.run(count, &json!([]))?;
    ensure!(found == json!([0, 2, null]), "images, scripts and what they did: {found}");
    scene.end().await
}

async fn the_link_of_a_launch_finds_the_trace_that_its_claim_names(stack: Stack) -> Result<()> {
    let jaeger = stack.var("JAEGER_URL")?.to_owned();
    let scene = Scene::new(stack, "trace-link", &["--jaeger", &jaeger]).await?;
    let workload = &scene.workload;
    workload.deploy("web", 1, "500m", json!({})).await?;
    workload.running("web", 1).await?;
    let claim = workload.claims().await?.swap_remove(0);
    let parent = claim.annotations().get(model::labels::TRACEPARENT).context("no trace on the claim")?;
    let trace = parent.split('-').nth(1).context("a W3C traceparent")?;
    scene.page.show("decisions")?;
    let link = "return [...document.querySelectorAll('#view-decisions li.launch a')].map((each) => each.href).find((href) => decodeURIComponent(href).includes(arguments[0]))";
    let link = eventually("the link of the launch", || async {
        Ok(scene.page.run(link, &json!([claim.name_any()]))?.as_str().map(str::to_owned))
    })
    .await?;
    let search = link.strip_prefix(&format!("{jaeger}/search?")).context("a search of this Jaeger")?;
    // What Jaeger's own page asks for when the link is followed.
    let search = format!("{jaeger}/api/traces?{search}");
    eventually("Jaeger to find the trace of the claim", || async {
        let found: Value = ureq::get(&search).call()?.body_mut().read_json()?;
        let ids: Vec<&Value> =
            found["data"].as_array().into_iter().flatten().map(|each| &each["traceID"]).collect();
        ensure!(ids.iter().any(|id| *id == trace), "{search} finds {ids:?} and not {trace}");
        Ok(Some(()))
    })
    .await?;
    scene.end().await
}

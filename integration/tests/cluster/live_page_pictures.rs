//! The pictures of the documentation: a cluster of several teams at work, every view of the page. Made where the environment
//! variable PICTURES names a directory (`deploy/docs/pictures/make`).

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use api::{EC2NodeClass, NodeClaim, NodePool};
use integration::browser::Browser;
use integration::{Skipped, Stack, Test, kubernetes, patiently, test};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::disruption_scene::QUICK;
use crate::live_page_scene::{Page, Person, services};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("live_page_pictures", alone, every_view_of_a_cluster_at_work_is_pictured)]
}

const TEAMS: [&str; 5] = ["checkout", "payments", "search", "web", "ml-batch"];
const POOLS: [&str; 3] = ["general", "memory", "spot-batch"];

/// Namespace, name, pool, replicas, CPU, memory, and whether no two pods share a node.
type Work = (&'static str, &'static str, &'static str, u32, &'static str, &'static str, bool);

const WORK: [Work; 9] = [
    ("checkout", "cart", "general", 24, "500m", "1Gi", false),
    ("checkout", "orders", "general", 6, "1500m", "2Gi", true),
    ("payments", "ledger", "general", 9, "1", "3Gi", true),
    ("web", "storefront", "general", 60, "250m", "512Mi", false),
    ("web", "assets", "general", 12, "400m", "256Mi", false),
    ("search", "index", "memory", 6, "1500m", "14Gi", true),
    ("search", "query", "general", 14, "750m", "2Gi", false),
    ("ml-batch", "train", "spot-batch", 20, "3", "6Gi", false),
    ("ml-batch", "features", "spot-batch", 26, "700m", "1Gi", false),
];
/// Asks for more than any instance type has.
const TOO_LARGE: Work = ("ml-batch", "whole-corpus", "spot-batch", 2, "700", "1Gi", false);

fn pool(name: &str) -> Value {
    let only = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let (capacity, categories, cpu): (&[&str], &[&str], &[&str]) = match name {
        "general" => (&["spot", "on-demand"], &["c", "m"], &["4", "8", "16"]),
        "memory" => (&["on-demand"], &["r"], &["4", "8"]),
        _ => (&["spot"], &["c", "m"], &["8", "16", "32"]),
    };
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    only("karpenter.sh/capacity-type", capacity),
                    only("karpenter.k8s.aws/instance-category", categories),
                    only("karpenter.k8s.aws/instance-cpu", cpu),
                    {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["5"]},
                ],
            }},
            "disruption": {"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]},
        },
    })
}

fn deployment((namespace, name, pool, replicas, cpu, memory, apart): Work) -> Value {
    let labels = json!({"app": name});
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"karpenter.sh/nodepool": pool},
        "containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
    });
    if apart {
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]}});
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

struct Cluster {
    client: Client,
}

impl Cluster {
    async fn create(&self, object: Value) -> Result<()> {
        let api = kubernetes::api_of(&self.client, &object).await?;
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    async fn build(&self, cluster_name: &str) -> Result<()> {
        for team in TEAMS {
            self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})).await?;
        }
        let discovery = json!([{"tags": {"karpenter.sh/discovery": cluster_name}}]);
        self.create(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {
                "role": format!("KarpenterNodeRole-{cluster_name}"),
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
            },
        }))
        .await?;
        for name in POOLS {
            self.create(pool(name)).await?;
        }
        for work in WORK {
            self.create(deployment(work)).await?;
        }
        Ok(())
    }

    async fn scale(&self, namespace: &str, name: &str, replicas: u32) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch_scale(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn pods_run(&self, namespace: &str, name: &str, count: usize) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let selector = ListParams::default().labels(&format!("app={name}"));
        patiently(2, &format!("{count} pods of {namespace}/{name} to run"), || async {
            let runs = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
            let running: Vec<Pod> = pods.list(&selector).await?.items.into_iter().filter(runs).collect();
            Ok((running.len() == count).then_some(running))
        })
        .await
    }

    /// A drain that waits for the budget of a pod on that node.
    async fn drain_against_a_budget(&self, node: &str) -> Result<()> {
        self.create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "index", "namespace": "search"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "index"}}},
        }))
        .await?;
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let all = claims.list(&ListParams::default()).await?.items;
        let of_node = |c: &&NodeClaim| c.status.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node);
        let claim = all.iter().find(of_node).context("a claim of the node")?;
        claims.delete(&claim.name_any(), &DeleteParams::default()).await?;
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for team in TEAMS {
            namespaces.delete(team, &DeleteParams::default()).await?;
        }
        let pools: Api<NodePool> = Api::all(self.client.clone());
        for name in POOLS {
            pools.delete(name, &DeleteParams::default()).await?;
        }
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        patiently(2, "all claims to be gone", || async {
            Ok(claims.list(&ListParams::default()).await?.items.is_empty().then_some(()))
        })
        .await?;
        Api::<EC2NodeClass>::all(self.client.clone()).delete("default", &DeleteParams::default()).await?;
        Ok(())
    }
}

fn directory() -> Result<PathBuf> {
    let named = std::env::var_os("PICTURES").map(PathBuf::from);
    let named = named.ok_or_else(|| Skipped("PICTURES names no directory for them".to_owned()))?;
    std::fs::create_dir_all(&named).with_context(|| format!("make {}", named.display()))?;
    Ok(named)
}

async fn every_view_of_a_cluster_at_work_is_pictured(stack: Stack) -> Result<()> {
    let directory = directory()?;
    let browser = Browser::start()?;
    browser.prefer_dark(true)?;
    let running = services(&stack, &QUICK)?;
    let cluster = Cluster { client: stack.admin().await? };
    cluster.build(stack.var("CLUSTER_NAME")?).await?;
    // The namespace's default account is there when the first pods run; the person's can be made then.
    cluster.pods_run("checkout", "cart", 24).await?;
    let person = Person::new(&stack, &cluster.client, "checkout").await?;
    person.may_look().await?;
    let page = Page::open(browser, &person.kubeconfig, &["--jaeger", "http://localhost:16686"])?;
    page.is_live().await?;
    for (namespace, name, _, replicas, ..) in WORK {
        cluster.pods_run(namespace, name, usize::try_from(replicas)?).await?;
    }
    happenings(&cluster, &page).await?;
    pictures(&page, &directory).await?;
    drop(page);
    person.may_not_look_any_more().await?;
    cluster.remove().await?;
    running.iter().rev().try_for_each(|service| service.stop(&stack))
}

/// Consolidation after a scale-down, a drain that waits, pods that fit nowhere, and a scale-up.
async fn happenings(cluster: &Cluster, page: &Page) -> Result<()> {
    cluster.scale("web", "storefront", 24).await?;
    cluster.scale("ml-batch", "train", 9).await?;
    let done = "return [...window.karpenter.model.decisions.values()].filter((each) => each.kind === 'disruption' && each.phase === 'done').length >= 2";
    page.comes_to("two commands of consolidation to be done", done, &json!([])).await?;
    let index = cluster.pods_run("search", "index", 6).await?;
    let node = index[0].spec.as_ref().and_then(|spec| spec.node_name.clone()).context("a node")?;
    cluster.drain_against_a_budget(&node).await?;
    cluster.create(deployment(TOO_LARGE)).await?;
    page.show("waiting")?;
    page.shows("#view-waiting", &[&node, "search/index", "ml-batch/whole-corpus"]).await?;
    let explained = "return [...window.karpenter.model.pending.values()].every((each) => each.reason)";
    page.comes_to("the reason of every pod that waits", explained, &json!([])).await
}

async fn pictures(page: &Page, directory: &Path) -> Result<()> {
    let picture = |view: &str| page.browser.picture(&directory.join(format!("live-page-{view}.png")));
    picture("waiting")?;

    page.show("question")?;
    page.run(
        "for (const box of [...document.querySelectorAll('#view-question .list input')].slice(0, 3)) box.click();
         document.querySelector('#view-question button.main').click()",
        &json!([]),
    )?;
    let answered = "return document.querySelector('#view-question table.compare') !== null";
    page.comes_to("the answer to a question", answered, &json!([])).await?;
    picture("question")?;

    page.show("decisions")?;
    page.shows("#view-decisions", &["Done"]).await?;
    picture("decisions")?;

    page.show("cost")?;
    // The lower bound.
    page.shows("#view-cost", &["can cost less"]).await?;
    picture("cost")?;

    page.show("cluster")?;
    // The colours are explained once the canvas was drawn.
    page.shows("#view-cluster .legend", &["checkout"]).await?;
    picture("cluster")?;
    for view in ["cluster", "cost", "decisions", "waiting", "question"] {
        let size = directory.join(format!("live-page-{view}.png")).metadata()?.len();
        ensure!(size > 10_000, "the picture of {view} is empty: {size} bytes");
    }
    Ok(())
}

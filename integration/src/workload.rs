//! A tenant of the cluster for one test: a namespace, an EC2NodeClass and a NodePool of its own, and Deployments whose pods
//! only fit on that pool's nodes, so that tests do not disturb each other.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use api::{EC2NodeClass, NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::kubernetes::namespace;
use crate::stack::Stack;
use crate::wait::{eventually, patiently};

/// Label that ties pods to the pool of their test.
const TENANT: &str = "integration.example.com/tenant";

pub struct Workload {
    pub client: Client,
    /// Name of the namespace, of the EC2NodeClass and of the NodePool.
    pub name: String,
}

impl Workload {
    /// `pool` and `class` are merged into the specs of the NodePool and the EC2NodeClass.
    pub async fn new(stack: &Stack, prefix: &str, pool: Value, class: Value) -> Result<Self> {
        let client = stack.admin().await?;
        let name = namespace(&client, prefix).await?;
        let cluster = stack.var("CLUSTER_NAME")?;
        let discovery = json!([{"tags": {"karpenter.sh/discovery": cluster}}]);
        let mut node_class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
            "spec": {
                "role": format!("KarpenterNodeRole-{cluster}"),
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery,
            },
        });
        merge(&mut node_class["spec"], class);
        let mut node_pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {
                "template": {
                    "metadata": {"labels": {TENANT: name}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
                        "requirements": [
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
                            {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
                        ],
                    },
                },
                "disruption": {"consolidateAfter": "Never"},
            },
        });
        merge(&mut node_pool["spec"], pool);
        let created = PostParams::default();
        let classes: Api<EC2NodeClass> = Api::all(client.clone());
        classes
            .create(&created, &serde_json::from_value(node_class)?)
            .await
            .context("create EC2NodeClass")?;
        let pools: Api<NodePool> = Api::all(client.clone());
        pools.create(&created, &serde_json::from_value(node_pool)?).await.context("create NodePool")?;
        Ok(Self { client, name })
    }

    /// A Deployment of pods that each ask for `cpu`; `pod` is merged into the pods' spec.
    pub async fn deploy(&self, name: &str, replicas: u32, cpu: &str, pod: Value) -> Result<()> {
        let mut spec = json!({
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {TENANT: self.name},
            "containers": [{"name": "app", "image": "pause", "resources": {"requests": {"cpu": cpu}}}],
        });
        merge(&mut spec, pod);
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        }))?;
        self.deployments().create(&PostParams::default(), &deployment).await?;
        Ok(())
    }

    pub async fn scale(&self, name: &str, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments().patch_scale(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until exactly `count` pods of a Deployment run, and returns their nodes' names.
    pub async fn running(&self, name: &str, count: usize) -> Result<Vec<String>> {
        self.running_within(name, count, 1).await
    }

    /// The same with so many times the patience: thousands of pods take their time on a small machine.
    pub async fn running_within(&self, name: &str, count: usize, patience: u32) -> Result<Vec<String>> {
        let selector = ListParams::default().labels(&format!("app={name}"));
        patiently(patience, &format!("{count} pods of {name} to run"), || async {
            let pods = self.pods().list(&selector).await?.items;
            let nodes: Vec<String> = pods
                .iter()
                .filter(|pod| {
                    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
                })
                .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
                .collect();
            ensure!(nodes.len() == count && pods.len() == count, "{}", not_running(&pods));
            Ok(Some(nodes))
        })
        .await
    }

    /// NodeClaims of this test's pool.
    pub async fn claims(&self) -> Result<Vec<NodeClaim>> {
        let selector = ListParams::default().labels(&format!("karpenter.sh/nodepool={}", self.name));
        Ok(Api::<NodeClaim>::all(self.client.clone()).list(&selector).await?.items)
    }

    /// Nodes of this test's pool.
    pub async fn nodes(&self) -> Result<BTreeMap<String, Node>> {
        let selector = ListParams::default().labels(&format!("karpenter.sh/nodepool={}", self.name));
        let nodes = Api::<Node>::all(self.client.clone()).list(&selector).await?.items;
        Ok(nodes.into_iter().map(|node| (node.name_any(), node)).collect())
    }

    /// Every node there is.
    pub async fn all_nodes(&self) -> Result<BTreeMap<String, Node>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?.items;
        Ok(nodes.into_iter().map(|node| (node.name_any(), node)).collect())
    }

    pub fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Deletes the workloads and the pool, which takes its claims along, and waits until no claim is left.
    pub async fn remove(&self) -> Result<()> {
        self.remove_with(&[]).await
    }

    /// The same, waiting for the claims of other pools too, which the test has deleted already.
    pub async fn remove_with(&self, pools_gone: &[&str]) -> Result<()> {
        // Without the workloads no pod waits for a node that is not to come any more.
        self.deployments().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let pools: Api<NodePool> = Api::all(self.client.clone());
        pools.delete(&self.name, &DeleteParams::default()).await?;
        let names: Vec<&str> = pools_gone.iter().copied().chain([self.name.as_str()]).collect();
        let selector = format!("karpenter.sh/nodepool in ({})", names.join(","));
        let left = ListParams::default().labels(&selector);
        let claims = Api::<NodeClaim>::all(self.client.clone());
        eventually("all claims of the pool to be gone", || async {
            Ok(claims.list(&left).await?.items.is_empty().then_some(()))
        })
        .await?;
        let classes: Api<EC2NodeClass> = Api::all(self.client.clone());
        classes.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// What keeps pods from running, for the reader of a failure.
fn not_running(pods: &[Pod]) -> String {
    let about = |pod: &Pod| {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("without a phase");
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let why: Vec<&str> = conditions.iter().filter_map(|c| c.message.as_deref()).collect();
        (phase != "Running").then(|| format!("{} on {node} is {phase}: {}", pod.name_any(), why.join("; ")))
    };
    let about: Vec<String> = pods.iter().filter_map(about).collect();
    format!("{} of {} pods run. {}", pods.len() - about.len(), pods.len(), about.join(". "))
}

/// RFC 7386, as `kubectl patch --type merge` does it.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, from) => *into = from,
    }
}

//! Taking over from Karpenter: a cluster with the objects that Karpenter 1.14 leaves behind, first watched in shadow mode, then
//! taken over for good. No node is replaced, no label lost, and nothing is launched twice.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("takeover", alone, nodes_that_karpenter_made_are_taken_over_as_they_are)]
}

/// Annotations that Karpenter 1.14 puts on claims and nodes; all others are ours.
const KARPENTER_S: [&str; 10] = [
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "karpenter.k8s.aws/tagged",
    "karpenter.k8s.aws/instance-profile-name",
    "karpenter.sh/nodeclaim-min-values-relaxed",
    "karpenter.sh/nodeclaim-termination-timestamp",
    "karpenter.sh/stored-version-migrated",
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
];

const SERVICES: [&str; 5] =
    ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];

fn start(stack: &Stack, arguments: &[&str]) -> Result<Vec<Service>> {
    SERVICES.iter().map(|name| Service::start(stack, name, 0, arguments)).collect()
}

async fn nodes_that_karpenter_made_are_taken_over_as_they_are(stack: Stack) -> Result<()> {
    let workload = Workload::new(&stack, "takeover", json!({}), json!({})).await?;
    let running = start(&stack, &[])?;
    workload.deploy("app", 4, "1500m", json!({})).await?;
    workload.running("app", 4).await?;
    // Instances get their last tags, one per second, once their nodes have joined.
    eventually("every claim to be tagged", || async {
        let tagged = |c: &api::NodeClaim| c.annotations().contains_key("karpenter.k8s.aws/tagged");
        Ok(workload.claims().await?.iter().all(tagged).then_some(()))
    })
    .await?;
    // Nothing is written any more from here on: what is left are the objects.
    for service in &running {
        service.kill(&stack)?;
    }
    as_karpenter_left_it(&stack, &workload).await?;
    let before = Picture::take(&stack, &workload).await?;

    watched_in_shadow_mode_nothing_changes(&stack, &workload, &before).await?;

    let running = start(&stack, &[])?;
    workload.scale("app", 5).await?;
    workload.running("app", 5).await?;
    // Long enough for every comparison of instances with claims that follows a start.
    looked_for_garbage(&stack).await?;
    before.is_still_there(&Picture::take(&stack, &workload).await?)?;

    // What was taken over is also ours to remove.
    let claims: Api<api::NodeClaim> = Api::all(workload.client.clone());
    let old = before.claims.keys().next().context("a claim")?.clone();
    claims.delete(&old, &DeleteParams::default()).await?;
    eventually("the old claim to be drained and gone", || async {
        Ok(claims.get_opt(&old).await?.is_none().then_some(()))
    })
    .await?;
    workload.running("app", 5).await?;
    workload.deployments().delete("app", &DeleteParams::default()).await?;
    workload.remove().await?;
    running.iter().try_for_each(|service| service.stop(&stack))
}

/// Takes away everything that only this product writes: annotations, leases, certificates, caches.
async fn as_karpenter_left_it(stack: &Stack, workload: &Workload) -> Result<()> {
    let params = PatchParams::default();
    let claims: Api<api::NodeClaim> = Api::all(workload.client.clone());
    for claim in workload.claims().await? {
        let foreign = claim.annotations().keys().filter(|key| !KARPENTER_S.contains(&key.as_str()));
        let nothing: BTreeMap<&String, Value> = foreign.map(|key| (key, Value::Null)).collect();
        let patch = json!({"metadata": {"annotations": nothing}});
        claims.patch(&claim.name_any(), &params, &Patch::Merge(&patch)).await?;
    }
    let maps: Api<ConfigMap> = Api::namespaced(workload.client.clone(), "kube-system");
    for map in maps.list(&Default::default()).await? {
        if map.name_any().starts_with("karpenter-") {
            maps.delete(&map.name_any(), &DeleteParams::default()).await?;
        }
    }
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(stack.admin().await?, "kube-system");
    for lease in leases.list(&Default::default()).await? {
        leases.delete(&lease.name_any(), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// What must survive: claims and nodes with their labels, taints, finalizers and hashes, and the instances.
struct Picture {
    claims: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    instances: BTreeSet<String>,
}

impl Picture {
    async fn take(stack: &Stack, workload: &Workload) -> Result<Self> {
        let mut claims = BTreeMap::new();
        for claim in workload.claims().await? {
            let kept: BTreeMap<&String, &String> =
                claim.annotations().iter().filter(|(key, _)| KARPENTER_S.contains(&key.as_str())).collect();
            let provider = claim.status.as_ref().and_then(|status| status.provider_id.clone());
            let facts = json!({
                "uid": claim.uid(), "labels": claim.labels(), "annotations": kept, "spec": claim.spec,
                "finalizers": claim.finalizers(), "provider": provider,
            });
            claims.insert(claim.name_any(), facts);
        }
        let mut nodes = BTreeMap::new();
        for (name, node) in workload.nodes().await? {
            nodes.insert(name, described(&node));
        }
        let listed = aws::get(stack, "/instances?state=running")?;
        let listed = listed["instances"].as_array().cloned().unwrap_or_default();
        let instances =
            listed.iter().filter_map(|instance| Some(instance["id"].as_str()?.to_owned())).collect();
        Ok(Self { claims, nodes, instances })
    }

    fn is_still_there(&self, now: &Self) -> Result<()> {
        for (name, claim) in &self.claims {
            ensure!(
                now.claims.get(name) == Some(claim),
                "claim {name} was {claim} and is {:?}",
                now.claims.get(name)
            );
        }
        for (name, node) in &self.nodes {
            ensure!(
                now.nodes.get(name) == Some(node),
                "node {name} was {node} and is {:?}",
                now.nodes.get(name)
            );
        }
        ensure!(!self.instances.is_empty() && self.instances.is_subset(&now.instances), "instances ended");
        let (claims, instances) = (now.claims.len(), now.instances.len());
        ensure!(claims == instances, "{instances} instances run for {claims} claims");
        Ok(())
    }
}

fn described(node: &Node) -> Value {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    json!({"uid": node.uid(), "labels": node.labels(), "finalizers": node.finalizers(), "taints": taints})
}

/// Pods pend, a claim is deleted: the shadow says what it would do about it and does none of it.
async fn watched_in_shadow_mode_nothing_changes(
    stack: &Stack,
    workload: &Workload,
    before: &Picture,
) -> Result<()> {
    let running = start(stack, &["--shadow-mode"])?;
    aws::delete(stack, "/calls")?;
    workload.scale("app", 9).await?;
    let log = stack.dir().join("log/provisioner-0.log");
    eventually("the provisioner to say which claim it would have made", || async {
        let text = std::fs::read_to_string(&log)?;
        let told = text.lines().any(|line| line.contains("shadow mode: would create nodeclaims"));
        Ok(told.then_some(()))
    })
    .await?;
    looked_for_garbage(stack).await?;
    let now = Picture::take(stack, workload).await?;
    before.is_still_there(&now)?;
    ensure!(now.claims.len() == before.claims.len(), "a claim was made");
    let calls = aws::get(stack, "/calls?limit=1")?;
    let counts = calls["counts"].as_object().cloned().unwrap_or_default();
    for call in counts.keys().filter(|call| call.starts_with("ec2:") || call.starts_with("iam:")) {
        let action = call.split(':').nth(1).unwrap_or_default();
        let reads = ["Describe", "Get", "List"].iter().any(|verb| action.starts_with(verb));
        ensure!(reads, "a shadow called {call}");
    }
    workload.scale("app", 4).await?;
    for service in &running {
        service.stop(stack)?;
    }
    Ok(())
}

/// Until termination has compared instances with claims twice more.
async fn looked_for_garbage(stack: &Stack) -> Result<()> {
    let count =
        |calls: &Value| calls["byAccessKey"]["termination"]["ec2:DescribeInstances"].as_u64().unwrap_or(0);
    let begin = count(&aws::get(stack, "/calls?limit=1")?);
    eventually("two looks for instances without a claim", || async {
        let now = count(&aws::get(stack, "/calls?limit=1")?);
        Ok((now >= begin + 2).then_some(()))
    })
    .await
}

//! The long proofs of provisioning: leaders killed at the worst moment, again and again, and a burst beside a large cluster.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use api::NodeClaim;
use futures::StreamExt as _;
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning_soak", soak, fifty_leaders_killed_after_a_launch_leave_one_instance_a_claim),
        test!("provisioning_soak", soak, five_thousand_pods_at_once_beside_a_thousand_nodes),
    ]
}

const ROLE: &str = "karpenter-provisioner";
const STATUS: &str = "nodeclaims/status";

/// The provisioner's rights with and without that to write the status of claims. Without it, it comes as far as EC2's answer
/// and no further, which is exactly where it is to be killed.
struct Rights {
    roles: Api<ClusterRole>,
    all: Vec<PolicyRule>,
    no_status: Vec<PolicyRule>,
}

impl Rights {
    async fn read(stack: &Stack) -> Result<Self> {
        let roles: Api<ClusterRole> = Api::all(stack.admin().await?);
        let all = roles.get(ROLE).await?.rules.unwrap_or_default();
        let mut no_status = all.clone();
        for rule in &mut no_status {
            rule.resources.iter_mut().for_each(|names| names.retain(|name| name != STATUS));
        }
        no_status.retain(|rule| {
            rule.non_resource_urls.is_some() || rule.resources.as_ref().is_some_and(|names| !names.is_empty())
        });
        ensure!(no_status != all, "no rule of {ROLE} names {STATUS}");
        Ok(Self { roles, all, no_status })
    }

    async fn may_write_status(&self, may: bool) -> Result<()> {
        let mut role = self.roles.get(ROLE).await?;
        role.rules = Some(if may { self.all.clone() } else { self.no_status.clone() });
        role.metadata.managed_fields = None;
        self.roles.replace(ROLE, &PostParams::default(), &role).await?;
        Ok(())
    }
}

/// Running instances by the claim they are tagged with.
fn instances(stack: &Stack) -> Result<BTreeMap<String, Vec<String>>> {
    let all = aws::get(stack, "/instances?state=running")?;
    let mut by_claim: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for instance in all["instances"].as_array().context("a list of instances")? {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let claim = word(&instance["tags"]["karpenter.sh/nodeclaim"]);
        by_claim.entry(claim).or_default().push(word(&instance["id"]));
    }
    Ok(by_claim)
}

/// The follower takes over now instead of when the Lease has run out.
async fn give_up_lease(stack: &Stack) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(stack.admin().await?, "kube-system");
    let patch = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
    leases.patch(ROLE, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn leads(service: &Service) -> bool {
    service.metric("leader_election_master_status", "").is_ok_and(|value| value > 0.0)
}

async fn fifty_leaders_killed_after_a_launch_leave_one_instance_a_claim(stack: Stack) -> Result<()> {
    const KILLS: usize = 50;
    for name in ["pricing-cache", "termination"] {
        Service::start(&stack, name, 1, &[])?;
    }
    let mut pair =
        [Service::start(&stack, "provisioner", 1, &[])?, Service::start(&stack, "provisioner", 2, &[])?];
    // Room for one pod a node, so that every round needs an instance of its own.
    let small = json!({"template": {"spec": {"requirements": [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "c5.large"]},
    ]}}});
    let workload = Workload::new(&stack, "killed", small, json!({})).await?;
    workload.deploy("app", 1, "1500m", json!({})).await?;
    workload.running("app", 1).await?;
    let claims: Api<NodeClaim> = Api::all(workload.client.clone());
    let rights = Rights::read(&stack).await?;
    for round in 1..=KILLS {
        let leader = eventually("a leader", || async { Ok(pair.iter().position(leads)) }).await?;
        rights.may_write_status(false).await?;
        workload.scale("app", u32::try_from(round + 1)?).await?;
        let claim = eventually("an instance that its claim does not know of", || async {
            let launched = instances(&stack)?;
            let unaware = |claim: &&NodeClaim| {
                let known = claim.status.as_ref().and_then(|s| s.provider_id.as_deref()).unwrap_or_default();
                known.is_empty() && launched.contains_key(&claim.name_any())
            };
            Ok(workload.claims().await?.iter().find(unaware).map(|c| c.name_any()))
        })
        .await?;
        pair[leader].kill(&stack)?;
        rights.may_write_status(true).await?;
        give_up_lease(&stack).await?;
        pair[leader] = Service::start(&stack, "provisioner", pair[leader].replica, &[])?;
        workload.running("app", round + 1).await.with_context(|| format!("after kill {round}"))?;
        let known = claims.get(&claim).await?.status.and_then(|s| s.provider_id).unwrap_or_default();
        let launched = instances(&stack)?;
        match launched.get(&claim).map(Vec::as_slice) {
            Some([only]) => ensure!(known.ends_with(only.as_str()), "kill {round}: {known} is not {only}"),
            other => bail!("kill {round}: claim {claim} has the instances {other:?}"),
        }
    }
    let (launched, left) = (instances(&stack)?, workload.claims().await?);
    let double: Vec<_> = launched.iter().filter(|(_, ids)| ids.len() != 1).collect();
    ensure!(double.is_empty(), "several instances for one claim: {double:?}");
    let orphans: Vec<_> =
        launched.keys().filter(|name| !left.iter().any(|c| c.name_any() == **name)).collect();
    ensure!(orphans.is_empty(), "instances without a claim: {orphans:?}");
    ensure!(left.len() == KILLS + 1, "{} claims for {} pods", left.len(), KILLS + 1);
    workload.remove().await
}

const NODES: usize = 1_000;
const PODS: u32 = 5_000;

/// Nodes of somebody else, ready and of no use to the test's pods.
async fn other_nodes(stack: &Stack) -> Result<Vec<String>> {
    let api: Api<Node> = Api::all(stack.admin().await?);
    let make = |index: usize| {
        let api = api.clone();
        async move {
            let name = format!("other-{index}");
            let amounts = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
            let node: Node = serde_json::from_value(json!({
                "metadata": {
                    "name": name,
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {
                        "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                        "topology.kubernetes.io/zone": "us-west-2a", "node.kubernetes.io/instance-type": "m5.2xlarge",
                    },
                },
                "spec": {"providerID": format!("aws:///us-west-2a/i-other{index:012}")},
                "status": {"capacity": amounts, "allocatable": amounts},
            }))?;
            api.create(&PostParams::default(), &node).await?;
            anyhow::Ok(name)
        }
    };
    let made: Vec<Result<String>> =
        futures::stream::iter((0..NODES).map(make)).buffer_unordered(32).collect().await;
    made.into_iter().collect()
}

async fn five_thousand_pods_at_once_beside_a_thousand_nodes(stack: Stack) -> Result<()> {
    for name in ["pricing-cache", "termination"] {
        Service::start(&stack, name, 1, &[])?;
    }
    let others = other_nodes(&stack).await?;
    let provisioner = Service::start(&stack, "provisioner", 1, &[])?;
    let workload = Workload::new(&stack, "burst", json!({}), json!({})).await?;
    let began = Instant::now();
    let apps: [(&str, u32, &str); 4] =
        [("a", 2000, "100m"), ("b", 1500, "250m"), ("c", 1000, "500m"), ("d", 500, "1")];
    ensure!(apps.iter().map(|(_, count, _)| count).sum::<u32>() == PODS);
    for (name, count, cpu) in apps {
        workload.deploy(name, count, cpu, json!({})).await?;
    }
    for (name, count, _) in apps {
        workload.running_within(name, count as usize, 20).await?;
    }
    let took = began.elapsed();
    let claims = workload.claims().await?;
    let created = provisioner
        .metric("karpenter_nodeclaims_created_total", &format!("nodepool=\"{}\"", workload.name))?;
    ensure!(created as usize == claims.len(), "{created} claims were made, {} are left", claims.len());
    let launched = instances(&stack)?;
    let double: Vec<_> = launched.iter().filter(|(_, ids)| ids.len() != 1).collect();
    ensure!(double.is_empty(), "several instances for one claim: {double:?}");
    println!(
        "{PODS} pods ran on {} new nodes after {:.1} s; provisioner: {:.1} s of a core, {} MiB",
        claims.len(),
        took.as_secs_f64(),
        provisioner.cpu_ticks()? as f64 / 100.0,
        provisioner.resident_bytes()? >> 20,
    );
    workload.remove().await?;
    let nodes: Api<Node> = Api::all(workload.client.clone());
    let gone = futures::stream::iter(others).map(|name| {
        let nodes = nodes.clone();
        async move { nodes.delete(&name, &DeleteParams::default()).await.map(drop) }
    });
    let gone: Vec<Result<(), kube::Error>> = gone.buffer_unordered(32).collect().await;
    gone.into_iter().collect::<Result<Vec<()>, _>>()?;
    eventually("the other nodes to be gone", || async {
        let left = nodes.list(&ListParams::default().limit(1)).await?.items;
        Ok(left.iter().all(|node| !node.name_any().starts_with("other-")).then_some(()))
    })
    .await
}

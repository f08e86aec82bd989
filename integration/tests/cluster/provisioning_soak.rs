//! The long proofs of provisioning: leaders killed at the worst moment, again and again, and a burst beside a large cluster.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use integration::workload::Workload;
use integration::{Service, Stack, Test, eventually, test};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::provisioning_batches::{instances, one_instance_a_claim};

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
    /// Claims that share a fleet request.
    const TOGETHER: usize = 3;
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
    let rights = Rights::read(&stack).await?;
    let mut pods = 1;
    for round in 1..=KILLS {
        let leader = eventually("a leader", || async { Ok(pair.iter().position(leads)) }).await?;
        rights.may_write_status(false).await?;
        pods += TOGETHER;
        workload.scale("app", u32::try_from(pods)?).await?;
        eventually("instances that no claim knows of", || async {
            Ok((instances(&stack, &workload)?.len() >= pods).then_some(()))
        })
        .await
        .with_context(|| format!("before kill {round}"))?;
        pair[leader].kill(&stack)?;
        rights.may_write_status(true).await?;
        give_up_lease(&stack).await?;
        pair[leader] = Service::start(&stack, "provisioner", pair[leader].replica, &[])?;
        workload.running("app", pods).await.with_context(|| format!("after kill {round}"))?;
        one_instance_a_claim(&stack, &workload).await.with_context(|| format!("after kill {round}"))?;
    }
    let left = workload.claims().await?.len();
    ensure!(left == pods, "{left} claims for {pods} pods");
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
    one_instance_a_claim(&stack, &workload).await?;
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

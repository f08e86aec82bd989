//! Launches that fail for a lasting reason: tried again after growing pauses, and said to whom it concerns.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::NodePool;
use integration::rpc::Impersonation;
use integration::workload::Workload;
use integration::{Stack, Test, eventually, test};
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use model::labels;
use proto::provisioner::v1::ExplainPodRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::types::v1::PodRef;
use serde_json::{Value, json};

use crate::provisioning::{events, services, stop};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("provisioning_backoff", alone, a_lasting_failure_to_launch_backs_off_and_others_go_on)]
}

/// In this time pauses of 1, 2, 4, 8 and 16 seconds end.
const WATCHED: Duration = Duration::from_secs(45);

fn requirements(least_sizes: Value) -> Value {
    json!([
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
        {"key": "karpenter.k8s.aws/instance-size", "operator": "Exists", "minValues": least_sizes},
    ])
}

async fn a_lasting_failure_to_launch_backs_off_and_others_go_on(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    // The types that the NodePool allows have ten sizes; the sixty cheapest, which are all that one call of CreateFleet may
    // name, have not.
    let pool = json!({"template": {"spec": {"requirements": requirements(json!(10))}}});
    let failing = Workload::new(&stack, "failing", pool, json!({})).await?;
    let sound = Workload::new(&stack, "sound", json!({}), json!({})).await?;
    failing.deploy("app", 1, "1", json!({})).await?;
    let began = Instant::now();
    let pod = eventually("the pod", || async {
        Ok(failing.pods().list(&ListParams::default()).await?.items.first().map(|p| p.name_any()))
    })
    .await?;
    let of_pod = eventually("an event of the pod that names the backoff", || async {
        let all = events(&failing, &pod, "FailedScheduling").await?;
        Ok(all.into_iter().find_map(|e| e.message.filter(|m| m.contains("cannot be launched"))))
    })
    .await?;
    ensure!(of_pod.contains(&failing.name), "{of_pod}");
    eventually("an event of the NodePool", || async {
        let all: Api<Event> = Api::namespaced(failing.client.clone(), "default");
        let of_pool = format!("involvedObject.name={},reason=LaunchBackoff", failing.name);
        Ok(all.list(&ListParams::default().fields(&of_pool)).await?.items.pop())
    })
    .await?;
    let person = Impersonation::person(&stack, runtime::Service::Provisioner).await?;
    let mut client = ProvisionerClient::new(person.peers.leader());
    let named = PodRef { namespace: failing.name.clone(), name: pod, uid: String::new() };
    let explained = client.explain_pod(ExplainPodRequest { pod: Some(named) }).await?.into_inner();
    ensure!(explained.summary.contains("cannot be launched"), "{explained:?}");

    // Other NodePools are not concerned.
    sound.deploy("app", 2, "1", json!({})).await?;
    sound.running("app", 2).await?;

    while began.elapsed() < WATCHED {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let of_failing = format!("nodepool=\"{}\"", failing.name);
    let created = running[1].metric("karpenter_nodeclaims_created_total", &of_failing)?;
    println!("{created} NodeClaims in {:?}", began.elapsed());
    // The first, and one after each pause: n of them take 2^n - 1 seconds.
    let most = 2.0 + (began.elapsed().as_secs_f64() + 1.0).log2().floor();
    ensure!(created <= most, "{created} NodeClaims in {:?}, more than {most}", began.elapsed());

    // What is corrected is tried at once, whatever the pause.
    let pools: Api<NodePool> = Api::all(failing.client.clone());
    let corrected = json!({"spec": {"template": {"spec": {"requirements": requirements(Value::Null)}}}});
    pools.patch(&failing.name, &PatchParams::default(), &Patch::Merge(corrected)).await?;
    failing.running("app", 1).await?;
    failing.remove().await?;
    sound.remove().await?;
    stop(&stack, &running)
}

//! Shadow mode against a real API server: nothing that a shadow sends is stored, deletions least of all.

use anyhow::{Context, Result, ensure};
use clap::Parser as _;
use integration::kubernetes::namespace;
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use serde_json::json;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("shadow", alone, nothing_that_a_shadow_sends_is_stored),
        test!("shadow", alone, an_expired_node_outlives_a_shadow),
    ]
}

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    process: runtime::ProcessConfig,
}

/// The client of a service in shadow mode, with the administrator's rights: only shadow mode is in its way.
async fn shadow_client(stack: &Stack) -> Result<kube::Client> {
    let read = kube::config::Kubeconfig::read_from(stack.var("KUBECONFIG")?)?;
    let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await?;
    let flags = Flags::try_parse_from(["harness", "--shadow-mode"])?;
    runtime::kube_client::build(runtime::Service::Termination, &flags.process, config)
}

async fn nothing_that_a_shadow_sends_is_stored(stack: Stack) -> Result<()> {
    let (admin, shadow) = (stack.admin().await?, shadow_client(&stack).await?);
    let space = namespace(&admin, "shadow").await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), &space);
    let named = |name: &str| ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let map = maps.create(&PostParams::default(), &named("kept")).await?;
    let workload = Workload::new(&stack, "shadow", json!({}), json!({})).await?;
    let pools: Api<api::NodePool> = Api::all(admin.clone());
    let pool = pools.get(&workload.name).await?;
    let pods: Api<Pod> = Api::namespaced(admin.clone(), &space);
    let pod = json!({
        "metadata": {"name": "kept"},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "a", "image": "a"}]},
    });
    let pod: Pod = serde_json::from_value(pod)?;
    // Admission wants the namespace's default ServiceAccount, which a controller makes.
    eventually("the namespace to take pods", || async {
        Ok(pods.create(&PostParams::default(), &pod).await.ok().map(drop))
    })
    .await?;

    let shadow_maps: Api<ConfigMap> = Api::namespaced(shadow.clone(), &space);
    let exactly = Preconditions { uid: map.uid(), resource_version: map.resource_version() };
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    shadow_maps.delete("kept", &DeleteParams::default()).await?;
    shadow_maps.delete("kept", &DeleteParams::default().preconditions(exactly)).await?;
    shadow_maps.create(&PostParams::default(), &named("new")).await?;
    let data = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    shadow_maps.patch("kept", &PatchParams::default(), &Patch::Merge(&data)).await?;
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}});
    shadow_maps.patch("applied", &PatchParams::apply("shadow"), &Patch::Apply(&applied)).await?;
    let changed = ConfigMap { data: Some([("a".to_owned(), "b".to_owned())].into()), ..map.clone() };
    shadow_maps.replace("kept", &PostParams::default(), &changed).await?;
    let all = shadow_maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    ensure!(all.is_err(), "a collection was deleted");

    let shadow_pools: Api<api::NodePool> = Api::all(shadow.clone());
    let status = json!({"status": {"resources": {"nodes": "7"}}});
    shadow_pools.patch_status(&workload.name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    shadow_pools.delete(&workload.name, &DeleteParams::default()).await?;

    let shadow_pods: Api<Pod> = Api::namespaced(shadow, &space);
    shadow_pods.evict("kept", &EvictParams::default()).await?;
    shadow_pods.delete("kept", &at_once).await?;

    let after = maps.get("kept").await?;
    ensure!(after == map, "the ConfigMap was {map:?} and is {after:?}");
    for name in ["new", "applied"] {
        ensure!(maps.get_opt(name).await?.is_none(), "ConfigMap {name} was made");
    }
    let after = pools.get(&workload.name).await?;
    ensure!(after.resource_version() == pool.resource_version(), "the NodePool is {after:?}");
    let after = pods.get("kept").await?;
    ensure!(after.metadata.deletion_timestamp.is_none(), "the pod is being deleted");
    pods.delete("kept", &at_once).await?;
    workload.remove().await
}

/// Expiry ends a node whatever budgets say: the most dangerous decision for a shadow to carry out.
async fn an_expired_node_outlives_a_shadow(stack: Stack) -> Result<()> {
    let pool = json!({"template": {"spec": {"expireAfter": "1m"}}});
    let workload = Workload::new(&stack, "shadow", pool, json!({})).await?;
    let services = ["pricing-cache", "provisioner", "termination", "disruption"];
    let start = |arguments: &[&str]| -> Result<Vec<Service>> {
        services.iter().map(|name| Service::start(&stack, name, 1, arguments)).collect()
    };
    // Without disruption, nothing ends the node before the shadow sees it.
    let running: Vec<Service> =
        services[..3].iter().map(|name| Service::start(&stack, name, 1, &[])).collect::<Result<_>>()?;
    workload.deploy("app", 1, "1", json!({})).await?;
    workload.running("app", 1).await?;
    for service in &running {
        service.stop(&stack)?;
    }
    let claim = workload.claims().await?.pop().context("a claim")?;

    let shadows = start(&["--shadow-mode"])?;
    aws::delete(&stack, "/calls")?;
    let log = stack.dir().join("log/disruption-1.log");
    eventually("disruption to say that it would delete the claim", || async {
        let text = std::fs::read_to_string(&log)?;
        let says = |line: &&str| {
            line.contains("shadow mode: would delete nodeclaims") && line.contains(&claim.name_any())
        };
        Ok(text.lines().find(says).map(drop))
    })
    .await?;
    let claims: Api<api::NodeClaim> = Api::all(workload.client.clone());
    let after = claims.get(&claim.name_any()).await.context("the claim is still there")?;
    ensure!(after.metadata.deletion_timestamp.is_none(), "the shadow deleted the claim");
    ensure!(after.resource_version() == claim.resource_version(), "the shadow changed the claim: {after:?}");
    let calls = aws::get(&stack, "/calls?limit=1")?;
    for call in calls["counts"].as_object().cloned().unwrap_or_default().keys() {
        let action = call.split(':').nth(1).unwrap_or_default();
        let reads = ["Describe", "Get", "List"].iter().any(|verb| action.starts_with(verb));
        ensure!(reads || !call.starts_with("ec2:"), "a shadow called {call}");
    }
    for service in &shadows {
        service.stop(&stack)?;
    }

    let running = start(&[])?;
    workload.deployments().delete("app", &DeleteParams::default()).await?;
    workload.remove().await?;
    running.iter().rev().try_for_each(|service| service.stop(&stack))
}

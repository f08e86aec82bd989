//! An AWS as late, slow and scarce as EC2 can be: every setting of the local AWS and of its machines that is off elsewhere.

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use kube::ResourceExt as _;
use model::labels;
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("unkind_aws", alone, pods_run_and_nothing_is_left_over_on_a_late_and_slow_aws)]
}

fn make_unkind(stack: &Stack) -> Result<()> {
    let settings = json!({
        "visibleAfterMs": 4000, "profileUsableAfterMs": 4000, "runningAfterMs": 2000, "terminatedAfterMs": 5000,
        "spotByCapacity": true, "requestRates": 1.0,
    });
    aws::put(stack, "/settings", &settings)?;
    let boot =
        json!({"bootDelayMs": 2500, "readyAfterMs": 2000, "uninitializedMs": 3000, "memoryPercent": 99.5});
    aws::put(stack, "/boot", &boot)?;
    Ok(())
}

/// Instances of the pool that are not terminated.
fn instances(stack: &Stack, pool: &str) -> Result<Vec<Value>> {
    let all = aws::get(stack, "/instances")?["instances"].as_array().cloned().context("a list")?;
    let is_live = |one: &Value| one["state"] != "terminated" && one["tags"][labels::NODEPOOL] == pool;
    Ok(all.into_iter().filter(is_live).collect())
}

async fn pods_run_and_nothing_is_left_over_on_a_late_and_slow_aws(stack: Stack) -> Result<()> {
    // The catalogue is read before throttling begins: that is another test's subject.
    let mut services = vec![Service::start(&stack, "pricing-cache", 1, &[])?];
    make_unkind(&stack)?;
    services.push(Service::start(&stack, "provisioner", 1, &[])?);
    services.push(Service::start(&stack, "termination", 1, &["--garbage-collection-interval=3s"])?);
    let spot = json!({"template": {"spec": {"requirements": [
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
        {"key": labels::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
        {"key": labels::INSTANCE_GENERATION, "operator": "Gt", "values": ["4"]},
    ]}}});
    let workload = Workload::new(&stack, "unkind", spot, json!({})).await?;
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "app"}}}]}}});
    workload.deploy("app", 6, "1", apart).await?;
    workload.running("app", 6).await?;
    let claims = workload.claims().await?;
    ensure!(claims.len() == 6, "{} claims for 6 pods", claims.len());
    let launched = instances(&stack, &workload.name)?;
    ensure!(launched.len() == 6, "{} instances for 6 claims: {launched:?}", launched.len());
    for claim in &claims {
        let provider =
            claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).context("an id")?;
        let own = launched.iter().find(|one| provider.ends_with(one["id"].as_str().unwrap_or("-")));
        let own = own.with_context(|| format!("no instance {provider}"))?;
        // EC2 chose the type: the claim must say what was launched, not what was cheapest.
        let kind = claim.labels().get(labels::INSTANCE_TYPE);
        ensure!(own["instanceType"].as_str() == kind.map(String::as_str), "{kind:?} is {own}");
    }
    workload.remove().await?;
    eventually("all instances to be terminated", || async {
        Ok(instances(&stack, &workload.name)?.is_empty().then_some(()))
    })
    .await?;
    services.iter().rev().try_for_each(|service| service.stop(&stack))
}

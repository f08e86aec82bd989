//! One trace for one node's life, across services, as Jaeger shows it.

use anyhow::{Context, Result};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, jaeger, test};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::json;

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("traces", alone, one_trace_follows_a_node_through_three_services)]
}

/// The first spot pool asked for has nothing to give, so the launch also involves pricing-cache; the claim's deletion
/// involves termination.
async fn one_trace_follows_a_node_through_three_services(stack: Stack) -> Result<()> {
    for name in ["pricing-cache", "provisioner", "termination"] {
        Service::start(&stack, name, 1, &[])?;
    }
    aws::put(&stack, "/ice", &json!({"capacityType": "spot", "instanceType": "*", "zone": "*"}))?;
    let workload = Workload::new(&stack, "traces", json!({}), json!({})).await?;
    workload.deploy("traced", 1, "1", json!({})).await?;
    workload.running("traced", 1).await?;
    aws::delete(&stack, "/ice")?;

    let claim = workload.claims().await?.into_iter().next().context("a claim")?;
    let parent = claim.annotations().get(model::labels::TRACEPARENT).context("no trace on the claim")?;
    let trace = parent.split('-').nth(1).context("a W3C traceparent")?.to_owned();
    workload.scale("traced", 0).await?;
    let claims: Api<api::NodeClaim> = Api::all(workload.client.clone());
    claims.delete(&claim.name_any(), &DeleteParams::default()).await?;
    workload.remove().await?;

    let wanted = ["pricing-cache", "provisioner", "termination"];
    eventually("one trace with spans of three services", || async {
        let spans = jaeger::trace(&stack, &trace)?;
        let seen = jaeger::services(&spans);
        let complete = wanted.iter().all(|service| seen.iter().any(|name| name.ends_with(service)));
        anyhow::ensure!(complete, "trace {trace} has spans of {seen:?}");
        Ok(Some(()))
    })
    .await
}

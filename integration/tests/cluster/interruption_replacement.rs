//! What comes instead of a node that EC2 takes back: planned while it drains, in the same trace, and not in the pool that was
//! just reclaimed.

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use integration::history::History;
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, jaeger, test};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use model::labels;
use serde_json::json;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("interruption_replacement", alone, a_replacement_launches_while_the_node_drains_in_one_trace),
        test!("interruption_replacement", alone, a_recommendation_is_followed_once_a_replacement_is_ready),
    ]
}

/// One spot node with two pods on it, of which one at a time may be away: the second stays until the first runs elsewhere.
struct Held {
    stack: Stack,
    services: Vec<Service>,
    workload: Workload,
    claim: NodeClaim,
}

impl Held {
    async fn new(stack: Stack, name: &str, arguments: &[&str]) -> Result<Self> {
        let mut services = Vec::new();
        for service in ["pricing-cache", "provisioner", "termination"] {
            services.push(Service::start(&stack, service, 1, &[])?);
        }
        services.push(Service::start(&stack, "interruption-watcher", 1, arguments)?);
        let requirements = json!([
            {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
            {"key": labels::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m"]},
            {"key": labels::INSTANCE_GENERATION, "operator": "Gt", "values": ["4"]},
        ]);
        let pool = json!({"template": {"spec": {"requirements": requirements}}});
        let workload = Workload::new(&stack, name, pool, json!({})).await?;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "held", "namespace": workload.name},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "held"}}},
        });
        let budgets = integration::kubernetes::api_of(&workload.client, &budget).await?;
        budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
        workload.deploy("held", 2, "400m", json!({})).await?;
        let nodes = workload.running("held", 2).await?;
        ensure!(nodes[0] == nodes[1], "two small pods share a node");
        let claim = workload.claims().await?.into_iter().next().context("a claim")?;
        Ok(Self { stack, services, workload, claim })
    }

    fn instance(&self) -> Result<String> {
        let provider = self.claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let id = provider.and_then(|id| id.rsplit('/').next()).context("an instance")?;
        Ok(id.to_owned())
    }

    fn warn(&self, kind: &str) -> Result<()> {
        let body = json!({"ids": [self.instance()?], "kind": kind, "terminate": false});
        aws::put(&self.stack, "/interrupt", &body).map(drop)
    }

    async fn old(&self) -> Result<Option<NodeClaim>> {
        let claims: Api<NodeClaim> = Api::all(self.workload.client.clone());
        Ok(claims.get_opt(&self.claim.name_any()).await?)
    }

    async fn replacement(&self) -> Result<NodeClaim> {
        let name = self.claim.name_any();
        eventually("a replacement to be launched", || async {
            let claims = self.workload.claims().await?;
            let launched = |claim: &NodeClaim| claim.status.as_ref().is_some_and(|s| s.provider_id.is_some());
            Ok(claims.into_iter().find(|claim| claim.name_any() != name && launched(claim)))
        })
        .await
    }

    async fn old_is_gone(&self) -> Result<()> {
        eventually("the old claim to be gone", || async { Ok(self.old().await?.is_none().then_some(())) })
            .await
    }

    /// Without pods: once the pool is gone none of them finds a place, and the budget would hold the last node for ever.
    async fn end(self) -> Result<()> {
        self.workload.scale("held", 0).await?;
        self.workload.running("held", 0).await?;
        self.workload.remove().await?;
        self.services.iter().rev().try_for_each(|service| service.stop(&self.stack))
    }
}

fn pool(claim: &NodeClaim) -> Vec<Option<&String>> {
    [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE].map(|key| claim.labels().get(key)).to_vec()
}

fn trace(claim: &NodeClaim) -> Result<String> {
    let parent = claim.annotations().get(labels::TRACEPARENT).context("no trace on the claim")?;
    Ok(parent.split('-').nth(1).context("a W3C traceparent")?.to_owned())
}

async fn a_replacement_launches_while_the_node_drains_in_one_trace(stack: Stack) -> Result<()> {
    let held = Held::new(stack, "replaced", &[]).await?;
    held.warn("spot")?;
    let replacement = held.replacement().await?;
    let old = held.old().await?.context("the old claim drains until its pods run elsewhere")?;
    ensure!(old.metadata.deletion_timestamp.is_some(), "it is being removed");
    ensure!(pool(&replacement) != pool(&old), "EC2 has just taken that pool back: {:?}", pool(&old));
    ensure!(trace(&replacement)? == trace(&old)?, "the replacement belongs to the warning's trace");
    held.old_is_gone().await?;
    held.workload.running("held", 2).await?;
    ensure!(held.workload.claims().await?.len() == 1, "one replacement is enough");
    let id = trace(&held.claim)?;
    let wanted = [
        ("interruption-watcher", "interruption"),
        ("provisioner", "create nodeclaim"),
        ("termination", "drain node"),
        ("termination", "terminate nodeclaim"),
    ];
    eventually("warning, replacement and drain in one trace", || async {
        let spans = jaeger::trace(&held.stack, &id)?;
        let missing: Vec<&str> = wanted
            .iter()
            .filter(|(service, operation)| {
                !spans.iter().any(|span| span.service.ends_with(service) && span.operation == *operation)
            })
            .map(|(_, operation)| *operation)
            .collect();
        ensure!(missing.is_empty(), "trace {id} lacks {missing:?}");
        Ok(Some(()))
    })
    .await?;
    held.end().await
}

async fn a_recommendation_is_followed_once_a_replacement_is_ready(stack: Stack) -> Result<()> {
    let held = Held::new(stack, "rebalanced", &["--drain-on-rebalance"]).await?;
    let history = History::of_pool(&held.workload.client, &held.workload.name).await?;
    held.warn("rebalance")?;
    let command = format!("rebalance-{}", held.claim.uid().context("a uid")?);
    let replacement = eventually("a replacement of the command", || async {
        let claims = held.workload.claims().await?;
        Ok(claims.into_iter().find(|claim| claim.annotations().get(labels::COMMAND) == Some(&command)))
    })
    .await?;
    held.old_is_gone().await?;
    held.workload.running("held", 2).await?;
    let left: Vec<String> = held.workload.claims().await?.iter().map(|claim| claim.name_any()).collect();
    ensure!(left == [replacement.name_any()], "{left:?}");
    history.replaced_before_deletion(&[held.claim.name_any()])?;
    held.end().await
}

//! An EC2NodeClass that names nothing that exists says so in its conditions, launches nothing, and recovers when it is mended.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use api::conditions::{self, Condition, ConditionStatus};
use api::{EC2NodeClass, NodePool};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use model::labels;
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("nodeclass", alone, a_misconfigured_class_says_what_is_missing_and_recovers_when_mended),
        test!("nodeclass", alone, a_reservation_of_the_status_is_used_before_pricing_cache_lists_it),
    ]
}

const NOWHERE: &str = "nowhere";

async fn conditions_of(stack: &Stack, class: &str) -> Result<Vec<Condition>> {
    let classes: Api<EC2NodeClass> = Api::all(stack.admin().await?);
    Ok(classes.get(class).await?.status.and_then(|status| status.conditions).unwrap_or_default())
}

/// Waits for a condition with this status and reason, and returns its message.
async fn says(
    stack: &Stack,
    class: &str,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
) -> Result<String> {
    eventually(&format!("{class} to say {type_}={status} because of {reason}"), || async {
        let all = conditions_of(stack, class).await?;
        let found = conditions::find(&all, type_).filter(|c| c.status == status && c.reason == reason);
        Ok(found.map(|condition| condition.message.clone()))
    })
    .await
}

/// pricing-cache has read the reservations before this one is made, and does not read them again.
async fn a_reservation_of_the_status_is_used_before_pricing_cache_lists_it(stack: Stack) -> Result<()> {
    let prices = Service::start(&stack, "pricing-cache", 1, &["--reservations-refresh-interval=12h"])?;
    let provisioner = Service::start(&stack, "provisioner", 1, &[])?;
    let termination = Service::start(&stack, "termination", 1, &[])?;
    let asked = json!({
        "instanceType": "m5.xlarge", "zone": "us-west-2a", "total": 1, "criteria": "targeted",
        "tags": {"made": "later"},
    });
    let made = aws::put(&stack, "/capacity-reservation", &asked)?;
    let id = made["id"].as_str().with_context(|| format!("no id in {made}"))?.to_owned();
    let reserved = json!([{"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["reserved"]}]);
    let pool = json!({"template": {"spec": {"requirements": reserved}}});
    let class = json!({"capacityReservationSelectorTerms": [{"tags": {"made": "later"}}]});
    let work = Workload::new(&stack, "reserved", pool, class).await?;
    work.deploy("app", 1, "1", json!({})).await?;
    work.running("app", 1).await?;
    let claims = work.claims().await?;
    let used = |claim: &api::NodeClaim| claim.labels().get(labels::CAPACITY_RESERVATION_ID) == Some(&id);
    ensure!(claims.len() == 1 && claims.iter().all(used), "{claims:?}");
    work.remove().await?;
    aws::put(&stack, "/capacity-reservation", &json!({"id": id, "state": "cancelled"}))?;
    [&termination, &provisioner, &prices].into_iter().try_for_each(|service| service.stop(&stack))
}

async fn a_misconfigured_class_says_what_is_missing_and_recovers_when_mended(stack: Stack) -> Result<()> {
    let prices = Service::start(&stack, "pricing-cache", 1, &[])?;
    let provisioner = Service::start(&stack, "provisioner", 1, &[])?;
    let terms = json!([{"tags": {"karpenter.sh/discovery": NOWHERE}}]);
    let wrong = json!({
        "role": "NoSuchRole", "amiFamily": "AL2023",
        "amiSelectorTerms": [{"name": "no-such-image"}],
        "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms,
    });
    let work = Workload::new(&stack, "nodeclass", json!({}), wrong).await?;
    work.deploy("app", 1, "1", json!({})).await?;
    let name = work.name.as_str();

    for (type_, reason) in [
        ("AMIsReady", "AMINotFound"),
        ("SubnetsReady", "SubnetsNotFound"),
        ("SecurityGroupsReady", "SecurityGroupsNotFound"),
        ("ValidationSucceeded", "DependenciesNotReady"),
        ("Ready", "UnhealthyDependents"),
    ] {
        says(&stack, name, type_, ConditionStatus::False, reason).await?;
    }
    let role = says(&stack, name, "InstanceProfileReady", ConditionStatus::Unknown, "RoleNotFound").await?;
    ensure!(role.contains("NoSuchRole"), "the message names the role: {role}");
    let pools: Api<NodePool> = Api::all(work.client.clone());
    eventually("the pool not to be ready", || async {
        let all = pools.get(name).await?.status.and_then(|s| s.conditions).unwrap_or_default();
        Ok((conditions::status(&all, "NodeClassReady") == ConditionStatus::False).then_some(()))
    })
    .await?;
    ensure!(work.claims().await?.is_empty(), "a claim was made for a pool that is not ready");
    ensure!(work.nodes().await?.is_empty(), "a node joined for a pool that is not ready");

    let cluster = stack.var("CLUSTER_NAME")?;
    let found = json!([{"tags": {"karpenter.sh/discovery": cluster}}]);
    let mended = json!({"spec": {
        "role": format!("KarpenterNodeRole-{cluster}"),
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": found, "securityGroupSelectorTerms": found,
    }});
    let classes: Api<EC2NodeClass> = Api::all(work.client.clone());
    classes.patch(name, &PatchParams::default(), &Patch::Merge(mended)).await?;
    says(&stack, name, "Ready", ConditionStatus::True, "Ready").await?;
    let status = classes.get(name).await?.status.context("a ready class has a status")?;
    ensure!(status.subnets.is_some_and(|all| all.len() > 1), "a subnet in each zone");
    ensure!(status.amis.is_some_and(|all| all.len() == 5), "five variants of AL2023");
    ensure!(status.instance_profile.is_some_and(|profile| profile.starts_with(&format!("{cluster}_"))));
    let hashed = classes.get(name).await?.metadata.annotations.unwrap_or_default();
    ensure!(hashed.contains_key("karpenter.k8s.aws/ec2nodeclass-hash"), "{hashed:?}");
    work.running("app", 1).await?;
    let node = work.nodes().await?.into_values().next().context("the pod runs on a node of the pool")?;
    let labels: BTreeMap<String, String> = node.metadata.labels.unwrap_or_default();
    ensure!(labels.get("karpenter.sh/nodepool").map(String::as_str) == Some(name), "{labels:?}");
    a_class_in_use_stays(&stack, &classes, name).await?;

    let termination = Service::start(&stack, "termination", 1, &[])?;
    pools.delete(name, &DeleteParams::default()).await?;
    eventually("the class to end after its last claim", || async {
        Ok((work.claims().await?.is_empty() && classes.get_opt(name).await?.is_none()).then_some(()))
    })
    .await?;
    [termination, provisioner, prices].iter().try_for_each(|service| service.stop(&stack))
}

/// Deleting a class waits for its claims, and says for which.
async fn a_class_in_use_stays(stack: &Stack, classes: &Api<EC2NodeClass>, name: &str) -> Result<()> {
    let unused = format!("{name}-unused");
    let mut copy: Value = serde_json::to_value(classes.get(name).await?)?;
    copy["metadata"] = json!({"name": unused});
    classes.create(&PostParams::default(), &serde_json::from_value(copy)?).await?;
    says(stack, &unused, "Ready", ConditionStatus::True, "Ready").await?;
    classes.delete(&unused, &DeleteParams::default()).await?;
    classes.delete(name, &DeleteParams::default()).await?;
    eventually("the unused class to be gone", || async {
        Ok(classes.get_opt(&unused).await?.is_none().then_some(()))
    })
    .await?;
    ensure!(classes.get_opt(name).await?.is_some(), "a class went while a claim uses it");
    Ok(())
}

//! What a node differs in from what its pool and class ask for, told by the reference's reasons, and taken back when it is so
//! no more. How a new image rolls through is one of the long proofs.

use anyhow::{Context, Result, ensure};
use api::{EC2NodeClass, conditions};
use integration::history::{History, is_deleting};
use integration::{Service, Stack, Test, aws, eventually, test};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use model::labels;
use proto::disruption::v1::CommandPhase;
use serde_json::{Value, json};

use crate::disruption_scene::{QUICK, Scene, pool};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, every_kind_of_drift_is_told_by_its_reason_and_taken_back),
        test!("disruption", alone, claims_that_were_taken_over_drift_by_what_their_instances_are),
        test!("disruption", alone, reserved_capacity_is_used_first_and_drifts_when_it_is_not_chosen_any_more),
    ]
}

struct Drifting {
    scene: Scene,
    classes: Api<EC2NodeClass>,
}

impl Drifting {
    async fn class(&self) -> Result<EC2NodeClass> {
        Ok(self.classes.get(&self.scene.workload.name).await?)
    }

    async fn patch_class(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.classes.patch(&self.scene.workload.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn drifts(&self, reason: &str) -> Result<()> {
        let claim = self.scene.workload.claims().await?.into_iter().next().context("a claim")?;
        self.claim_drifts(&claim.name_any(), reason).await
    }

    async fn claim_drifts(&self, name: &str, reason: &str) -> Result<()> {
        eventually(&format!("the claim {name} to have drifted for {reason}"), || async {
            let claims = self.scene.workload.claims().await?;
            let claim = claims.iter().find(|claim| claim.name_any() == name).context("the claim")?;
            let all = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            let found = conditions::find(all, "Drifted");
            let is = |c: &conditions::Condition| {
                c.status == conditions::ConditionStatus::True && c.reason == reason
            };
            ensure!(found.is_some_and(is), "{found:?}");
            Ok(Some(()))
        })
        .await
    }

    /// `change` makes the node drift, `back` is as it was.
    async fn by_class(&self, reason: &str, change: Value, back: Value) -> Result<()> {
        self.patch_class(change).await?;
        self.drifts(reason).await?;
        self.patch_class(back).await?;
        self.scene.all_claims("Drifted", false).await
    }

    async fn by_pool(&self, reason: &str, change: Value, back: Value) -> Result<()> {
        self.scene.patch_pool(change).await?;
        self.drifts(reason).await?;
        self.scene.patch_pool(back).await?;
        self.scene.all_claims("Drifted", false).await
    }
}

// Cases: DFT-1, DFT-12, DFT-22
async fn every_kind_of_drift_is_told_by_its_reason_and_taken_back(stack: Stack) -> Result<()> {
    // Nothing may go: the same node is looked at all the time.
    let pool = pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    let scene = Scene::new(stack, "reasons", pool).await?;
    let node = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    let classes: Api<EC2NodeClass> = Api::all(scene.workload.client.clone());
    let all = Drifting { scene, classes };
    let claim = all.scene.workload.claims().await?.remove(0);
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|own| own.get(key)).cloned();
    let zone = label(labels::ZONE).context("a zone")?;
    let kind = label(labels::INSTANCE_TYPE).context("a type")?;
    let spec = serde_json::to_value(all.class().await?.spec)?;
    let status = all.class().await?.status.context("what the class stands for")?;

    let elsewhere =
        status.subnets.iter().flatten().find(|subnet| subnet.zone != zone).context("another zone")?;
    let subnets = |terms: Value| json!({"subnetSelectorTerms": terms});
    all.by_class(
        "SubnetDrift",
        subnets(json!([{"id": elsewhere.id}])),
        subnets(spec["subnetSelectorTerms"].clone()),
    )
    .await?;

    let one = status.security_groups.iter().flatten().next().context("a security group")?;
    let groups = |terms: Value| json!({"securityGroupSelectorTerms": terms});
    all.by_class(
        "SecurityGroupDrift",
        groups(json!([{"id": one.id}])),
        groups(spec["securityGroupSelectorTerms"].clone()),
    )
    .await?;

    all.by_class("NodeClassDrift", json!({"tags": {"team": "new"}}), json!({"tags": null})).await?;

    let template = |metadata: Value| json!({"template": {"metadata": metadata}});
    all.by_pool(
        "NodePoolDrifted",
        template(json!({"annotations": {"example.com/team": "new"}})),
        template(json!({"annotations": null})),
    )
    .await?;

    let pools: Api<api::NodePool> = Api::all(all.scene.workload.client.clone());
    let before = serde_json::to_value(pools.get(&all.scene.workload.name).await?.spec)?;
    let before = before["template"]["spec"]["requirements"].clone();
    let mut without = before.clone();
    let list = without.as_array_mut().context("a list")?;
    list.push(json!({"key": labels::INSTANCE_TYPE, "operator": "NotIn", "values": [kind]}));
    let requirements = |list: Value| json!({"template": {"spec": {"requirements": list}}});
    all.by_pool("RequirementsDrifted", requirements(without), requirements(before)).await?;

    let version = "v20990301";
    aws::put(&all.scene.stack, "/ami", &json!({"family": "al2023", "version": version}))?;
    all.patch_class(json!({"amiSelectorTerms": [{"alias": format!("al2023@{version}")}]})).await?;
    all.drifts("AMIDrift").await?;

    ensure!(all.scene.node_names().await?.contains(&node), "a budget of none lets no node go");
    all.scene.end().await
}

/// What a claim says that only our own launch writes on it.
const OURS: [&str; 4] =
    [labels::LAUNCHED_SUBNET, labels::LAUNCHED_SECURITY_GROUPS, labels::TRACEPARENT, labels::NOMINATED_PODS];

/// As after a take-over: nobody wrote down with which security groups the nodes were launched, and meanwhile those of the class changed.
async fn claims_that_were_taken_over_drift_by_what_their_instances_are(stack: Stack) -> Result<()> {
    let mut scene = Scene::new(stack, "adopted", pool(json!({"consolidateAfter": "Never"}))).await?;
    let nodes = scene.spread("app", 2, "1", json!({})).await?;
    let classes: Api<EC2NodeClass> = Api::all(scene.workload.client.clone());
    let status = classes.get(&scene.workload.name).await?.status.context("what the class stands for")?;
    let groups: Vec<String> = status.security_groups.iter().flatten().map(|group| group.id.clone()).collect();
    ensure!(groups.len() > 1, "one of several can be left out: {groups:?}");
    let launched = async || -> Result<Vec<Option<String>>> {
        let claims = scene.workload.claims().await?;
        let own = |claim: &api::NodeClaim| claim.annotations().get(labels::LAUNCHED_SECURITY_GROUPS).cloned();
        Ok(claims.iter().map(own).collect())
    };
    let before = launched().await?;
    ensure!(before.iter().all(Option::is_some), "{before:?}");
    let old: Vec<String> = scene.workload.claims().await?.iter().map(|claim| claim.name_any()).collect();

    scene.others[1].stop(&scene.stack)?;
    let off: serde_json::Map<String, Value> =
        OURS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
    let off = Patch::Merge(json!({"metadata": {"annotations": off}}));
    for claim in scene.workload.claims().await? {
        scene.claims().patch(&claim.name_any(), &PatchParams::default(), &off).await?;
    }
    ensure!(launched().await?.iter().all(Option::is_none), "nothing is written");
    let history = History::of_pool(&scene.workload.client, &scene.workload.name).await?;
    let one = Patch::Merge(json!({"spec": {"securityGroupSelectorTerms": [{"id": groups[0]}]}}));
    classes.patch(&scene.workload.name, &PatchParams::default(), &one).await?;
    scene.others[1] = Service::start(&scene.stack, "provisioner", 1, &[])?;
    for node in &nodes {
        let command = scene.ended_command(node, CommandPhase::Done).await?;
        ensure!(command.reason == "Drifted", "{command:?}");
    }
    // From the first trace of a command on, a claim says what its instance has, and that it drifted for that.
    for state in history.states()? {
        for claim in state.values().filter(|claim| old.contains(&claim.name_any())) {
            let taken = claim.annotations().contains_key(labels::COMMAND) || is_deleting(claim);
            let conditions = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            let drifted = conditions::find(conditions, "Drifted").map(|found| found.reason.as_str());
            let groups = claim.annotations().get(labels::LAUNCHED_SECURITY_GROUPS);
            ensure!(
                !taken || (drifted == Some("SecurityGroupDrift") && before.contains(&groups.cloned())),
                "{} is replaced with {groups:?}, drifted: {drifted:?}; launched with {before:?}",
                claim.name_any()
            );
        }
    }
    scene.workload.running("app", 2).await?;
    scene.all_claims("Drifted", false).await?;
    scene.end().await
}

async fn reserved_capacity_is_used_first_and_drifts_when_it_is_not_chosen_any_more(
    stack: Stack,
) -> Result<()> {
    let asked = json!({"instanceType": "m5.large", "zone": "us-west-2a", "total": 1, "criteria": "targeted"});
    let made = aws::put(&stack, "/capacity-reservation", &asked)?;
    let id = made["id"].as_str().context("an id")?.to_owned();
    let mut pool = pool(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    pool["template"] = json!({"spec": {"requirements": [
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["reserved", "on-demand"]},
        {"key": labels::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
    ]}});
    let terms = |list: Value| json!({"capacityReservationSelectorTerms": list});
    let chosen = terms(json!([{"id": id}]));
    let scene = Scene::of(stack, "reserved", pool, chosen.clone(), &QUICK, &[]).await?;
    scene.spread("app", 2, "1", json!({})).await?;
    let classes: Api<EC2NodeClass> = Api::all(scene.workload.client.clone());
    let all = Drifting { scene, classes };

    // Room for one: the second node must be paid for.
    let claims = all.scene.workload.claims().await?;
    let (reserved, paid): (Vec<_>, Vec<_>) =
        claims.iter().partition(|claim| claim.labels().get(labels::CAPACITY_RESERVATION_ID) == Some(&id));
    let capacity_type = |claim: &api::NodeClaim| claim.labels().get(labels::CAPACITY_TYPE).cloned();
    let ([reserved], [paid]) = (&reserved[..], &paid[..]) else {
        anyhow::bail!("{} of {} claims use the reservation", reserved.len(), claims.len())
    };
    ensure!(capacity_type(reserved).as_deref() == Some("reserved"), "{:?}", reserved.labels());
    ensure!(capacity_type(paid).as_deref() == Some("on-demand"), "{:?}", paid.labels());
    let kind = reserved.labels().get(labels::INSTANCE_TYPE);
    ensure!(kind.is_some_and(|kind| kind == "m5.large"), "{kind:?}");

    all.patch_class(terms(Value::Null)).await?;
    all.claim_drifts(&reserved.name_any(), "CapacityReservationDrift").await?;
    let drifted = |claim: &api::NodeClaim| {
        let list = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        conditions::is_true(list, "Drifted")
    };
    let claims = all.scene.workload.claims().await?;
    ensure!(claims.iter().filter(|claim| drifted(claim)).count() == 1, "only the one that uses it");
    all.patch_class(chosen).await?;
    all.scene.all_claims("Drifted", false).await?;
    aws::put(&all.scene.stack, "/capacity-reservation", &json!({"id": id, "state": "cancelled"}))?;
    all.scene.end().await
}

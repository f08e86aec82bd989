//! What was bought is used, and nothing holds up what it does not concern: a budget over all nodes of a roll, a node that cannot
//! be written, and minimums of flexibility for the nodes that take over.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Stack, Test, aws, eventually, patiently, test};
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use model::labels;
use proto::disruption::v1::CommandPhase;
use serde_json::{Value, json};

use crate::disruption_scene::{QUICK, Scene, on_demand, pool};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("disruption", alone, a_roll_under_one_budget_launches_once_for_each_node),
        test!("disruption", alone, a_node_that_cannot_be_written_holds_up_no_other_pool),
        test!("disruption", alone, replacements_keep_the_min_values_of_their_pool),
    ]
}

/// Keeps a pod of the local cluster Pending for as long as it has it.
const STAYS_PENDING: &str = "localstack/stay-pending";
/// From the binding of a pod until it is ready.
const BECOMES_READY: SignedDuration = SignedDuration::from_secs(2);

/// Lets every pod become ready a while after it was bound, as one that has to warm up. Never ends.
async fn late_readiness(scene: &Scene) -> Result<()> {
    let now_ready = Patch::Merge(json!({"metadata": {"annotations": {STAYS_PENDING: null}}}));
    let is_due = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
        let bound =
            conditions.into_iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "True");
        let since = bound.and_then(|condition| Some(condition.last_transition_time.as_ref()?.0));
        pod.annotations().contains_key(STAYS_PENDING)
            && since.is_some_and(|since| jiff::Timestamp::now().duration_since(since) >= BECOMES_READY)
    };
    loop {
        for pod in scene.pods().list(&ListParams::default()).await?.items.iter().filter(|pod| is_due(pod)) {
            match scene.pods().patch(&pod.name_any(), &PatchParams::default(), &now_ready).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                outcome => drop(outcome?),
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn a_roll_under_one_budget_launches_once_for_each_node(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "roll", pool(json!({"consolidateAfter": "Never"}))).await?;
    tokio::select! {
        rolled = roll_under_one_budget(&scene) => rolled?,
        failed = late_readiness(&scene) => failed?,
    }
    scene.end().await
}

/// One budget covers the pods of all nodes, and closes while their replacements boot.
async fn roll_under_one_budget(scene: &Scene) -> Result<()> {
    const NODES: u32 = 20;
    scene.spread("app", 0, "1", json!({})).await?;
    let late = json!({"spec": {"template": {"metadata": {"annotations": {STAYS_PENDING: "true"}}}}});
    scene.workload.deployments().patch("app", &PatchParams::default(), &Patch::Merge(late)).await?;
    scene.workload.scale("app", NODES).await?;
    let old: BTreeSet<String> = scene.workload.running("app", NODES as usize).await?.into_iter().collect();
    ensure!(old.len() == NODES as usize, "one pod a node: {old:?}");
    let budgets: Api<PodDisruptionBudget> =
        Api::namespaced(scene.workload.client.clone(), &scene.workload.name);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "app"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "app"}}}});
    budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
    let allow = async |most: u32| -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"maxUnavailable": most}}));
        budgets.patch("app", &PatchParams::default(), &patch).await?;
        Ok(())
    };
    let slow = json!({"match": {"karpenter.sh/nodepool": scene.workload.name}, "bootDelayMs": 10_000});
    aws::put(&scene.stack, "/boot", &slow)?;
    scene.patch_pool(json!({"template": {"metadata": {"labels": {"team": "new"}}}})).await?;
    eventually("the first replacement to be on its way", || async {
        Ok((scene.workload.claims().await?.len() > NODES as usize).then_some(()))
    })
    .await?;
    // What was begun comes to its end although no pod may be evicted.
    allow(0).await?;
    eventually("the first old claim to be deleted", || async {
        let claims = scene.workload.claims().await?;
        Ok(claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_some()).then_some(()))
    })
    .await?;
    let ready = async || -> Result<i32> {
        let deployment = scene.workload.deployments().get("app").await?;
        Ok(deployment.status.and_then(|status| status.ready_replicas).unwrap_or(0))
    };
    ensure!(ready().await? == NODES as i32, "a pod was evicted past its budget");
    allow(1).await?;
    let seen = Mutex::new((BTreeSet::new(), NODES as i32));
    // One pod after the other moves and becomes ready.
    patiently(3, "all nodes to be replaced", || async {
        let (ready, claims) = (ready().await?, scene.workload.claims().await?);
        {
            let (launched, fewest) = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
            *fewest = ready.min(*fewest);
            launched.extend(claims.iter().map(|claim| claim.name_any()));
        }
        let now = scene.node_names().await?;
        Ok((now.len() == NODES as usize && now.is_disjoint(&old)).then_some(()))
    })
    .await?;
    aws::delete(&scene.stack, "/boot")?;
    let (launched, fewest) = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let made = launched.len() - NODES as usize;
    ensure!(fewest >= NODES as i32 - 1, "only {fewest} of {NODES} pods were ready at one time");
    ensure!(made <= NODES as usize + 1, "{made} launches for {NODES} nodes: {launched:?}");
    let replacements = |outcome: &str| {
        scene.disruption.metric("karpenter_disruption_replacements_total", &format!("outcome=\"{outcome}\""))
    };
    let (used, dropped) = (replacements("used")?, replacements("dropped")?);
    // A pod that moved may have freed a node that another took: then its own goes without a replacement.
    ensure!(used > 0.0 && dropped <= 1.0, "{used} used, {dropped} dropped");
    scene.workload.running("app", NODES as usize).await?;
    Ok(())
}

/// Denies the disrupted taint on one node.
struct Guard {
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
    name: String,
}

impl Guard {
    async fn new(scene: &Scene, node: &str) -> Result<Self> {
        let client = &scene.workload.client;
        let guard = Self {
            policies: Api::all(client.clone()),
            bindings: Api::all(client.clone()),
            name: format!("{}-guard", scene.workload.name),
        };
        let denied = format!(
            "object.metadata.name != '{node}' || !has(object.spec.taints) || !object.spec.taints.exists(t, t.key == '{}')",
            labels::DISRUPTED_TAINT
        );
        let policy = json!({"metadata": {"name": guard.name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}]},
            "validations": [{"expression": denied, "message": "this node is guarded"}]}});
        guard.policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
        let binding = json!({"metadata": {"name": guard.name}, "spec": {
            "policyName": guard.name, "validationActions": ["Deny"]}});
        guard.bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        let taint = json!({"spec": {"taints": [{"key": labels::DISRUPTED_TAINT, "effect": "NoSchedule"}]}});
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        eventually("the guard to be in force", || async {
            let tried = scene.nodes().patch(node, &dry, &Patch::Merge(taint.clone())).await;
            Ok(tried.is_err().then_some(()))
        })
        .await?;
        Ok(guard)
    }

    async fn lift(self) -> Result<()> {
        self.bindings.delete(&self.name, &DeleteParams::default()).await?;
        self.policies.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

// Cases: QUE-8
async fn a_node_that_cannot_be_written_holds_up_no_other_pool(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "guarded", pool(json!({}))).await?;
    let guarded = scene.spread("app", 1, "1", json!({})).await?.remove(0);
    let other = Workload::new(&scene.stack, "free", pool(json!({})), json!({})).await?;
    other.deploy("app", 1, "1", json!({})).await?;
    other.running("app", 1).await?;
    let guard = Guard::new(&scene, &guarded).await?;
    scene.workload.scale("app", 0).await?;
    scene.event_about(&guarded, "DisruptionRolledBack", "cannot be written").await?;
    other.scale("app", 0).await?;
    eventually("the empty node of the other pool to go", || async {
        Ok(other.nodes().await?.is_empty().then_some(()))
    })
    .await?;
    ensure!(scene.node_names().await? == BTreeSet::from([guarded.clone()]), "the guarded node stays");
    eventually("nothing to be left on its claim", || async {
        let claim = scene.workload.claims().await?.into_iter().next().context("the claim")?;
        Ok((!claim.annotations().contains_key(labels::COMMAND)).then_some(()))
    })
    .await?;
    guard.lift().await?;
    scene.left(&BTreeSet::new()).await?;
    other.remove().await?;
    scene.end().await
}

/// Spot by spot is cut to fifteen types, but not below what the pool asks for.
// Cases: REP-6
async fn replacements_keep_the_min_values_of_their_pool(stack: Stack) -> Result<()> {
    const TYPES: usize = 20;
    let mut spec = on_demand(pool(json!({"consolidateAfter": "Never"})));
    let requirements = spec["template"]["spec"]["requirements"].as_array_mut().context("requirements")?;
    requirements[0]["values"] = json!(["spot"]);
    requirements.push(json!({"key": labels::INSTANCE_TYPE, "operator": "Exists", "minValues": TYPES}));
    let gate: Vec<&str> = QUICK.into_iter().chain(["--feature-gates=SpotToSpotConsolidation=true"]).collect();
    let scene = Scene::with(stack, "flexible", spec, &gate).await?;
    scene.workload.deploy("large", 1, "12", json!({})).await?;
    scene.workload.deploy("small", 1, "500m", json!({})).await?;
    scene.workload.running("large", 1).await?;
    let old = scene.workload.running("small", 1).await?.remove(0);
    scene.workload.scale("large", 0).await?;
    scene.patch_pool(json!({"disruption": {"consolidateAfter": "1s"}})).await?;
    let command = scene.ended_command(&old, CommandPhase::Done).await?;
    ensure!(command.replacements.len() == 1, "{command:?}");
    let claims = scene.workload.claims().await?;
    let alive = claims.iter().find(|claim| claim.metadata.deletion_timestamp.is_none()).context("a claim")?;
    let written: Value = serde_json::to_value(&alive.spec.requirements)?;
    let of_types = written.as_array().into_iter().flatten().find(|one| one["key"] == labels::INSTANCE_TYPE);
    let of_types = of_types.with_context(|| format!("types of the replacement: {written}"))?;
    let values = of_types["values"].as_array().map_or(0, Vec::len);
    ensure!(values >= TYPES && of_types["minValues"] == TYPES, "{of_types}");
    scene.end().await
}

//! A NodeClaim's life, from its creation to a Node that takes pods, with the real control plane and instances that boot.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::conditions::{self, Condition};
use api::{NodeClaim, NodePool};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use model::labels;
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("lifecycle", alone, a_claim_becomes_a_ready_node_that_is_counted_and_named),
        test!("lifecycle", alone, startup_taints_hold_a_node_until_their_agent_is_done),
        test!("lifecycle", alone, a_claim_that_cannot_be_bought_is_deleted_at_once_with_an_event),
        test!("lifecycle", alone, a_kill_in_the_middle_of_launches_leaves_one_instance_a_claim),
        test!("lifecycle", alone, a_pool_is_not_ready_before_its_class_is),
    ]
}

struct Scene {
    stack: Stack,
    workload: Workload,
    provisioner: Service,
}

impl Scene {
    async fn new(stack: Stack, class: Value) -> Result<Self> {
        for name in ["pricing-cache", "termination"] {
            Service::start(&stack, name, 1, &[])?;
        }
        let provisioner = Service::start(&stack, "provisioner", 1, &[])?;
        let workload = Workload::new(&stack, "lifecycle", json!({}), class).await?;
        let scene = Self { stack, workload, provisioner };
        eventually("the pool to be ready", || async {
            Ok(is_true(&scene.pool().await?.status.unwrap_or_default().conditions, "Ready").then_some(()))
        })
        .await?;
        Ok(scene)
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.workload.client.clone())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.workload.client.clone())
    }

    async fn pool(&self) -> Result<NodePool> {
        Ok(Api::all(self.workload.client.clone()).get(&self.workload.name).await?)
    }

    /// Merged into the spec of a claim that small machines satisfy.
    async fn claim(&self, suffix: &str, spec: Value) -> Result<String> {
        let pool = &self.workload.name;
        let owner = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool, "uid": self.pool().await?.uid(),
            "blockOwnerDeletion": true,
        });
        let mut object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": format!("{pool}-{suffix}"), "labels": {labels::NODEPOOL: pool}, "ownerReferences": [owner],
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool},
                "requirements": [{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "c5.large"]}],
                "resources": {"requests": {"cpu": "1"}},
            },
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        let object: NodeClaim = serde_json::from_value(object)?;
        Ok(self.claims().create(&PostParams::default(), &object).await?.name_any())
    }

    async fn condition(&self, claim: &str, type_: &str) -> Result<Option<Condition>> {
        let status = self.claims().get(claim).await?.status.unwrap_or_default();
        Ok(conditions::find(&status.conditions.unwrap_or_default(), type_).cloned())
    }

    /// Waits until the claim is Ready, and returns it.
    async fn ready(&self, claim: &str) -> Result<NodeClaim> {
        eventually(&format!("{claim} to be ready"), || async {
            let found = self.claims().get(claim).await?;
            let list = found.status.clone().unwrap_or_default().conditions;
            Ok(is_true(&list, "Ready").then_some(found))
        })
        .await
    }

    /// Ids of instances that carry the claim's name and are not on their way out.
    fn instances(&self, claim: &str) -> Result<Vec<(String, Value)>> {
        let all = aws::get(&self.stack, "/instances?state=running")?;
        let all = all["instances"].as_array().cloned().context("a list of instances")?;
        let tagged = all.into_iter().filter(|i| i["tags"]["karpenter.sh/nodeclaim"] == claim);
        Ok(tagged.map(|i| (i["id"].as_str().unwrap_or_default().to_owned(), i["tags"].clone())).collect())
    }
}

fn is_true(list: &Option<Vec<Condition>>, type_: &str) -> bool {
    conditions::is_true(list.as_deref().unwrap_or_default(), type_)
}

// Cases: LCH-1, LCH-3, REG-1, INI-1, INI-4, CNT-4, CST-87, SCH-C.10-1
async fn a_claim_becomes_a_ready_node_that_is_counted_and_named(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, json!({})).await?;
    let name =
        scene.claim("a", json!({"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]})).await?;
    let claim = scene.ready(&name).await?;
    ensure!(
        claim.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER),
        "{:?}",
        claim.finalizers()
    );
    let (kind, zone) = (&claim.labels()[labels::INSTANCE_TYPE], &claim.labels()[labels::ZONE]);
    let status = claim.status.clone().context("a status")?;
    ensure!(status.image_id.is_some() && status.capacity.is_some() && status.allocatable.is_some());

    let node_name = status.node_name.context("the node's name")?;
    let node = scene.nodes().get(&node_name).await?;
    for key in [labels::REGISTERED, labels::INITIALIZED] {
        ensure!(node.labels().get(key).is_some_and(|value| value == "true"), "{key} is missing");
    }
    ensure!(&node.labels()[labels::INSTANCE_TYPE] == kind && &node.labels()[labels::ZONE] == zone);
    ensure!(node.owner_references().iter().any(|owner| owner.uid == claim.uid().unwrap_or_default()));
    ensure!(node.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER));
    let spec = node.spec.context("a spec")?;
    ensure!(spec.provider_id == status.provider_id);
    let taints: Vec<String> = spec.taints.unwrap_or_default().into_iter().map(|taint| taint.key).collect();
    ensure!(taints == ["team"], "{taints:?}");

    eventually("the instance to carry the node's name", || async {
        let found = scene.instances(&name)?;
        ensure!(found.len() == 1, "{found:?}");
        Ok((found[0].1["Name"] == node_name).then_some(()))
    })
    .await?;
    eventually("the pool to count its node", || async {
        let status = scene.pool().await?.status.unwrap_or_default();
        let cpu = status.resources.unwrap_or_default().get("cpu").map(ToString::to_string);
        Ok((status.nodes == 1 && cpu.as_deref() == Some("2")).then_some(()))
    })
    .await?;
    let created = format!("nodepool=\"{}\"", scene.workload.name);
    ensure!(scene.provisioner.metric("karpenter_nodes_created_total", &created)? == 1.0);
    scene.workload.remove().await
}

// Cases: INI-8, INI-9
async fn startup_taints_hold_a_node_until_their_agent_is_done(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, json!({})).await?;
    let startup = json!({"startupTaints": [{"key": "example.com/cni", "effect": "NoSchedule"}]});
    let name = scene.claim("s", startup).await?;
    eventually("the claim to wait for its startup taint", || async {
        let found = scene.condition(&name, "Initialized").await?;
        Ok(found.filter(|condition| condition.reason == "StartupTaintsExist"))
    })
    .await?;
    let registered = scene.condition(&name, "Registered").await?.context("Registered")?;
    ensure!(registered.status.as_str() == "True");
    let node =
        scene.claims().get(&name).await?.status.and_then(|status| status.node_name).context("a node")?;
    ensure!(!scene.nodes().get(&node).await?.labels().contains_key(labels::INITIALIZED));

    let patch = Patch::Merge(json!({"spec": {"taints": []}}));
    scene.nodes().patch(&node, &PatchParams::default(), &patch).await?;
    scene.ready(&name).await?;
    ensure!(scene.nodes().get(&node).await?.spec.and_then(|spec| spec.taints).unwrap_or_default().is_empty());
    scene.workload.remove().await
}

// Cases: LCH-4
async fn a_claim_that_cannot_be_bought_is_deleted_at_once_with_an_event(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, json!({})).await?;
    // A type that no other test needs: what cannot be had is remembered for minutes.
    aws::put(&scene.stack, "/ice", &json!({"capacityType": "*", "instanceType": "r5.large", "zone": "*"}))?;
    let only = json!([{"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["r5.large"]}]);
    let name = scene.claim("i", json!({"requirements": only})).await?;
    eventually("the claim to be gone", || async {
        Ok(scene.claims().get_opt(&name).await?.is_none().then_some(()))
    })
    .await?;
    aws::delete(&scene.stack, "/ice")?;
    let events: Api<Event> = Api::namespaced(scene.workload.client.clone(), "default");
    let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
    eventually("an event that says why", || async {
        let found = events.list(&about).await?.items;
        Ok(found
            .iter()
            .any(|event| event.reason.as_deref() == Some("InsufficientCapacityError"))
            .then_some(()))
    })
    .await?;
    ensure!(scene.instances(&name)?.is_empty());
    let gone = scene
        .provisioner
        .metric("karpenter_nodeclaims_disrupted_total", "reason=\"insufficient_capacity\"")?;
    ensure!(gone >= 1.0);
    scene.workload.remove().await
}

/// CreateFleet answers slowly, so the kill falls between the request and the status of most claims.
async fn a_kill_in_the_middle_of_launches_leaves_one_instance_a_claim(stack: Stack) -> Result<()> {
    const CLAIMS: usize = 10;
    let mut scene = Scene::new(stack, json!({})).await?;
    aws::put(&scene.stack, "/latency", &json!({"action": "CreateFleet", "ms": 1500}))?;
    let mut names = Vec::new();
    for index in 0..CLAIMS {
        names.push(scene.claim(&format!("k{index}"), json!({})).await?);
    }
    eventually("the first instance", || async {
        let found = aws::get(&scene.stack, "/instances?state=running")?;
        Ok(found["instances"].as_array().is_some_and(|all| !all.is_empty()).then_some(()))
    })
    .await?;
    scene.provisioner.kill(&scene.stack)?;
    aws::delete(&scene.stack, "/latency")?;
    // Answers that were under way when the process died.
    tokio::time::sleep(Duration::from_secs(2)).await;
    scene.provisioner = Service::start(&scene.stack, "provisioner", 1, &[])?;
    for name in &names {
        let claim = scene.ready(name).await?;
        let provider_id = claim.status.and_then(|status| status.provider_id).context("a provider id")?;
        let found = scene.instances(name)?;
        ensure!(found.len() == 1, "{name} has {found:?}");
        ensure!(provider_id.ends_with(&found[0].0), "{provider_id} is not {found:?}");
    }
    scene.workload.remove().await
}

// Cases: RDY-2, RDY-3, RDY-4
async fn a_pool_is_not_ready_before_its_class_is(stack: Stack) -> Result<()> {
    for name in ["pricing-cache", "provisioner", "termination"] {
        Service::start(&stack, name, 1, &[])?;
    }
    let nowhere = json!({"subnetSelectorTerms": [{"tags": {"there-is": "none"}}]});
    let workload = Workload::new(&stack, "lifecycle", json!({}), nowhere).await?;
    let pools: Api<NodePool> = Api::all(workload.client.clone());
    let told = |type_: &'static str, wanted: &'static str| {
        let (pools, name) = (pools.clone(), workload.name.clone());
        async move {
            eventually(&format!("{type_} of the pool to be {wanted}"), || async {
                let list = pools.get(&name).await?.status.unwrap_or_default().conditions.unwrap_or_default();
                let found = conditions::find(&list, type_).cloned();
                Ok(found.filter(|condition| condition.status.as_str() == wanted))
            })
            .await
        }
    };
    told("NodeClassReady", "False").await?;
    told("Ready", "False").await?;
    workload.deploy("waits", 1, "1", json!({})).await?;

    let cluster = stack.var("CLUSTER_NAME")?;
    let somewhere = json!({"spec": {"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": cluster}}]}});
    let classes: Api<api::EC2NodeClass> = Api::all(workload.client.clone());
    classes.patch(&workload.name, &PatchParams::default(), &Patch::Merge(somewhere)).await?;
    told("Ready", "True").await?;
    workload.running("waits", 1).await?;
    let healthy = told("NodeRegistrationHealthy", "True").await?;
    ensure!(healthy.reason == "NodeRegistrationHealthy");
    workload.remove().await
}

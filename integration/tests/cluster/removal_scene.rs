//! Nodes to be removed, made by hand: an instance of the local AWS with our tags, a NodeClaim and a Node (played by kwok) of
//! one name, as the provisioner leaves them. And pods, budgets and questions around them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration::{Service, Stack, aws, eventually, kubernetes};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

pub(crate) const FINALIZER: &str = "karpenter.sh/termination";

const FLAGS: [&str; 1] = ["--garbage-collection-interval=3s"];

/// One cluster, one termination service, one namespace, and a NodePool of the same name.
pub(crate) struct Scene {
    pub(crate) stack: Stack,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) service: Service,
    image: String,
    subnet: String,
    pub(crate) zone: String,
    pub(crate) zone_id: String,
}

/// How a claim differs from an ordinary one.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) grace_period: Option<&'static str>,
    /// No provider id on the claim, and no node.
    pub(crate) unlaunched: bool,
    /// The instance lacks the tags that prove it ours.
    pub(crate) untagged: bool,
    pub(crate) provider_id: Option<String>,
    /// Merged into the claim and the node.
    pub(crate) claim: Value,
    pub(crate) node: Value,
}

impl Scene {
    /// With the service that other tests use at the same time.
    pub(crate) async fn new(stack: Stack, name: &str) -> Result<Self> {
        let service = Service::shared(&stack, "termination", &FLAGS)?;
        Self::with(stack, service, name).await
    }

    /// With a service of its own, for a test that is alone.
    pub(crate) async fn alone(stack: Stack, name: &str) -> Result<Self> {
        let service = Service::start(&stack, "termination", 1, &FLAGS)?;
        Self::with(stack, service, name).await
    }

    /// Another process in its place, with more flags.
    pub(crate) fn again_with(mut self, more: &[&str]) -> Result<Self> {
        self.service.stop(&self.stack)?;
        self.service = Service::start(&self.stack, "termination", 1, &[&FLAGS, more].concat())?;
        Ok(self)
    }

    async fn with(stack: Stack, service: Service, name: &str) -> Result<Self> {
        let client = stack.admin().await?;
        let namespace = kubernetes::namespace(&client, name).await?;
        let images = ec2(
            &stack,
            &[
                ("Action", "DescribeImages"),
                ("Owner.1", "amazon"),
                ("Filter.1.Name", "architecture"),
                ("Filter.1.Value.1", "x86_64"),
            ],
        )?;
        let subnets = ec2(
            &stack,
            &[
                ("Action", "DescribeSubnets"),
                ("Filter.1.Name", "tag-key"),
                ("Filter.1.Value.1", "karpenter.sh/discovery"),
            ],
        )?;
        Ok(Self {
            image: element(&images, "imageId")?,
            subnet: element(&subnets, "subnetId")?,
            zone: element(&subnets, "availabilityZone")?,
            zone_id: element(&subnets, "availabilityZoneId")?,
            stack,
            client,
            namespace,
            service,
        })
    }

    /// Stops a service of its own. A test that failed leaves it to the next one that is alone.
    pub(crate) fn end(self) -> Result<()> {
        self.service.stop(&self.stack)
    }

    /// kill -9, and another process in its place.
    pub(crate) fn kill_and_restart(&mut self) -> Result<()> {
        self.service.kill(&self.stack)?;
        self.restart()
    }

    /// Another process in place of one that has ended.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.service = Service::start(&self.stack, "termination", 1, &FLAGS)?;
        Ok(())
    }

    /// A second replica, which follows as long as the first one leads.
    pub(crate) fn follower(&self) -> Result<Service> {
        Service::start(&self.stack, "termination", 2, &FLAGS)
    }

    /// A name that no other test uses.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.namespace)
    }

    pub(crate) fn launch(&self, claim: &str, tagged: bool) -> Result<String> {
        let mut ids = self.launch_many(1, claim, tagged)?;
        ids.pop().context("an instance")
    }

    /// All with the tag of one claim, if any.
    pub(crate) fn launch_many(&self, count: usize, claim: &str, tagged: bool) -> Result<Vec<String>> {
        let count = count.to_string();
        let mut call = vec![
            ("Action", "RunInstances"),
            ("ImageId", &*self.image),
            ("SubnetId", &*self.subnet),
            ("InstanceType", "m5.large"),
            ("MinCount", &*count),
            ("MaxCount", &*count),
        ];
        let cluster = self.stack.var("CLUSTER_NAME")?;
        if tagged {
            call.extend([
                ("TagSpecification.1.ResourceType", "instance"),
                ("TagSpecification.1.Tag.1.Key", "karpenter.sh/nodepool"),
                ("TagSpecification.1.Tag.1.Value", "removal"),
                ("TagSpecification.1.Tag.2.Key", "karpenter.k8s.aws/ec2nodeclass"),
                ("TagSpecification.1.Tag.2.Value", "removal"),
                ("TagSpecification.1.Tag.3.Key", "eks:eks-cluster-name"),
                ("TagSpecification.1.Tag.3.Value", cluster),
                ("TagSpecification.1.Tag.4.Key", "karpenter.sh/nodeclaim"),
                ("TagSpecification.1.Tag.4.Value", claim),
            ]);
        }
        Ok(elements(&ec2(&self.stack, &call)?, "instanceId"))
    }

    /// Instance, claim and node of that name; returns the instance's id.
    pub(crate) async fn node(&self, name: &str, options: &Options) -> Result<String> {
        let id = self.launch(name, !options.untagged)?;
        self.around(name, &id, options).await?;
        Ok(id)
    }

    /// Claim and node of that name around an instance.
    pub(crate) async fn around(&self, name: &str, id: &str, options: &Options) -> Result<()> {
        let provider_id = options.provider_id.clone().unwrap_or_else(|| format!("aws:///{}/{id}", self.zone));
        self.claim(name, &provider_id, options).await?;
        if !options.unlaunched {
            self.node_object(name, &provider_id, options).await?;
        }
        Ok(())
    }

    pub(crate) async fn claim(&self, name: &str, provider_id: &str, options: &Options) -> Result<()> {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "finalizers": [FINALIZER], "labels": {
                "karpenter.sh/nodepool": self.namespace, "karpenter.sh/capacity-type": "on-demand",
                "topology.kubernetes.io/zone": self.zone,
            }},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "removal"},
                "requirements": [], "expireAfter": "Never",
            },
        });
        if let Some(period) = options.grace_period {
            claim["spec"]["terminationGracePeriod"] = json!(period);
        }
        merge(&mut claim, &options.claim);
        let claims = self.claims();
        claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
        let registered = if options.unlaunched { "Unknown" } else { "True" };
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": kind, "message": "",
                   "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
        };
        let mut status = json!({"conditions": [
            condition("Launched", registered), condition("Registered", registered),
            condition("Initialized", registered), condition("Ready", registered),
        ]});
        if !options.unlaunched {
            status["providerID"] = json!(provider_id);
            status["nodeName"] = json!(name);
        }
        let patch = Patch::Merge(json!({"status": status}));
        claims.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Claim and node without an instance behind them.
    pub(crate) async fn bare_node(&self, name: &str, provider_id: &str, options: &Options) -> Result<()> {
        self.claim(name, provider_id, options).await?;
        self.node_object(name, provider_id, options).await
    }

    /// Without claim and instance, unless these are made too. An empty provider id is none.
    pub(crate) async fn node_object(&self, name: &str, provider_id: &str, options: &Options) -> Result<()> {
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "finalizers": [FINALIZER], "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "karpenter.sh/nodepool": self.namespace, "karpenter.k8s.aws/ec2nodeclass": "removal",
                    "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                    "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": self.zone,
                    "test": self.namespace,
                },
            },
            "spec": {"providerID": provider_id},
            "status": {
                "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            },
        });
        merge(&mut node, &options.node);
        let nodes = self.nodes();
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        Ok(())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The kubelet of the node is heard of no more.
    pub(crate) async fn silence(&self, name: &str) -> Result<()> {
        let down = Patch::Merge(json!({"metadata": {"annotations": {"localstack/not-ready": "Unknown"}}}));
        self.nodes().patch(name, &PatchParams::default(), &down).await?;
        self.node_is_ready(name, false).await
    }

    pub(crate) async fn node_is_ready(&self, name: &str, wanted: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        eventually("the node's Ready condition", || async {
            let node = nodes.get(name).await?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            Ok((ready == wanted).then_some(()))
        })
        .await
    }

    /// Applies an object in the test's namespace.
    pub(crate) async fn create(&self, mut object: Value) -> Result<()> {
        object["metadata"]["namespace"] = json!(self.namespace);
        let api = kubernetes::api_of(&self.client, &object).await?;
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// A pod bound to the node, running.
    pub(crate) async fn pod(&self, name: &str, node: &str, more: Value) -> Result<()> {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "nodeName": node, "terminationGracePeriodSeconds": 1,
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
                                {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}],
                "containers": [{"name": "c", "image": "registry.example/c"}],
            },
        });
        merge(&mut pod, &more);
        self.create(pod).await?;
        let pods = self.pods();
        eventually("the pod to run", || async {
            let phase = pods.get(name).await?.status.and_then(|status| status.phase);
            Ok((phase.as_deref() == Some("Running")).then_some(()))
        })
        .await
    }

    pub(crate) async fn budget(&self, app: &str, spec: Value) -> Result<()> {
        let mut budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}},
        });
        merge(&mut budget["spec"], &spec);
        self.create(budget).await
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn claims(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    pub(crate) async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Claim, node and instance are all gone.
    pub(crate) async fn is_gone(&self, name: &str, instance: &str) -> Result<()> {
        let (claims, nodes) = (self.claims(), Api::<Node>::all(self.client.clone()));
        eventually("claim and node to be gone", || async {
            let left = claims.get_opt(name).await?.is_some() || nodes.get_opt(name).await?.is_some();
            Ok((!left).then_some(()))
        })
        .await
        .with_context(|| format!("{name}, {:?}", self.drains()))?;
        ensure!(!self.instance_lives(instance)?, "instance {instance} outlived its claim {name}");
        Ok(())
    }

    pub(crate) async fn condition(&self, claim: &str, kind: &str) -> Result<Option<(String, String)>> {
        let Some(claim) = self.claims().get_opt(claim).await? else { return Ok(None) };
        let conditions = claim.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(found.map(|found| (text(&found["status"]), text(&found["reason"]))))
    }

    pub(crate) fn instance_lives(&self, id: &str) -> Result<bool> {
        Ok(self.living()?.contains(id))
    }

    /// All instances that have not ended, whoever's they are.
    pub(crate) fn living(&self) -> Result<BTreeSet<String>> {
        let all = aws::get(&self.stack, "/instances")?;
        let all = all["instances"].as_array().context("a list of instances")?;
        let living = all.iter().filter(|one| one["state"] != "terminated");
        Ok(living.filter_map(|one| one["id"].as_str().map(str::to_owned)).collect())
    }

    /// All that `ListDrains` tells, as JSON.
    pub(crate) fn drains(&self) -> Result<Vec<Value>> {
        let told = self.call("ListDrains", &json!({}))?;
        Ok(told["drains"].as_array().cloned().unwrap_or_default())
    }

    /// The service has seen that everything of this test is gone.
    pub(crate) async fn no_drain_is_left(&self) -> Result<()> {
        let own = |drain: &Value| {
            let name = drain["nodeClaim"]["name"].as_str().or_else(|| drain["node"].as_str());
            name.is_some_and(|name| name.starts_with(&self.namespace))
        };
        eventually("the last drain to be closed", || async {
            Ok((!self.drains()?.iter().any(own)).then_some(()))
        })
        .await
    }

    /// Asks this test's service.
    pub(crate) fn call(&self, method: &str, request: &Value) -> Result<Value> {
        self.call_to(&self.service, method, request)
    }

    pub(crate) fn call_to(&self, service: &Service, method: &str, request: &Value) -> Result<Value> {
        let token = self.stack.var("GRPCURL_AUTHORIZATION")?.trim_start_matches("Bearer ").to_owned();
        let method = format!("karpenter.termination.v1.Termination/{method}");
        let request = request.to_string();
        let words = ["-d", &request, &service.grpc, &method];
        let output = integration::rpc::grpcurl(&self.stack, Some(&token), &words)?;
        if !output.status.success() {
            bail!("{method}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Waits until the drain of `node` waits for something of this kind, and returns the words.
    pub(crate) async fn waits_for(&self, node: &str, kind: &str) -> Result<Value> {
        eventually(&format!("a wait of kind {kind}"), || async {
            let drains = self.drains()?;
            let own = drains.iter().find(|drain| drain["node"] == node || drain["nodeClaim"]["name"] == node);
            let waits = own.and_then(|drain| drain["waiting"].as_array().cloned()).unwrap_or_default();
            Ok(waits.into_iter().find(|wait| wait["kind"] == kind))
        })
        .await
    }

    /// What all events with that reason say about the object, by now.
    pub(crate) async fn messages(&self, namespace: &str, object: &str, reason: &str) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let about = format!("involvedObject.name={object},reason={reason}");
        let all = events.list(&ListParams::default().fields(&about)).await?;
        Ok(all.items.into_iter().map(|event| event.message.unwrap_or_default()).collect())
    }

    /// Waits for an event with that reason about the object, and returns its message.
    pub(crate) async fn event(&self, namespace: &str, object: &str, reason: &str) -> Result<String> {
        eventually(&format!("an event {reason} about {object}"), || async {
            Ok(self.messages(namespace, object, reason).await?.into_iter().next())
        })
        .await
    }

    /// Nothing of what must stay has gone after the service had every chance.
    pub(crate) async fn stays<F: Future<Output = Result<bool>>>(&self, look: impl Fn() -> F) -> Result<()> {
        for _ in 0..8 {
            ensure!(look().await?, "it went");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    pub(crate) async fn node_names(&self) -> Result<Vec<String>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let own = nodes.list(&ListParams::default().labels(&format!("test={}", self.namespace))).await?;
        Ok(own.items.iter().map(|node| node.name_any()).collect())
    }
}

/// A call of EC2's query API; the local AWS checks no signature, but reads the service and region out of it.
fn ec2(stack: &Stack, parameters: &[(&str, &str)]) -> Result<String> {
    let region = stack.var("AWS_REGION")?;
    let scope = format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/{region}/ec2/aws4_request, SignedHeaders=host, Signature=0"
    );
    let form = parameters.iter().copied().chain([("Version", "2016-11-15")]);
    let mut answer = ureq::post(stack.var("AWS_ENDPOINT_URL")?)
        .header("authorization", scope)
        .send_form(form)
        .with_context(|| format!("{parameters:?}"))?;
    Ok(answer.body_mut().read_to_string()?)
}

/// The text of the first element of that name.
fn element(xml: &str, name: &str) -> Result<String> {
    elements(xml, name).into_iter().next().with_context(|| format!("no {name} in {xml}"))
}

fn elements(xml: &str, name: &str) -> Vec<String> {
    let tag = format!("<{name}>");
    xml.split(&tag).skip(1).filter_map(|rest| rest.split('<').next()).map(str::to_owned).collect()
}

/// Null changes nothing.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (_, Value::Null) => {}
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

//! Nodes to be removed, made by hand: an instance of the local AWS with our tags, a NodeClaim and a Node (played by kwok) of
//! one name, as the provisioner leaves them. And pods, budgets and questions around them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration::{Service, Stack, aws, eventually, kubernetes};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

pub(crate) const FINALIZER: &str = "karpenter.sh/termination";

/// One cluster, one termination service, one namespace.
pub(crate) struct Scene {
    pub(crate) stack: Stack,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) service: Service,
    image: String,
    subnet: String,
    pub(crate) zone: String,
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
}

impl Scene {
    pub(crate) async fn new(stack: Stack, name: &str) -> Result<Self> {
        let client = stack.admin().await?;
        let namespace = kubernetes::namespace(&client, name).await?;
        let service = Service::start(&stack, "termination", 1, &["--garbage-collection-interval=3s"])?;
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
            stack,
            client,
            namespace,
            service,
        })
    }

    /// Stops the service. A test that failed leaves it to the next `down`.
    pub(crate) fn end(self) -> Result<()> {
        self.service.stop(&self.stack)
    }

    /// kill -9, and another process in its place.
    pub(crate) fn kill_and_restart(&mut self) -> Result<()> {
        self.service.kill(&self.stack)?;
        self.service = Service::start(&self.stack, "termination", 1, &["--garbage-collection-interval=3s"])?;
        Ok(())
    }

    /// A name that no other test uses.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.namespace)
    }

    pub(crate) fn launch(&self, claim: &str, tagged: bool) -> Result<String> {
        let mut call = vec![
            ("Action", "RunInstances"),
            ("ImageId", &*self.image),
            ("SubnetId", &*self.subnet),
            ("InstanceType", "m5.large"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
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
        element(&ec2(&self.stack, &call)?, "instanceId")
    }

    /// Instance, claim and node of that name; returns the instance's id.
    pub(crate) async fn node(&self, name: &str, options: &Options) -> Result<String> {
        let id = self.launch(name, !options.untagged)?;
        let provider_id = options.provider_id.clone().unwrap_or_else(|| format!("aws:///{}/{id}", self.zone));
        self.claim(name, &provider_id, options).await?;
        if !options.unlaunched {
            self.node_object(name, &provider_id).await?;
        }
        Ok(id)
    }

    pub(crate) async fn claim(&self, name: &str, provider_id: &str, options: &Options) -> Result<()> {
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "finalizers": [FINALIZER], "labels": {
                "karpenter.sh/nodepool": "removal", "karpenter.sh/capacity-type": "on-demand",
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
        let claims = self.claims().await?;
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
        self.node_object(name, provider_id).await
    }

    async fn node_object(&self, name: &str, provider_id: &str) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "finalizers": [FINALIZER], "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "karpenter.sh/nodepool": "removal", "karpenter.k8s.aws/ec2nodeclass": "removal",
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
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        Ok(())
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

    pub(crate) async fn claims(&self) -> Result<Api<DynamicObject>> {
        kubernetes::api_of(&self.client, &json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"})).await
    }

    pub(crate) async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims().await?.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Claim, node and instance are all gone.
    pub(crate) async fn is_gone(&self, name: &str, instance: &str) -> Result<()> {
        let (claims, nodes) = (self.claims().await?, Api::<Node>::all(self.client.clone()));
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
        let Some(claim) = self.claims().await?.get_opt(claim).await? else { return Ok(None) };
        let conditions = claim.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(found.map(|found| (text(&found["status"]), text(&found["reason"]))))
    }

    pub(crate) fn instance_lives(&self, id: &str) -> Result<bool> {
        let all = aws::get(&self.stack, "/instances")?;
        let all = all["instances"].as_array().context("a list of instances")?;
        let state =
            all.iter().find(|one| one["id"] == id).map(|one| one["state"].as_str().unwrap_or("?").to_owned());
        Ok(state.is_some_and(|state| state != "terminated"))
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

    pub(crate) fn call(&self, method: &str, request: &Value) -> Result<Value> {
        let token = self.stack.var("GRPCURL_AUTHORIZATION")?.trim_start_matches("Bearer ").to_owned();
        let method = format!("karpenter.termination.v1.Termination/{method}");
        let request = request.to_string();
        let words = ["-d", &request, &self.service.grpc, &method];
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

    /// The message of an event with that reason about the object.
    pub(crate) async fn event(&self, namespace: &str, object: &str, reason: &str) -> Result<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        eventually(&format!("an event {reason} about {object}"), || async {
            let all = events.list(&ListParams::default()).await?;
            let found = all.items.into_iter().find(|event| {
                event.involved_object.name.as_deref() == Some(object)
                    && event.reason.as_deref() == Some(reason)
            });
            Ok(found.map(|event| event.message.unwrap_or_default()))
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
    let found = xml.split(&format!("<{name}>")).nth(1).and_then(|rest| rest.split('<').next());
    found.map(str::to_owned).with_context(|| format!("no {name} in {xml}"))
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

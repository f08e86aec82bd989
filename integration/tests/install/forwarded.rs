//! A pod of a service for `kubectl port-forward`, where no real kubelet runs one: the chart's own pod and Service, on a node whose
//! kubelet is played by a kwok of its own, which forwards the pod's port to the service's process on this machine. Everything before
//! that, from kubectl through the API server and its rights to the kubelet's port, is real.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use integration::{Service, Stack, eventually, helm};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::charts::values;

const NAMESPACE: &str = "kube-system";
const NODE: &str = "forwarding";
/// As the chart's values have it.
const GRPC_PORT: u16 = 9090;

pub(crate) struct Forwarded {
    client: Client,
    kubelet: Child,
    pod: String,
    service: String,
}

impl Forwarded {
    pub(crate) async fn new(stack: &Stack, process: &Service) -> Result<Self> {
        let client = stack.admin().await?;
        let service = format!("karpenter-{}", process.name);
        let rendered = helm::render(stack, "karpenter", &["--values", &values("tutorial")])?;
        let of_service = |kind: &str| {
            rendered.iter().find(|object| {
                object["kind"] == kind
                    && object["metadata"]["labels"]["app.kubernetes.io/component"] == *process.name
            })
        };
        let template = &of_service("Deployment").context("its Deployment")?["spec"]["template"];
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let kubelet = play_kubelet(stack, process, port)?;
        let forwarded = Self { client, kubelet, pod: process.identity(), service };
        let made = forwarded.make(of_service("Service").context("its Service")?, template, port).await;
        match made {
            Ok(()) => Ok(forwarded),
            Err(error) => forwarded.remove().await.and(Err(error)),
        }
    }

    async fn make(&self, service: &Value, template: &Value, kubelet: u16) -> Result<()> {
        let created = PostParams::default();
        let nodes: Api<Node> = Api::all(self.client.clone());
        // Nobody else's pod goes there.
        let node = json!({
            "metadata": {"name": NODE},
            "spec": {"taints": [{"key": "localstack/real-node", "effect": "NoSchedule"}]},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
            },
        });
        nodes.create(&created, &serde_json::from_value(node)?).await?;
        let services: Api<k8s_openapi::api::core::v1::Service> =
            Api::namespaced(self.client.clone(), NAMESPACE);
        services.create(&created, &serde_json::from_value(service.clone())?).await?;
        let mut pod = json!({
            "metadata": {"name": self.pod, "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        });
        pod["spec"]["nodeName"] = json!(NODE);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        pods.create(&created, &serde_json::from_value(pod)?).await?;
        eventually("the pod to run on the played node", || async {
            let status = pods.get(&self.pod).await?.status.unwrap_or_default();
            Ok((status.phase.as_deref() == Some("Running")).then_some(()))
        })
        .await
    }

    pub(crate) async fn remove(mut self) -> Result<()> {
        let services: Api<k8s_openapi::api::core::v1::Service> =
            Api::namespaced(self.client.clone(), NAMESPACE);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let nodes: Api<Node> = Api::all(self.client.clone());
        let at_once = DeleteParams::default().grace_period(0);
        let gone = (
            services.delete(&self.service, &DeleteParams::default()).await.map(drop),
            pods.delete(&self.pod, &at_once).await.map(drop),
            nodes.delete(NODE, &DeleteParams::default()).await.map(drop),
        );
        self.kubelet.kill()?;
        self.kubelet.wait()?;
        gone.0?;
        gone.1?;
        Ok(gone.2?)
    }
}

/// A second kwok, of one node: the cluster's own forwards nothing. The API server's certificate is for this machine's loopback.
fn play_kubelet(stack: &Stack, process: &Service, port: u16) -> Result<Child> {
    let (address, target) = process.grpc.rsplit_once(':').context("host:port")?;
    let target: u16 = target.parse()?;
    let (dir, client) = (stack.dir(), stack.var("KUBECONFIG")?);
    let rules = dir.join("forward.yaml");
    let rule = json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": NODE},
        "spec": {"forwards": [{"ports": [GRPC_PORT], "target": {"address": address, "port": target}}]},
    });
    std::fs::write(&rules, rule.to_string())?;
    let (stages, pki) = (dir.join("config/kwok-stages.yaml"), dir.join("pki"));
    let mut command = Command::new(helm::program(stack, "kwok")?);
    command.env("KWOK_WORKDIR", dir.join(NODE)).stdin(Stdio::null());
    command.arg(format!("--kubeconfig={client}"));
    command.arg(format!("--config={}", stages.display())).arg(format!("--config={}", rules.display()));
    command.arg("--manage-all-nodes=false").arg(format!("--manage-single-node={NODE}"));
    command.arg("--node-lease-duration-seconds=40").arg("--cidr=10.243.0.0/24");
    command.arg("--node-ip=127.0.0.1").arg(format!("--node-port={port}"));
    command.arg(format!("--server-address=127.0.0.1:{port}"));
    command.arg(format!("--tls-cert-file={}", pki.join("apiserver.crt").display()));
    command.arg(format!("--tls-private-key-file={}", pki.join("apiserver.key").display()));
    let log = std::fs::File::create(dir.join("log/kwok-forwarding.log"))?;
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("{command:?}"))
}

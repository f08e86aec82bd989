//! How long a full consolidation pass over a large cluster takes when there is nothing to gain, how soon a decision becomes a
//! taint, and what a large cluster costs the disruption service. Uses the services of the same
//! build as itself: only a release build says something about the bars.
//!
//! Nodes, claims and pods are made as objects, without kubelets. The controller manager is stopped: it would find the nodes
//! silent and remove them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use clap::Parser;
use futures::StreamExt as _;
use integration::figures::{Figure, FiguresFile, Report};
use integration::rpc::Impersonation;
use integration::workload::Workload;
use integration::{Service, Stack};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use proto::disruption::v1::ListCommandsRequest;
use proto::disruption::v1::disruption_client::DisruptionClient;
use serde_json::{Value, json};

#[derive(Parser)]
struct Options {
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    #[arg(long, default_value_t = 30)]
    pods_per_node: usize,
    /// Replicas of the provisioner, over which the what-ifs are spread.
    #[arg(long, default_value_t = 1)]
    provisioners: u32,
    #[command(flatten)]
    figures: FiguresFile,
}

/// One type, so that no replacement can be cheaper.
const TYPE: &str = "m5.4xlarge";
const ZONE: &str = "us-west-2a";
/// What its pods may use together, in millicores: with this and less than the smallest pod left, none fits elsewhere.
const ALLOCATABLE: usize = 15_890;
const AT_ONCE: usize = 64;
/// Seconds between a proposal and its validation, by default.
const VALIDATION_WAIT: f64 = 15.0;

fn main() -> Result<()> {
    let options = Options::parse();
    let stack = Stack::up_in("bench-disruption")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::default();
    let outcome = runtime.block_on(measure(&stack, &options, &mut report));
    stack.down()?;
    report.write(&options.figures)?;
    outcome
}

async fn measure(stack: &Stack, options: &Options, report: &mut Report) -> Result<()> {
    let pool = json!({
        "template": {"spec": {"expireAfter": "Never", "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]},
        ]}},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    });
    let workload = Workload::new(stack, "bench", pool, json!({})).await?;
    stop_controllers(stack)?;
    let client = stack.admin().await?;
    let began = Instant::now();
    many(options.nodes, |index| node(&client, &workload.name, index)).await?;
    many(options.nodes * options.pods_per_node, |index| pod(&client, &workload.name, index, options)).await?;
    println!(
        "made {} nodes and {} pods in {:.0} s",
        options.nodes,
        options.nodes * options.pods_per_node,
        began.elapsed().as_secs_f64()
    );
    start(stack, "pricing-cache", 1)?;
    for replica in 1..=options.provisioners {
        start(stack, "provisioner", replica)?;
    }
    let began = Instant::now();
    let disruption = start(stack, "disruption", 1)?;
    let of = size(options);
    report.add(Figure::new(format!("ready beside {of}"), began.elapsed().as_secs_f64(), "s"));
    report.add(pass(&disruption, options).await?);
    let resident = disruption.resident_bytes()? as f64 / 1e6;
    report.add(Figure::new(format!("resident after that pass, {of}"), resident, "MB").at_most(250.0));
    let spent = disruption.cpu_ticks()? as f64 / 100.0;
    report.add(Figure::new(format!("processor time so far, {of}"), spent, "s"));
    report.add(taint(stack, &client, &workload).await?);
    Ok(())
}

fn size(options: &Options) -> String {
    format!("{} nodes, {} pods", options.nodes, options.nodes * options.pods_per_node)
}

fn stop_controllers(stack: &Stack) -> Result<()> {
    let file = stack.dir().join("pid/kube-controller-manager");
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let pid = text.split_whitespace().next().context("a process id")?;
    let ended = std::process::Command::new("kill").arg(pid).status()?;
    ensure!(ended.success(), "kill {pid}: {ended}");
    Ok(())
}

/// Binaries of the same build as this program.
fn start(stack: &Stack, name: &str, replica: u32) -> Result<Service> {
    let directory = std::env::current_exe()?.parent().context("the program lies in a directory")?.to_owned();
    let directory = directory.to_str().context("a path in UTF-8")?;
    Service::start_with(stack, name, replica, &["--bin-dir", directory])
}

/// The first look asks about every node: by itself, and many together.
async fn pass(disruption: &Service, options: &Options) -> Result<Figure> {
    let wanted = options.nodes as f64;
    let name = "karpenter_disruption_look_duration_seconds";
    let (mut seen, mut worst) = (0.0, 0.0_f64);
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (looks, sum) = (
            disruption.metric(&format!("{name}_count"), "")?,
            disruption.metric(&format!("{name}_sum"), "")?,
        );
        let probes = disruption.metric("karpenter_disruption_probes_total", "")?;
        let eligible =
            disruption.metric("karpenter_voluntary_disruption_eligible_nodes", "reason=\"underutilized\"")?;
        worst = worst.max(sum - seen);
        seen = sum;
        if probes >= wanted && looks > 0.0 {
            ensure!(eligible == wanted, "only {eligible} of {wanted} nodes were candidates");
            println!("{probes} what-ifs in {looks} looks");
            // The bars are 3 s at 1,000 nodes and 30 s at 10,000: in proportion to the nodes.
            let what = format!("full pass with nothing to gain, {}", size(options));
            return Ok(Figure::new(what, worst, "s").at_most(3.0 * wanted / 1000.0));
        }
    }
}

/// From the end of the wait before the second look to the first taint that the API server has.
async fn taint(stack: &Stack, client: &Client, workload: &Workload) -> Result<Figure> {
    let pods: Api<Pod> = workload.pods();
    let emptied: Vec<String> = (0..10).map(node_name).collect();
    for name in &emptied {
        let own = ListParams::default().fields(&format!("spec.nodeName={name}"));
        pods.delete_collection(&DeleteParams { grace_period_seconds: Some(0), ..Default::default() }, &own)
            .await?;
    }
    let token = stack.token("operator", &[&runtime::Service::Disruption.audience()]).await?;
    let (caller, callee) = (runtime::Service::Provisioner, runtime::Service::Disruption);
    let caller = Impersonation::with_token(stack, caller, callee, &token).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let tainted = loop {
        let node = nodes.get(&emptied[0]).await?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        if taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted") {
            break Timestamp::now();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let mut client = DisruptionClient::new(caller.peers.leader());
    let commands =
        client.list_commands(ListCommandsRequest { with_ended: true }).await?.into_inner().commands;
    let command = commands.iter().find(|command| command.remove_nodes.contains(&emptied[0]));
    let command = command.context("the command of the empty nodes")?;
    let proposed = command.proposed_at.context("a time")?;
    let proposed = Timestamp::new(proposed.seconds, proposed.nanos)?;
    println!("{} empty nodes in the command", command.remove_nodes.len());
    let took = tainted.duration_since(proposed).as_secs_f64() - VALIDATION_WAIT;
    Ok(Figure::new("validation wait over to the first taint", took, "s").at_most(1.0))
}

async fn many<F: Future<Output = Result<()>>>(count: usize, make: impl Fn(usize) -> F) -> Result<()> {
    let mut made = futures::stream::iter((0..count).map(make)).buffer_unordered(AT_ONCE);
    let mut done = 0;
    while let Some(one) = made.next().await {
        one?;
        done += 1;
        if done % 20_000 == 0 {
            println!("{done} of {count}");
        }
    }
    Ok(())
}

fn node_name(index: usize) -> String {
    format!("bench-{index:05}")
}

fn labels(pool: &str, name: &str) -> Value {
    json!({
        "karpenter.sh/nodepool": pool, "karpenter.k8s.aws/ec2nodeclass": pool, "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "node.kubernetes.io/instance-type": TYPE, "topology.kubernetes.io/zone": ZONE,
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
        "integration.example.com/tenant": pool,
    })
}

/// As the provisioner leaves a claim and its node.
async fn node(client: &Client, pool: &str, index: usize) -> Result<()> {
    let name = node_name(index);
    let provider_id = format!("aws:///{ZONE}/i-{index:017}");
    let labels = labels(pool, &name);
    let amounts = json!({"cpu": format!("{ALLOCATABLE}m"), "memory": "57Gi", "pods": "234"});
    let claim: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "labels": labels},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]}],
            "expireAfter": "Never",
        },
    }))?;
    let claims: Api<NodeClaim> = Api::all(client.clone());
    claims.create(&PostParams::default(), &claim).await?;
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
    };
    let kinds = ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"];
    let patch = Patch::Merge(json!({"status": {
        "providerID": provider_id, "nodeName": name, "capacity": amounts, "allocatable": amounts,
        "conditions": kinds.map(condition),
    }}));
    claims.patch_status(&name, &PatchParams::default(), &patch).await?;
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider_id},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        },
    }))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let made = nodes.create(&PostParams::default(), &node).await?;
    // Admission gives every new node a taint that the controller manager would take off.
    if made.spec.as_ref().is_some_and(|spec| spec.taints.is_some()) {
        let patch = Patch::Merge(json!({"spec": {"taints": null}}));
        nodes.patch(&made.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// Pods of 300 workloads that fill their node to the last millicores.
async fn pod(client: &Client, namespace: &str, index: usize, options: &Options) -> Result<()> {
    let (on, nth) = (index / options.pods_per_node, index % options.pods_per_node);
    let each = ALLOCATABLE / options.pods_per_node / 10 * 10;
    // The first takes what is left, so that nothing is.
    let cpu = if nth == 0 { ALLOCATABLE - each * (options.pods_per_node - 1) } else { each };
    let app = format!("app-{}", index % 300);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("{app}-{index}"), "labels": {"app": app, "pod-template-hash": "5d8c7f9b6c"}},
        "spec": {
            "nodeName": node_name(on),
            "nodeSelector": {"integration.example.com/tenant": namespace},
            "containers": [{
                "name": "app", "image": "registry.example.com/team/app:1.2.3",
                "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
            }],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

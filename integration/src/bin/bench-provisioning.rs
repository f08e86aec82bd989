//! How fast pods without a place become calls to EC2, and what a large cluster costs the provisioner. Uses the
//! services of the same build as itself: only a release build says something about the bars.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::NodeClaim;
use clap::Parser;
use futures::StreamExt as _;
use integration::figures::{Figure, FiguresFile, Report};
use integration::wait::patiently;
use integration::workload::Workload;
use integration::{Service, Stack, aws, eventually};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use model::labels;
use serde_json::{Value, json};

/// Thousands of pods take the control plane its time on a small machine.
const PATIENCE: u32 = 4;

#[derive(Parser)]
struct Options {
    /// Bursts that are measured.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Pods of each burst.
    #[arg(long, default_value_t = 1000)]
    pods: u32,
    /// Nodes that are there already.
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Running pods on those nodes; then memory, idle load and a change of leader are measured instead of bursts.
    #[arg(long, default_value_t = 0)]
    bound_pods: usize,
    /// Longest window in seconds, so that a burst that takes its time to be created is one decision all the same.
    #[arg(long, default_value_t = 120)]
    longest_window: u32,
    /// Changes of pods a second while the idle load is measured.
    #[arg(long, default_value_t = 100)]
    changes: u32,
    #[command(flatten)]
    figures: FiguresFile,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let stack = Stack::up_in("bench-provisioning")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::default();
    let outcome = runtime.block_on(measure(&stack, &options, &mut report));
    stack.down()?;
    report.write(&options.figures)?;
    outcome
}

async fn measure(stack: &Stack, options: &Options, report: &mut Report) -> Result<()> {
    let client = stack.admin().await?;
    if options.bound_pods > 0 {
        return large(stack, &client, options, report).await;
    }
    nodes(&client, options.nodes, None).await?;
    start(stack, "pricing-cache", 1)?;
    start(stack, "termination", 1)?;
    let longest = format!("--arg=--batch-max-duration={}s", options.longest_window);
    let provisioner = start_with(stack, "provisioner", 1, &[&longest])?;
    let workload = Workload::new(stack, "bench", json!({}), json!({})).await?;
    let (mut first, mut all) = (Vec::new(), Vec::new());
    // The first round makes launch templates and warms up connections; it is shown and not counted.
    for round in 0..=options.rounds {
        let (windows, figures) = burst(stack, &workload, options.pods).await?;
        println!(
            "round {round}: {} windows, {} fleet calls, first {:.1} ms and last {:.1} ms after their window closed",
            windows,
            figures.len(),
            figures.first().copied().unwrap_or_default(),
            figures.last().copied().unwrap_or_default()
        );
        if round > 0 {
            first.extend(figures.first().copied());
            all.extend(figures);
        }
    }
    distribution(report, "window closed to first CreateFleet", &mut first, [Some(20.0), Some(100.0)]);
    distribution(report, "window closed to CreateFleet, all calls", &mut all, [None, None]);
    let spent = provisioner.cpu_ticks()? as f64 / 100.0;
    report.add(Figure::new("processor time of all rounds", spent, "s"));
    report.add(Figure::new("resident after all rounds", provisioner.resident_bytes()? as f64 / 1e6, "MB"));
    workload.remove().await
}

/// Median and 99th percentile, in milliseconds, with their bars.
fn distribution(report: &mut Report, what: &str, values: &mut [f64], bars: [Option<f64>; 2]) {
    values.sort_by(f64::total_cmp);
    for (share, bar) in [50, 99].into_iter().zip(bars) {
        let index = (values.len() * share / 100).min(values.len().saturating_sub(1));
        if let Some(value) = values.get(index) {
            let figure = Figure::new(format!("{what}, p{share}"), *value, "ms");
            report.add(Figure { bar, ..figure });
        }
    }
}

/// Binaries of the same build as this program.
fn start(stack: &Stack, name: &str, replica: u32) -> Result<Service> {
    start_with(stack, name, replica, &[])
}

fn start_with(stack: &Stack, name: &str, replica: u32, options: &[&str]) -> Result<Service> {
    let directory = std::env::current_exe()?.parent().context("the program lies in a directory")?.to_owned();
    let directory = directory.to_str().context("a path in UTF-8")?;
    let options = [&["--bin-dir", directory], options].concat();
    Service::start_with(stack, name, replica, &options)
}

/// Windows, and milliseconds from the end of its window to the beginning of each fleet call, in order.
async fn burst(stack: &Stack, workload: &Workload, pods: u32) -> Result<(usize, Vec<f64>)> {
    let since = aws::get(stack, "/calls?limit=1")?["requests"][0]["n"].as_i64().unwrap_or(0);
    let shares: [(&str, u32, &str); 4] = [
        ("a", pods * 4 / 10, "100m"),
        ("b", pods * 3 / 10, "250m"),
        ("c", pods * 2 / 10, "500m"),
        ("d", pods / 10, "1"),
    ];
    let began = Timestamp::now();
    for (name, count, cpu) in shares {
        workload.deploy(name, count, cpu, json!({})).await?;
    }
    let total: usize = shares.iter().map(|(_, count, _)| *count as usize).sum();
    let calls = patiently(PATIENCE, "a place for every pod", || async {
        let waiting =
            workload.pods().list(&ListParams::default().fields("spec.nodeName=")).await?.items.len();
        let pods = workload.pods().list(&ListParams::default().limit(1)).await?;
        let claims = workload.claims().await?.len();
        let calls = fleet_calls(stack, since)?;
        let made = pods.metadata.remaining_item_count.unwrap_or(0) + 1 >= i64::try_from(total).unwrap_or(0);
        Ok((made && claims > 0 && !calls.is_empty() && waiting == 0).then_some(calls))
    })
    .await?;
    let closed = windows(stack, began)?;
    ensure!(!closed.is_empty(), "no window was logged");
    // Each call belongs to the last window that closed before it.
    let mut figures: Vec<f64> = calls
        .iter()
        .filter_map(|call| {
            let window = closed.iter().rev().find(|at| **at <= *call)?;
            Some((call - window) * 1e3)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    clear(workload).await?;
    Ok((closed.len(), figures))
}

/// Pods first: those that are left on a node that goes would be given another.
async fn clear(workload: &Workload) -> Result<()> {
    workload.deployments().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    patiently(PATIENCE, "all pods to be gone", || async {
        let pods = workload.pods().list(&ListParams::default().limit(1)).await?.items;
        Ok(pods.is_empty().then_some(()))
    })
    .await?;
    let claims: Api<NodeClaim> = Api::all(workload.client.clone());
    claims.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    patiently(PATIENCE, "all claims to be gone", || async {
        Ok(workload.claims().await?.is_empty().then_some(()))
    })
    .await
}

/// When each CreateFleet began, seconds since 1970.
fn fleet_calls(stack: &Stack, since: i64) -> Result<Vec<f64>> {
    let calls = aws::get(stack, &format!("/calls?action=CreateFleet&since={since}&limit=1000"))?;
    let calls = calls["requests"].as_array().context("a list of calls")?;
    let real = calls.iter().filter(|call| call["status"] == 200);
    Ok(real.filter_map(|call| Some(call["time"].as_f64()? - call["ms"].as_f64()? / 1e3)).collect())
}

/// When windows closed since `began`, seconds since 1970, from the provisioner's own log.
fn windows(stack: &Stack, began: Timestamp) -> Result<Vec<f64>> {
    let log = std::fs::read_to_string(stack.dir().join("log/provisioner-1.log"))?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = lines.filter(|line| line["message"] == "found provisionable pod(s)").filter_map(|line| {
        let at: Timestamp = line["time"].as_str()?.parse().ok()?;
        let closed = at.as_microsecond() as f64 / 1e6 - line["closed_ms_ago"].as_f64()? / 1e3;
        (at >= began).then_some(closed)
    });
    Ok(found.collect())
}

/// Nodes of the pool with a claim each, or of nobody.
async fn nodes(client: &Client, count: usize, pool: Option<&str>) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let make = |index: usize| {
        let api = api.clone();
        async move {
            let name = format!("other-{index}");
            let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
            let mut node: Node = serde_json::from_value(json!({
                "metadata": {
                    "name": name,
                    "labels": {
                        "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                        "topology.kubernetes.io/zone": "us-west-2a", "node.kubernetes.io/instance-type": "m5.4xlarge",
                    },
                },
                "spec": {"providerID": format!("aws:///us-west-2a/i-other{index:012}")},
                "status": {
                    "capacity": amounts, "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
                },
            }))?;
            if let Some(pool) = pool {
                node.labels_mut().extend(of_pool(pool));
                claim(client, &name, pool, index).await?;
            }
            api.create(&PostParams::default(), &node).await?;
            anyhow::Ok(())
        }
    };
    let made: Vec<Result<()>> =
        futures::stream::iter((0..count).map(make)).buffer_unordered(32).collect().await;
    made.into_iter().collect()
}

/// What claims and nodes of a pool have in common.
fn of_pool(pool: &str) -> BTreeMap<String, String> {
    let own = [
        ("karpenter.sh/nodepool", pool),
        ("karpenter.k8s.aws/ec2nodeclass", pool),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("node.kubernetes.io/instance-type", "m5.4xlarge"),
        ("topology.kubernetes.io/zone", "us-west-2a"),
        ("topology.kubernetes.io/region", "us-west-2"),
        ("topology.k8s.aws/zone-id", "usw2-az1"),
        ("karpenter.k8s.aws/instance-family", "m5"),
        ("karpenter.k8s.aws/instance-category", "m"),
        ("karpenter.k8s.aws/instance-generation", "5"),
        ("karpenter.k8s.aws/instance-size", "4xlarge"),
        ("karpenter.k8s.aws/instance-cpu", "16"),
        ("karpenter.k8s.aws/instance-memory", "65536"),
        ("karpenter.k8s.aws/instance-hypervisor", "nitro"),
    ];
    own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A claim whose life has come as far as it goes.
async fn claim(client: &Client, name: &str, pool: &str, index: usize) -> Result<()> {
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let object: NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "labels": of_pool(pool), "finalizers": ["karpenter.sh/termination"],
            "annotations": {labels::TAGGED: "true", labels::CLUSTER_NAME_TAGGED: "true"},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.4xlarge"]}],
        },
    }))?;
    let api: Api<NodeClaim> = Api::all(client.clone());
    api.create(&PostParams::default(), &object).await?;
    let status = json!({"status": {
        "providerID": format!("aws:///us-west-2a/i-other{index:012}"), "nodeName": name, "imageID": "ami-1",
        "capacity": amounts, "allocatable": amounts,
        "conditions": [condition("Launched"), condition("Registered"), condition("Initialized"), condition("Ready")],
    }});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// Pods bound to the nodes as if a scheduler had done it, of 300 workloads.
async fn bound_pods(client: &Client, nodes: usize, count: usize) -> Result<()> {
    let namespace = integration::kubernetes::namespace(client, "large").await?;
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let began = Instant::now();
    let make = |index: usize| {
        let api = api.clone();
        async move {
            let (app, node) = (format!("app-{}", index % 300), format!("other-{}", index % nodes));
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {
                    "name": format!("{app}-{index}"),
                    "labels": {"app": app, "pod-template-hash": "5d8c7f9b6c"},
                },
                "spec": {
                    "nodeName": node,
                    "containers": [{
                        "name": "app", "image": "registry.example.com/team/app:1.2.3",
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    }],
                },
            }))?;
            api.create(&PostParams::default(), &pod).await?;
            anyhow::Ok(())
        }
    };
    let mut made = futures::stream::iter((0..count).map(make)).buffer_unordered(64);
    let mut done = 0;
    while let Some(one) = made.next().await {
        one?;
        done += 1;
        if done % 10_000 == 0 {
            println!("{done} pods after {:.0} s", began.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

async fn large(stack: &Stack, client: &Client, options: &Options, report: &mut Report) -> Result<()> {
    let workload = Workload::new(stack, "idle", json!({}), json!({})).await?;
    nodes(client, options.nodes, Some(&workload.name)).await?;
    bound_pods(client, options.nodes, options.bound_pods).await?;
    start(stack, "pricing-cache", 1)?;
    let began = Instant::now();
    let (one, two) = (start(stack, "provisioner", 1)?, start(stack, "provisioner", 2)?);
    let of = format!("{} nodes, {} pods", options.nodes, options.bound_pods);
    report.add(Figure::new(format!("two provisioners ready, {of}"), began.elapsed().as_secs_f64(), "s"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = (one.cpu_ticks()?, two.cpu_ticks()?);
    let seconds = 30;
    change_pods(client, options.changes, seconds).await?;
    for (service, before) in [(&one, before.0), (&two, before.1)] {
        let (name, changes) = (service.identity(), options.changes);
        let share = (service.cpu_ticks()? - before) as f64 / f64::from(seconds);
        report.add(Figure::new(format!("{name}: {changes} pod changes a second"), share, "%").at_most(5.0));
        let resident = service.resident_bytes()? as f64 / 1e6;
        report.add(Figure::new(format!("{name}: resident, {of}"), resident, "MB").at_most(400.0));
    }
    let leads = |s: &Service| s.metric("leader_election_master_status", "").is_ok_and(|v| v > 0.0);
    let (leader, follower) = if leads(&one) { (one, two) } else { (two, one) };
    workload.deploy("waits", 3, "1", json!({})).await?;
    leader.kill(stack)?;
    eventually("the follower to lead", || async { Ok(leads(&follower).then_some(())) }).await?;
    let led = Instant::now();
    eventually("its first decision", || async {
        let count = follower.metric("karpenter_scheduler_scheduling_duration_seconds_count", "")?;
        Ok((count > 0.0).then_some(()))
    })
    .await?;
    let took = led.elapsed().as_secs_f64();
    report.add(Figure::new("leader killed: first decision after the other leads", took, "s").at_most(3.0));
    Ok(())
}

/// Annotates pods, one after the other, evenly over the time.
async fn change_pods(client: &Client, a_second: u32, seconds: u32) -> Result<()> {
    let api: Api<Pod> = Api::all(client.clone());
    let some = api.list(&ListParams::default().limit(a_second * seconds)).await?.items;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / a_second);
    for (number, pod) in some.iter().cycle().take((a_second * seconds) as usize).enumerate() {
        tick.tick().await;
        let own: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"labels": {"round": format!("r{}", number % 7)}}}));
        own.patch(&pod.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

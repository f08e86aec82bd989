//! A real Prometheus that scrapes the five services, and the queries of the boards asked of it: those that people look at first find
//! data after a scale-up, all are understood, and none groups by a label that its metric does not have. What has not happened in this
//! scene, such as an interruption, has no series: of those metrics `boards.rs` knows only that the code names them.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration::stack::root;
use integration::workload::Workload;
use integration::{Service, Skipped, Stack, Test, eventually, test};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::boards::names;

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("queries", alone, queries_of_the_boards_find_data)]
}

/// Must have a value once pods were placed on new nodes.
const FIRST_LOOKED_AT: &[&str] = &[
    "sum by (service) (karpenter_build_info)",
    "sum by (name) (leader_election_master_status)",
    "sum by (nodepool) (karpenter_nodepools_usage{resource_type=\"nodes\"})",
    "sum(karpenter_nodeclaims_created_total)",
    "sum(karpenter_nodes_created_total)",
    "histogram_quantile(0.5, sum by (le) (karpenter_provisioner_scheduling_duration_seconds_bucket))",
    "count(karpenter_cloudprovider_instance_type_offering_price_estimate)",
    "max by (feed) (karpenter_pricing_last_success_timestamp_seconds)",
];

/// What Grafana's public board 20398 asks for: pools, nodes by each property, pods, and how full nodes are.
fn public_board() -> Vec<String> {
    let node = "region!=\"\", zone!=\"\", arch!=\"\", os!=\"\", instance_type!=\"\", capacity_type!=\"\", nodepool!=\"\"";
    let mut all = vec!["count(count by (nodepool) (karpenter_nodepools_limit))".to_owned()];
    for property in ["nodepool", "instance_type", "capacity_type", "region", "zone", "arch", "os"] {
        let each = format!("count by (node_name, {property}) (karpenter_nodes_allocatable{{{node}}})");
        all.push(format!("count by ({property}) ({each})"));
    }
    for property in ["nodepool", "instance_type", "capacity_type"] {
        all.push(format!("sum by ({property}) (karpenter_pods_state{{{property}!=\"\"}})"));
    }
    for resource in ["cpu", "memory", "nodes", "pods", "ephemeral_storage"] {
        let of = format!("{{resource_type=\"{resource}\"}}");
        all.push(format!("sum by (job, nodepool) (karpenter_nodepools_usage{of})"));
    }
    let by = "node_name, nodepool, instance_type, instance_memory, instance_cpu, instance_network_bandwidth, region, zone, os, \
              capacity_type, arch";
    for resource in ["cpu", "memory"] {
        let of = format!("{{{node}, resource_type=\"{resource}\"}}");
        let sum = |name: &str| format!("sum by ({by}) (karpenter_nodes_{name}{of})");
        let asked = format!("({} + {})", sum("total_pod_requests"), sum("total_daemon_requests"));
        all.push(format!("100 * {asked} / {}", sum("allocatable")));
        let limits = ["pod", "daemon"].map(|kind| format!("sum(karpenter_nodes_total_{kind}_limits{of})"));
        all.push(limits.join(" + "));
        let pools = ["usage", "limit"]
            .map(|name| format!("sum by (nodepool, resource_type) (karpenter_nodepools_{name}{{resource_type=\"{resource}\"}})"));
        all.push(pools.join(" / "));
    }
    all
}

/// Ends when it is dropped.
struct Prometheus {
    process: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    fn start(stack: &Stack, services: &[Service]) -> Result<Self> {
        if Command::new("prometheus").arg("--version").output().is_err() {
            let why = "prometheus is missing: install the package of that name";
            stack.command(["build", "--promtool"]).map_err(|_| Skipped(why.to_owned()))?;
        }
        let home = stack.dir().join("prometheus");
        std::fs::create_dir_all(&home)?;
        let targets: Vec<&str> = services.iter().map(|service| service.admin.as_str()).collect();
        let config = json!({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "karpenter", "static_configs": [{"targets": targets}]}],
        });
        std::fs::write(home.join("prometheus.yml"), config.to_string())?;
        // Taken from the system and given back at once: nobody else here asks for the same one.
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", home.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", home.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { process, address })
    }

    /// The answer's samples; an error when the query makes no sense.
    fn ask(&self, query: &str) -> Result<Vec<Value>> {
        let url = format!("http://{}/api/v1/query", self.address);
        let mut answer = ureq::get(&url).query("query", query).call().with_context(|| query.to_owned())?;
        let body: Value = answer.body_mut().read_json()?;
        ensure!(body["status"] == "success", "{query}: {body}");
        Ok(body["data"]["result"].as_array().cloned().unwrap_or_default())
    }
}

fn queries(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        Value::Object(fields) => {
            if let Some(text) = fields.get("expr").and_then(Value::as_str) {
                found.insert(text.replace("$nodepool", ".*"));
            }
            fields.values().for_each(|field| queries(field, found));
        }
        _ => {}
    }
}

/// Labels in `by (…)`.
fn grouped_by(query: &str) -> BTreeSet<&str> {
    let lists = query.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

/// Grouping by a label that no series has still finds data: one line for everything, without a name.
fn labels_exist(prometheus: &Prometheus, query: &str) -> Result<()> {
    let labels = grouped_by(query);
    for metric in names(query).filter(|metric| !labels.contains(metric)) {
        let series = prometheus.ask(metric)?;
        for label in labels.iter().filter(|_| !series.is_empty()) {
            let is_there = series.iter().any(|each| each["metric"].get(label).is_some());
            ensure!(is_there, "{query}: no series of {metric} has the label {label}");
        }
    }
    Ok(())
}

fn limited(cpu: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": "64Mi"});
    json!([{"name": "app", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}])
}

/// A daemon on every node.
async fn agent(workload: &Workload) -> Result<()> {
    let labels = json!({"app": "agent"});
    let daemon: DaemonSet = serde_json::from_value(json!({
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": limited("50m"), "tolerations": [{"operator": "Exists"}]},
        }},
    }))?;
    let daemons: Api<DaemonSet> = Api::namespaced(workload.client.clone(), &workload.name);
    daemons.create(&PostParams::default(), &daemon).await?;
    Ok(())
}

async fn queries_of_the_boards_find_data(stack: Stack) -> Result<()> {
    let names = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let services: Vec<Service> =
        names.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let prometheus = Prometheus::start(&stack, &services)?;
    let pool = json!({"limits": {"cpu": "1000", "memory": "1000Gi"}});
    let workload = Workload::new(&stack, "queries", pool, json!({})).await?;
    agent(&workload).await?;
    workload.deploy("app", 3, "1", json!({"containers": limited("1")})).await?;
    workload.running("app", 3).await?;

    for query in FIRST_LOOKED_AT.iter().map(|query| (*query).to_owned()).chain(public_board()) {
        eventually(&format!("data for {query}"), || async {
            Ok((!prometheus.ask(&query)?.is_empty()).then_some(()))
        })
        .await?;
    }
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("deploy/observability/dashboards"))? {
        queries(&serde_json::from_str(&std::fs::read_to_string(entry?.path())?)?, &mut all);
    }
    ensure!(all.len() > 40, "only {} queries", all.len());
    let mut with_data = 0;
    for query in &all {
        with_data += usize::from(!prometheus.ask(query)?.is_empty());
        labels_exist(&prometheus, query)?;
    }
    ensure!(with_data >= all.len() / 3, "only {with_data} of {} queries of the boards find data", all.len());
    drop(prometheus);
    workload.deployments().delete("app", &Default::default()).await?;
    let daemons: Api<DaemonSet> = Api::namespaced(workload.client.clone(), &workload.name);
    daemons.delete("agent", &Default::default()).await?;
    workload.remove().await?;
    services.iter().try_for_each(|service| service.stop(&stack))
}

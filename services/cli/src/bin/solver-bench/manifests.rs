//! Scenarios as files that the reference reads.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::scenario::catalogue::{Kind, ZONES};
use crate::scenario::{Labels, Scenario, Term, Together, Workload};

/// Writes `manifests.json` and `catalogue.json`.
pub(crate) fn write(scenario: &Scenario, directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("manifests.json"), serde_json::to_vec(&manifests(scenario))?)?;
    std::fs::write(directory.join("catalogue.json"), serde_json::to_vec(&catalogue(&scenario.kinds))?)
}

fn dollars(micro: i64) -> Value {
    json!(micro as f64 / 1e6)
}

fn catalogue(kinds: &[Kind]) -> Value {
    let offering = |zone: usize, bought: &str, price: i64| json!({"zone": ZONES[zone].0, "zoneId": ZONES[zone].1, "capacityType": bought, "price": dollars(price), "available": true});
    let types: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            let spot = kind.spot.iter().enumerate().map(|(zone, price)| offering(zone, "spot", *price));
            let bought = (0..kind.on_demand_zones).map(|zone| offering(zone, "on-demand", kind.price));
            let mut capacity = json!({
                "cpu": format!("{}m", kind.milli_cpu), "memory": format!("{}Mi", kind.mib), "pods": kind.pods.to_string(), "ephemeral-storage": "20Gi",
            });
            if kind.gpus > 0 {
                capacity["nvidia.com/gpu"] = json!(kind.gpus.to_string());
            }
            json!({
                "name": kind.name, "labels": kind.labels, "capacity": capacity,
                "overhead": {
                    "cpu": format!("{}m", kind.overhead_milli_cpu), "memory": format!("{}Mi", kind.overhead_mib), "ephemeral-storage": "3Gi",
                },
                "offerings": spot.chain(bought).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"region": "us-east-1", "instanceTypes": types})
}

fn manifests(scenario: &Scenario) -> Value {
    let mut items = Vec::new();
    for pool in &scenario.pools {
        let mut spec = json!({
            "template": {
                "metadata": {"labels": pool.labels},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": pool.requirements.iter().map(term).collect::<Vec<_>>(),
                    "taints": pool.taints.iter().map(|(key, value)| json!({"key": key, "value": value, "effect": "NoSchedule"})).collect::<Vec<_>>(),
                },
            },
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        });
        if let Some(weight) = pool.weight {
            spec["weight"] = json!(weight);
        }
        if let Some(cpus) = pool.cpu_limit {
            spec["limits"] = json!({"cpu": cpus.to_string()});
        }
        items.push(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}, "spec": spec}));
    }
    for node in &scenario.nodes {
        let kind = &scenario.kinds[node.kind];
        let (milli_cpu, mib) = kind.allocatable();
        let allocatable = json!({
            "cpu": format!("{milli_cpu}m"), "memory": format!("{mib}Mi"), "pods": kind.pods.to_string(), "ephemeral-storage": "17Gi",
        });
        items.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node.name, "labels": scenario.node_labels(node)},
            "spec": {"providerID": format!("aws:///{}/i-{}", ZONES[node.zone].0, node.name)},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }));
    }
    for daemon in &scenario.daemons {
        items.push(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": daemon.name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": daemon.labels}, "template": template(daemon)},
        }));
    }
    for workload in &scenario.workloads {
        let meta = |labels: Option<&Labels>| {
            let mut meta = json!({"name": workload.name, "namespace": "default"});
            if let Some(labels) = labels {
                meta["labels"] = json!(labels);
            }
            meta
        };
        items.push(if workload.bare {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(Some(&workload.labels)), "spec": pod(workload)})
        } else {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(None),
                "spec": {"replicas": workload.replicas, "selector": {"matchLabels": workload.labels}, "template": template(workload)},
            })
        });
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn template(workload: &Workload) -> Value {
    json!({"metadata": {"labels": workload.labels}, "spec": pod(workload)})
}

fn term(term: &Term) -> Value {
    json!({"key": term.key, "operator": term.operator, "values": term.values})
}

fn pod(workload: &Workload) -> Value {
    let mut requests =
        json!({"cpu": format!("{}m", workload.milli_cpu), "memory": format!("{}Mi", workload.mib)});
    if workload.gpus > 0 {
        requests["nvidia.com/gpu"] = json!(workload.gpus.to_string());
    }
    let mut container = json!({"name": "c", "image": "pause", "resources": {"requests": requests}});
    if let Some(port) = workload.host_port {
        container["ports"] = json!([{"containerPort": port, "hostPort": port}]);
    }
    let mut spec = Map::new();
    spec.insert("containers".to_owned(), json!([container]));
    let mut put = |key: &str, value: Value, wanted: bool| {
        if wanted {
            spec.insert(key.to_owned(), value);
        }
    };
    put("nodeName", json!(workload.on), workload.on.is_some());
    put("nodeSelector", json!(workload.selector), !workload.selector.is_empty());
    let tolerations = workload
        .tolerations
        .iter()
        .map(|(key, value)| json!({"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}));
    put("tolerations", tolerations.collect(), !workload.tolerations.is_empty());
    let spread = workload.spread.iter().map(|s| {
        json!({
            "topologyKey": s.key, "maxSkew": s.skew, "whenUnsatisfiable": if s.hard { "DoNotSchedule" } else { "ScheduleAnyway" },
            "labelSelector": {"matchLabels": s.labels},
        })
    });
    put("topologySpreadConstraints", spread.collect(), !workload.spread.is_empty());
    let affinity = affinity(workload);
    let some = affinity.as_object().is_some_and(|a| !a.is_empty());
    put("affinity", affinity, some);
    Value::Object(spec)
}

fn affinity(workload: &Workload) -> Value {
    let mut affinity = json!({});
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    if !workload.required.is_empty() || !workload.preferred.is_empty() {
        affinity["nodeAffinity"] = json!({});
    }
    let expressions =
        |terms: &[Term]| json!({"matchExpressions": terms.iter().map(term).collect::<Vec<_>>()});
    if !workload.required.is_empty() {
        let terms: Vec<Value> = workload.required.iter().map(|terms| expressions(terms)).collect();
        affinity["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
    }
    if !workload.preferred.is_empty() {
        let terms = workload.preferred.iter().map(
            |(weight, term)| json!({"weight": weight, "preference": expressions(std::slice::from_ref(term))}),
        );
        affinity["nodeAffinity"][preferred] = terms.collect();
    }
    for (apart, key) in [(false, "podAffinity"), (true, "podAntiAffinity")] {
        let of = |t: &Together| json!({"topologyKey": t.key, "labelSelector": {"matchLabels": t.labels}});
        let own: Vec<&Together> = workload.affinity.iter().filter(|t| t.apart == apart).collect();
        let hard: Vec<Value> = own.iter().filter(|t| t.weight.is_none()).map(|t| of(t)).collect();
        let soft: Vec<Value> =
            own.iter().filter_map(|t| Some(json!({"weight": t.weight?, "podAffinityTerm": of(t)}))).collect();
        if !hard.is_empty() {
            affinity[key][required] = json!(hard);
        }
        if !soft.is_empty() {
            affinity[key][preferred] = json!(soft);
        }
    }
    affinity
}

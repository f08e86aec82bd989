//! Constraints that decide where pods may run, and the real scheduler's verdict on every placement that was planned: it must
//! find room for each pod on the nodes of the first decision, so that no pod ever causes a second node.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use integration::kubernetes::api_of;
use integration::workload::Workload;
use integration::{Service, Stack, Test, test};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};
use model::labels;
use serde_json::{Value, json};

use crate::provisioning::{services, stop};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning_placement", alone, pods_for_gpus_get_nodes_of_the_tainted_pool_and_others_do_not),
        test!("provisioning_placement", alone, the_scheduler_agrees_with_every_planned_placement),
    ]
}

fn label(nodes: &BTreeMap<String, Node>, node: &str, key: &str) -> String {
    nodes.get(node).and_then(|n| n.labels().get(key).cloned()).unwrap_or_default()
}

const GPU: &str = "nvidia.com/gpu";

// Cases: SCH-A.6-5
async fn pods_for_gpus_get_nodes_of_the_tainted_pool_and_others_do_not(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let pool = json!({
        "limits": {GPU: "4"},
        "template": {"spec": {
            "taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}],
            "requirements": [
                {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
                {"key": labels::INSTANCE_CATEGORY, "operator": "In", "values": ["g", "p"]},
                {"key": labels::INSTANCE_GPU_COUNT, "operator": "Gt", "values": ["0"]},
            ],
        }},
    });
    let gpus = Workload::new(&stack, "gpus", pool, json!({})).await?;
    let tolerates = json!({
        "tolerations": [{"key": GPU, "operator": "Exists"}],
        "containers": [{"name": "app", "image": "pause", "resources": {
            "requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"},
        }}],
    });
    gpus.deploy("train", 2, "1", tolerates).await?;
    gpus.deploy("plain", 1, "1", json!({})).await?;
    let used = gpus.running("train", 2).await?;
    let nodes = gpus.nodes().await?;
    for node in &used {
        let count: u32 =
            label(&nodes, node, labels::INSTANCE_GPU_COUNT).parse().context("a number of GPUs")?;
        ensure!(count >= 1, "{node} has no GPU");
        ensure!(!label(&nodes, node, labels::INSTANCE_GPU_NAME).is_empty(), "{node} does not name its GPU");
    }
    let class: BTreeSet<String> =
        gpus.claims().await?.iter().filter_map(|c| c.status.as_ref()?.image_id.clone()).collect();
    ensure!(class.len() == 1, "GPU nodes of one architecture boot from one image: {class:?}");
    let plain = gpus.pods().list(&ListParams::default().labels("app=plain")).await?.items;
    ensure!(
        plain.iter().all(|pod| pod.spec.as_ref().is_some_and(|s| s.node_name.is_none())),
        "an untolerating pod runs"
    );
    gpus.remove().await?;
    stop(&stack, &running)
}

/// A volume that is in one zone, and the claim that is bound to it.
async fn zonal_volume(workload: &Workload, name: &str, zone: &str) -> Result<()> {
    let volume = format!("{}-{name}", workload.name);
    let capacity = json!({"storage": "1Gi"});
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {
                "capacity": capacity, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{volume}")},
                "claimRef": {"namespace": workload.name, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": labels::ZONE, "operator": "In", "values": [zone]},
                ]}]}},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": workload.name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
                "resources": {"requests": capacity},
            },
        }),
    ];
    for object in objects {
        let api = api_of(&workload.client, &object).await?;
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    Ok(())
}

fn same(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

/// One rule and the pods that are under it: name, replicas, cpu, and what is merged into their spec.
struct Rule {
    name: &'static str,
    apps: Vec<(&'static str, u32, &'static str, Value)>,
}

/// Each rule has a pool to itself: pods that may run anywhere would take the room of those that may not, in whatever order the
/// scheduler likes.
fn rules() -> Vec<Rule> {
    let spread = |app: &str, key: &str, skew: u32| {
        json!({"topologySpreadConstraints": [{"maxSkew": skew, "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": same(app)}]})
    };
    let term = |app: &str, key: &str| json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": same(app), "topologyKey": key}]});
    let volume =
        |claim: &str| json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]});
    let arch = |name: &str| json!({"nodeSelector": {labels::ARCH: name}});
    let apart = json!({"affinity": {"podAntiAffinity": term("apart", labels::HOSTNAME)}});
    let together = json!({"affinity": {"podAffinity": term("together", labels::ZONE)}});
    vec![
        Rule {
            name: "arch",
            apps: vec![("arm", 6, "700m", arch("arm64")), ("amd", 6, "700m", arch("amd64"))],
        },
        Rule { name: "zones", apps: vec![("zones", 9, "400m", spread("zones", labels::ZONE, 1))] },
        Rule { name: "hosts", apps: vec![("hosts", 6, "250m", spread("hosts", labels::HOSTNAME, 2))] },
        Rule { name: "apart", apps: vec![("apart", 5, "200m", apart)] },
        Rule { name: "together", apps: vec![("together", 6, "600m", together)] },
        Rule {
            name: "volumes",
            apps: vec![
                ("vol-a", 1, "500m", volume("vol-a")),
                ("vol-b", 1, "500m", volume("vol-b")),
                ("vol-c", 1, "500m", volume("vol-c")),
            ],
        },
    ]
}

// Cases: SCH-A.7-2, SCH-A.7-13
async fn the_scheduler_agrees_with_every_planned_placement(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let rules = rules();
    let mut workloads = Vec::new();
    for rule in &rules {
        let workload = Workload::new(&stack, rule.name, json!({}), json!({})).await?;
        if rule.name == "volumes" {
            for (name, zone) in [("vol-a", "us-west-2a"), ("vol-b", "us-west-2b"), ("vol-c", "us-west-2c")] {
                zonal_volume(&workload, name, zone).await?;
            }
        }
        workloads.push(workload);
    }
    for (rule, workload) in rules.iter().zip(&workloads) {
        for (name, replicas, cpu, spec) in &rule.apps {
            workload.deploy(name, *replicas, cpu, spec.clone()).await?;
        }
    }
    let mut placed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (rule, workload) in rules.iter().zip(&workloads) {
        for (name, replicas, ..) in &rule.apps {
            placed.insert(name, workload.running(name, *replicas as usize).await?);
        }
    }
    let nodes = workloads[0].all_nodes().await?;
    let zones = |app: &str| {
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        placed[app].iter().for_each(|n| *all.entry(label(&nodes, n, labels::ZONE)).or_default() += 1);
        all
    };
    for (app, name) in [("arm", "arm64"), ("amd", "amd64")] {
        ensure!(
            placed[app].iter().all(|n| label(&nodes, n, labels::ARCH) == name),
            "{app}: {:?}",
            placed[app]
        );
    }
    for (app, zone) in [("vol-a", "us-west-2a"), ("vol-b", "us-west-2b"), ("vol-c", "us-west-2c")] {
        ensure!(zones(app).keys().eq([zone]), "{app} runs in {:?}", zones(app));
    }
    let spread = zones("zones");
    let skew = spread.values().max().zip(spread.values().min()).map(|(most, least)| most - least);
    ensure!(skew.is_some_and(|skew| skew <= 1), "{spread:?}");
    ensure!(zones("together").len() == 1, "{:?}", zones("together"));
    let hosts: BTreeSet<&String> = placed["apart"].iter().collect();
    ensure!(hosts.len() == 5, "two of them share a node: {:?}", placed["apart"]);
    for workload in &workloads {
        disagreements(workload, &running[1]).await?;
    }
    for workload in &workloads {
        workload.remove().await?;
    }
    stop(&stack, &running)
}

/// A pod that the scheduler does not find room for where the plan had it is planned for again, and is then promised to two
/// claims: there must be none. Nor may it run on a node that nobody made for it.
async fn disagreements(workload: &Workload, provisioner: &Service) -> Result<()> {
    let claims = workload.claims().await?;
    let created = provisioner
        .metric("karpenter_nodeclaims_created_total", &format!("nodepool=\"{}\"", workload.name))?;
    ensure!(created as usize == claims.len(), "{created} claims were made, {} are left", claims.len());
    let short = |uid: &str| uid.chars().filter(|c| *c != '-').take(10).collect::<String>();
    let mut promised: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for claim in &claims {
        let pods = claim.annotations().get(labels::NOMINATED_PODS).cloned().unwrap_or_default();
        for uid in pods.split(',').filter(|uid| !uid.is_empty()) {
            promised.entry(uid.to_owned()).or_default().push(claim.name_any());
        }
    }
    let twice: Vec<_> = promised.iter().filter(|(_, claims)| claims.len() > 1).collect();
    ensure!(twice.is_empty(), "nodes were made twice for the same pods: {twice:?}");
    let pods: Vec<Pod> = workload.pods().list(&ListParams::default()).await?.items;
    let nodes = workload.nodes().await?;
    let ours = |pod: &&Pod| {
        pod.spec.as_ref().and_then(|s| s.node_name.as_ref()).is_some_and(|n| nodes.contains_key(n))
    };
    ensure!(
        pods.iter().filter(ours).count() == pods.len(),
        "a pod runs on a node that was not made for these"
    );
    let planned = pods.iter().filter(|p| promised.contains_key(&short(&p.uid().unwrap_or_default()))).count();
    ensure!(planned > 0, "no pod was promised a node");
    Ok(())
}

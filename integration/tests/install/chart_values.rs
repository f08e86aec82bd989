//! Values that people have for Karpenter's chart mean the same here, and what the chart promises beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory as _, Parser};
use integration::helm::{self, render};
use integration::rpc::binary;
use integration::{Stack, Test, test};
use runtime::Service;
use serde_json::{Value, json};

use crate::charts::{SETS, values};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("chart_values", settings_reach_every_service_under_the_name_it_reads),
        test!("chart_values", resources_of_the_controller_are_shared_out),
        test!("chart_values", a_service_s_own_value_is_stronger_than_the_umbrella_s),
        test!("chart_values", no_pod_of_ours_may_go_to_a_node_of_a_pool),
        test!("chart_values", people_find_pods_containers_and_metrics_where_they_look),
        test!("chart_values", pods_are_locked_down),
    ]
}

/// Rendered Deployments by service.
fn deployments(objects: &[Value]) -> BTreeMap<String, Value> {
    let found = objects.iter().filter(|object| object["kind"] == "Deployment");
    found
        .map(|object| {
            let service = object["metadata"]["labels"]["app.kubernetes.io/component"].as_str();
            (service.unwrap_or_default().to_owned(), object.clone())
        })
        .collect()
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn variables(deployment: &Value) -> BTreeMap<String, Option<String>> {
    let listed = container(deployment)["env"].as_array().cloned().unwrap_or_default();
    listed
        .iter()
        .map(|each| {
            (each["name"].as_str().unwrap_or_default().to_owned(), each["value"].as_str().map(str::to_owned))
        })
        .collect()
}

#[derive(Parser)]
struct Everywhere {
    #[command(flatten)]
    _process: runtime::ProcessConfig,
    #[command(flatten)]
    _settings: runtime::Settings,
}

/// Every variable a service reads: those of all services from their own definition, its own from its help.
fn read_by(service: Service) -> Result<BTreeSet<String>> {
    let command = Everywhere::command();
    let everywhere = command.get_arguments().filter_map(|argument| argument.get_env());
    let mut names: BTreeSet<String> = everywhere.map(|name| name.to_string_lossy().into_owned()).collect();
    let help = Command::new(binary(service.as_str())?).arg("--help").env_clear().output()?;
    let help = String::from_utf8(help.stdout)?;
    names.extend(
        help.split("[env: ").skip(1).filter_map(|rest| Some(rest.split(['=', ']']).next()?.to_owned())),
    );
    Ok(names)
}

async fn settings_reach_every_service_under_the_name_it_reads(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    for set in SETS {
        for (service, deployment) in deployments(&render(&stack, "karpenter", &["--values", &values(set)])?) {
            let service =
                Service::ALL.into_iter().find(|each| each.as_str() == service).context("a service")?;
            let known = read_by(service)?;
            for name in variables(&deployment).keys() {
                // Given by the values file, for the SDK or as an example.
                let foreign = name.starts_with("AWS_") || name == "LOG_FORMAT_NOTE";
                ensure!(foreign || known.contains(name), "{set}: {service} does not read {name}");
            }
        }
    }
    let rendered = deployments(&render(&stack, "karpenter", &["--values", &values("migrating")])?);
    ensure!(rendered.len() == 5, "{} services", rendered.len());
    for (service, deployment) in &rendered {
        let given = variables(deployment);
        for (name, value) in [
            ("CLUSTER_NAME", "demo"),
            ("CLUSTER_ENDPOINT", "https://example.com"),
            ("INTERRUPTION_QUEUE", "demo"),
            ("BATCH_MAX_DURATION", "15s"),
            ("BATCH_IDLE_DURATION", "2s"),
            ("VM_MEMORY_OVERHEAD_PERCENT", "0.05"),
            ("RESERVED_ENIS", "1"),
            ("PREFERENCE_POLICY", "Ignore"),
            ("MIN_VALUES_POLICY", "BestEffort"),
            ("ISOLATED_VPC", "true"),
            ("IGNORE_DRA_REQUESTS", "true"),
            ("LOG_LEVEL", "debug"),
            // Below the 60 s that the pod gets.
            ("SHUTDOWN_GRACE", "50s"),
        ] {
            let found = given.get(name).cloned().flatten();
            ensure!(found.as_deref() == Some(value), "{service}: {name} is {found:?}, not {value}");
        }
        let gates = given.get("FEATURE_GATES").cloned().flatten().unwrap_or_default();
        let gates: runtime::FeatureGates = gates.parse().map_err(anyhow::Error::msg)?;
        ensure!(gates.node_repair && gates.spot_to_spot_consolidation && gates.reserved_capacity);
        ensure!(!gates.node_overlay && !gates.static_capacity);
    }
    // What the reference's chart cannot say: false and 0 are values like any other.
    let off = [
        "--values",
        &values("minimal"),
        "--set",
        "settings.ignoreDRARequests=false,settings.vmMemoryOverheadPercent=0",
    ];
    for (service, deployment) in deployments(&render(&stack, "karpenter", &off)?) {
        let given = variables(&deployment);
        ensure!(given["IGNORE_DRA_REQUESTS"].as_deref() == Some("false"), "{service}");
        ensure!(given["VM_MEMORY_OVERHEAD_PERCENT"].as_deref() == Some("0"), "{service}");
    }
    Ok(())
}

async fn resources_of_the_controller_are_shared_out(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let rendered = deployments(&render(&stack, "karpenter", &["--values", &values("tutorial")])?);
    let mut total = (0, 0);
    for (service, deployment) in &rendered {
        let resources = &container(deployment)["resources"];
        let number = |name: &str, unit: &str| {
            let text = resources["requests"][name].as_str().unwrap_or_default();
            text.strip_suffix(unit).and_then(|text| text.parse::<u32>().ok())
        };
        let cpu = number("cpu", "m").with_context(|| format!("{service}: {resources}"))?;
        let memory = number("memory", "Mi").with_context(|| format!("{service}: {resources}"))?;
        total = (total.0 + cpu, total.1 + memory);
        ensure!(resources["limits"] == json!({"cpu": 1, "memory": "1Gi"}), "{service}: {resources}");
    }
    ensure!(total.0 == 1000, "1 CPU became {}m", total.0);
    // Each share is rounded down to a whole MiB.
    ensure!((1019..=1024).contains(&total.1), "1 GiB became {} MiB", total.1);
    Ok(())
}

async fn a_service_s_own_value_is_stronger_than_the_umbrella_s(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let objects = render(&stack, "karpenter", &["--values", &values("everything")])?;
    let rendered = deployments(&objects);
    ensure!(!rendered.contains_key("interruption-watcher"), "a service that is switched off is rendered");
    let image =
        |service: &str| container(&rendered[service])["image"].as_str().unwrap_or_default().to_owned();
    ensure!(
        image("disruption") == "registry.example/mirror/karpenter-disruption:1.2.3",
        "{}",
        image("disruption")
    );
    ensure!(
        image("termination") == "registry.example/mirror/karpenter-termination:1.2.4",
        "{}",
        image("termination")
    );
    ensure!(
        image("pricing-cache").starts_with("registry.example/own/prices:1.2.3@sha256:0123"),
        "{}",
        image("pricing-cache")
    );
    ensure!(
        rendered["provisioner"]["spec"]["replicas"].is_null(),
        "the autoscaler and the chart would fight"
    );
    ensure!(rendered["disruption"]["spec"]["replicas"] == 1);
    let autoscalers = objects.iter().filter(|object| object["kind"] == "HorizontalPodAutoscaler").count();
    ensure!(autoscalers == 2, "{autoscalers} autoscalers");
    let account = objects.iter().find(|object| {
        object["kind"] == "ServiceAccount" && object["metadata"]["name"] == "karpenter-termination"
    });
    let role =
        &account.context("termination's account")?["metadata"]["annotations"]["eks.amazonaws.com/role-arn"];
    ensure!(role == "arn:aws:iam::111122223333:role/termination", "{role}");
    // One role for all, as people have it, is on every account.
    let objects = render(&stack, "karpenter", &["--values", &values("migrating")])?;
    let with_role = objects.iter().filter(|object| {
        object["kind"] == "ServiceAccount"
            && object["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].is_string()
    });
    ensure!(with_role.count() == 5);
    Ok(())
}

async fn no_pod_of_ours_may_go_to_a_node_of_a_pool(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let never = json!({"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"});
    for set in SETS {
        for (service, deployment) in deployments(&render(&stack, "karpenter", &["--values", &values(set)])?) {
            let terms = &deployment["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                ["nodeSelectorTerms"];
            let terms = terms.as_array().cloned().unwrap_or_default();
            let all = terms.iter().all(|term| {
                term["matchExpressions"].as_array().is_some_and(|expressions| expressions.contains(&never))
            });
            ensure!(!terms.is_empty() && all, "{set}: {service} may go to {terms:?}");
        }
    }
    Ok(())
}

async fn people_find_pods_containers_and_metrics_where_they_look(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let monitoring = ["--values", &values("tutorial"), "--api-versions", "monitoring.coreos.com/v1"];
    let objects = render(&stack, "karpenter", &monitoring)?;
    let rendered = deployments(&objects);
    ensure!(rendered["provisioner"]["metadata"]["name"] == "karpenter", "deployment/karpenter is missing");
    for (service, deployment) in &rendered {
        ensure!(container(deployment)["name"] == "controller", "{service}");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        ensure!(labels["app.kubernetes.io/name"] == "karpenter", "{service}: {labels}");
        let service_object = objects.iter().find(|object| {
            object["kind"] == "Service" && object["metadata"]["name"] == format!("karpenter-{service}")
        });
        let object = service_object.with_context(|| format!("no Service of {service}"))?;
        ensure!(object["metadata"]["labels"]["app.kubernetes.io/name"] == "karpenter");
        let ports = object["spec"]["ports"].as_array().context("ports")?;
        ensure!(ports.iter().any(|port| port["name"] == "http-metrics" && port["port"] == 8080), "{ports:?}");
        ensure!(
            object["spec"]["selector"]
                .as_object()
                .is_some_and(|selector| { selector.iter().all(|(key, value)| labels[key] == *value) })
        );
    }
    let monitor =
        objects.iter().find(|object| object["kind"] == "ServiceMonitor").context("ServiceMonitor")?;
    ensure!(monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "karpenter");
    ensure!(monitor["spec"]["endpoints"][0]["port"] == "http-metrics");
    let without = render(&stack, "karpenter", &["--values", &values("tutorial")])?;
    ensure!(!without.iter().any(|object| object["kind"] == "ServiceMonitor"), "the cluster has no such kind");
    Ok(())
}

async fn pods_are_locked_down(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let objects = render(&stack, "karpenter", &["--values", &values("minimal")])?;
    for (service, deployment) in deployments(&objects) {
        let context = &container(&deployment)["securityContext"];
        let expected = json!({
            "privileged": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "capabilities": {"drop": ["ALL"]},
        });
        ensure!(*context == expected, "{service}: {context}");
        let pod = &deployment["spec"]["template"]["spec"];
        ensure!(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "{service}");
        ensure!(pod["hostNetwork"].is_null(), "{service}");
    }
    for kind in ["PodDisruptionBudget", "NetworkPolicy", "ServiceAccount"] {
        let count = objects.iter().filter(|object| object["kind"] == kind).count();
        ensure!(count >= 5, "{count} objects of kind {kind}");
    }
    // No secret is shared, so none is made.
    ensure!(!objects.iter().any(|object| object["kind"] == "Secret"));
    Ok(())
}

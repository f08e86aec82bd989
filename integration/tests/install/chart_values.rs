//! Values that people have for Karpenter's chart mean the same here, and what the chart adds to them.

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
        test!("chart_values", a_service_s_own_value_takes_precedence_over_the_umbrella_s),
        test!("chart_values", no_pod_of_ours_may_go_to_a_node_of_a_pool),
        test!("chart_values", people_find_pods_containers_and_metrics_where_they_look),
        test!("chart_values", pods_are_locked_down),
        test!("chart_values", kubectl_follows_the_logs_of_all_pods_with_default_values),
        test!("chart_values", one_account_of_the_cluster_serves_all_services),
        test!("chart_values", services_on_the_host_s_network_have_ports_of_their_own),
        test!("chart_values", alerts_and_dashboards_come_with_the_chart),
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

async fn a_service_s_own_value_takes_precedence_over_the_umbrella_s(stack: Stack) -> Result<()> {
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
    let role = "serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=arn:aws:iam::111122223333:role/all";
    let objects = render(&stack, "karpenter", &["--values", &values("minimal"), "--set", role])?;
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
        // Scrapers find the metrics of all services behind one Service, and of each pod only there.
        for (name, port, number) in
            [("karpenter".to_owned(), "http-metrics", 8080), (format!("karpenter-{service}"), "grpc", 9090)]
        {
            let found = objects
                .iter()
                .find(|object| object["kind"] == "Service" && object["metadata"]["name"] == name.as_str());
            let object = found.with_context(|| format!("no Service {name}"))?;
            ensure!(object["metadata"]["labels"]["app.kubernetes.io/name"] == "karpenter");
            let ports = &object["spec"]["ports"];
            ensure!(ports[0]["name"] == port && ports[0]["port"] == number && ports[1].is_null(), "{ports}");
            let selector = object["spec"]["selector"].as_object().context("a selector")?;
            ensure!(selector.iter().all(|(key, value)| labels[key] == *value), "{name}: {selector:?}");
        }
    }
    // The selector of the provisioner's Deployment is Karpenter's own, and matches no pod of another service.
    let selector = &rendered["provisioner"]["spec"]["selector"]["matchLabels"];
    let karpenter_s =
        json!({"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"});
    ensure!(*selector == karpenter_s, "{selector}");
    for (service, deployment) in rendered.iter().filter(|(service, _)| *service != "provisioner") {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        ensure!(labels["app.kubernetes.io/instance"] != "karpenter", "{service}: {labels}");
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

/// kubectl follows at most 5 pods by a selector.
async fn kubectl_follows_the_logs_of_all_pods_with_default_values(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let pods = |objects: &[Value]| -> u64 {
        deployments(objects).values().filter_map(|each| each["spec"]["replicas"].as_u64()).sum()
    };
    let ours = ["--values", &values("minimal")];
    ensure!(pods(&render(&stack, "karpenter", &ours)?) == 5);
    for (profile, count) in [("small", 5), ("highly-available", 10)] {
        let profile = helm::chart("karpenter").join("profiles").join(format!("{profile}.yaml"));
        let profile = ["--values", profile.to_str().context("a path in UTF-8")?];
        let found = pods(&render(&stack, "karpenter", &[ours, profile].concat())?);
        ensure!(found == count, "{profile:?}: {found} pods");
    }
    Ok(())
}

async fn one_account_of_the_cluster_serves_all_services(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let file = values("minimal");
    let shared = ["--values", &file, "--set", "serviceAccount.name=karpenter"];
    let objects = render(&stack, "karpenter", &shared)?;
    for (service, deployment) in deployments(&objects) {
        ensure!(deployment["spec"]["template"]["spec"]["serviceAccountName"] == "karpenter", "{service}");
        ensure!(
            variables(&deployment)["SHARED_SERVICE_ACCOUNT"].as_deref() == Some("karpenter"),
            "{service}"
        );
    }
    let accounts = |objects: &[Value]| {
        let accounts = objects.iter().filter(|object| object["kind"] == "ServiceAccount");
        accounts
            .filter_map(|object| Some(object["metadata"]["name"].as_str()?.to_owned()))
            .collect::<Vec<_>>()
    };
    let made = accounts(&objects);
    ensure!(made.iter().filter(|name| *name == "karpenter").count() == 1, "{made:?}");
    ensure!(!made.iter().any(|name| name == "karpenter-termination"), "{made:?}");
    let bindings = objects.iter().filter(|object| {
        let component = &object["metadata"]["labels"]["app.kubernetes.io/component"];
        object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding")) && component.is_string()
    });
    let mut count = 0;
    for binding in bindings {
        ensure!(binding["subjects"][0]["name"] == "karpenter", "{binding}");
        count += 1;
    }
    ensure!(count >= 10, "{count} bindings");
    // One that exists already is not made.
    let existing = [&shared[..], &["--set", "serviceAccount.create=false"]].concat();
    let made = accounts(&render(&stack, "karpenter", &existing)?);
    ensure!(!made.iter().any(|name| name == "karpenter"), "{made:?}");
    Ok(())
}

async fn services_on_the_host_s_network_have_ports_of_their_own(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let objects =
        render(&stack, "karpenter", &["--values", &values("minimal"), "--set", "hostNetwork=true"])?;
    let mut taken = BTreeSet::new();
    for (service, deployment) in deployments(&objects) {
        let given = variables(&deployment);
        for port in container(&deployment)["ports"].as_array().context("ports")? {
            let number = port["containerPort"].as_u64().context("a number")?;
            ensure!(taken.insert(number), "{service}: port {number} is taken twice");
            let variable = match port["name"].as_str() {
                Some("http-metrics") => "METRICS_PORT",
                Some("http") => "HEALTH_PROBE_PORT",
                _ => "GRPC_ADDR",
            };
            let value = given[variable].clone().unwrap_or_default();
            ensure!(value.ends_with(&number.to_string()), "{service}: {variable}={value}, not {number}");
        }
        let policy = &deployment["spec"]["template"]["spec"]["dnsPolicy"];
        ensure!(policy == "ClusterFirstWithHostNet", "{service}: {policy}");
    }
    ensure!(taken.len() == 15, "{taken:?}");
    Ok(())
}

async fn alerts_and_dashboards_come_with_the_chart(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let file = values("everything");
    let known = ["--values", &file, "--api-versions", "monitoring.coreos.com/v1"];
    let objects = render(&stack, "karpenter", &known)?;
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").context("PrometheusRule")?;
    let alerts = rule["spec"]["groups"][0]["rules"].as_array().context("alerts")?;
    ensure!(alerts.iter().any(|alert| alert["alert"] == "KarpenterNoLeader"), "{alerts:?}");
    let boards = objects.iter().filter(|object| object["kind"] == "ConfigMap");
    let boards: Vec<&Value> =
        boards.filter(|map| map["metadata"]["labels"]["grafana_dashboard"] == "1").collect();
    ensure!(boards.len() == 6, "{} dashboards", boards.len());
    for board in boards {
        let data = board["data"].as_object().and_then(|data| data.values().next()?.as_str());
        let board: Value = serde_json::from_str(data.context("a dashboard")?)?;
        ensure!(board["panels"].is_array(), "{board}");
    }
    Ok(())
}

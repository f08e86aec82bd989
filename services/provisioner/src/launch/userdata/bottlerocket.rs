//! Bottlerocket: settings in TOML. The user's sections stay, `settings.kubernetes` is cut down to what the image knows, and
//! what makes the node ours is put over it.

use toml::{Table, Value};

use super::{Boot, Unrenderable, UserData};

/// What `settings.kubernetes` of Bottlerocket holds, besides what we set ourselves.
const KNOWN: &[&str] = &[
    "allowed-unsafe-sysctls",
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-dns-ip",
    "cluster-domain",
    "cluster-name",
    "container-log-max-files",
    "container-log-max-size",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "cpu-cfs-quota-enforced",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "credential-providers",
    "device-ownership-from-security-context",
    "event-burst",
    "event-qps",
    "eviction-hard",
    "eviction-max-pod-grace-period",
    "eviction-soft",
    "eviction-soft-grace-period",
    "hostname-override-source",
    "ids-per-pod",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "kube-api-burst",
    "kube-api-qps",
    "kube-reserved",
    "log-level",
    "max-pods",
    "memory-manager-policy",
    "node-labels",
    "node-taints",
    "pod-pids-limit",
    "registry-burst",
    "registry-qps",
    "seccomp-default",
    "server-tls-bootstrap",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "single-process-oom-kill",
    "static-pods",
    "system-reserved",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "topology-manager-scope",
];

const RAID0_COMMAND: &str = "000-mount-instance-storage";

pub(super) fn render(boot: &Boot) -> Result<UserData, Unrenderable> {
    let own: Table = match boot.custom() {
        Some(text) => {
            text.parse().map_err(|error: toml::de::Error| Unrenderable::Toml(error.message().to_owned()))?
        }
        None => Table::new(),
    };
    let mut settings = match own.get("settings") {
        Some(Value::Table(settings)) => settings.clone(),
        Some(_) => return Err(Unrenderable::Toml("settings is not a table".to_owned())),
        None => Table::new(),
    };
    let mut dropped: Vec<String> = own.keys().filter(|key| *key != "settings").cloned().collect();
    let mut kubernetes = match settings.remove("kubernetes") {
        Some(Value::Table(kubernetes)) => kubernetes,
        Some(_) => return Err(Unrenderable::Toml("settings.kubernetes is not a table".to_owned())),
        None => Table::new(),
    };
    let unknown: Vec<String> =
        kubernetes.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        kubernetes.remove(&key);
        dropped.push(format!("settings.kubernetes.{key}"));
    }
    put_ours(&mut kubernetes, boot);
    settings.insert("kubernetes".to_owned(), Value::Table(kubernetes));
    if boot.raid0 {
        let commands = settings.entry("bootstrap-commands").or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(commands) = commands {
            commands.insert(RAID0_COMMAND.to_owned(), Value::Table(mount_instance_store(boot)));
        }
    }
    let mut document = Table::new();
    document.insert("settings".to_owned(), Value::Table(settings));
    let text = toml::to_string(&document).map_err(|error| Unrenderable::Write(error.to_string()))?;
    Ok(UserData { text, dropped })
}

fn put_ours(kubernetes: &mut Table, boot: &Boot) {
    let kubelet = &boot.kubelet;
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            kubernetes.insert(key.to_owned(), value);
        }
    };
    let text = |value: &str| Value::String(value.to_owned());
    put("cluster-name", Some(text(&boot.cluster_name)));
    put("api-server", Some(text(&boot.endpoint)));
    put("cluster-certificate", boot.ca_bundle.as_deref().map(text));
    put("cluster-dns-ip", boot.first_dns().map(text));
    put("max-pods", kubelet.max_pods.map(|n| Value::Integer(i64::from(n))));
    put("system-reserved", kubelet.system_reserved.as_ref().map(texts));
    put("kube-reserved", kubelet.kube_reserved.as_ref().map(texts));
    put("eviction-hard", kubelet.eviction_hard.as_ref().map(texts));
    put("eviction-soft", kubelet.eviction_soft.as_ref().map(texts));
    let grace = kubelet.eviction_soft_grace_period.as_ref();
    put(
        "eviction-soft-grace-period",
        grace.map(|g| {
            Value::Table(g.iter().map(|(k, v)| (k.clone(), Value::String(v.canonical()))).collect())
        }),
    );
    let seconds = kubelet.eviction_max_pod_grace_period;
    put("eviction-max-pod-grace-period", seconds.map(|n| Value::Integer(i64::from(n))));
    // Bottlerocket wants these two as texts.
    let percent = |value: Option<i32>| value.map(|n| Value::String(n.to_string()));
    put("image-gc-high-threshold-percent", percent(kubelet.image_gc_high_threshold_percent));
    put("image-gc-low-threshold-percent", percent(kubelet.image_gc_low_threshold_percent));
    put("cpu-cfs-quota-enforced", kubelet.cpu_cfs_quota.map(Value::Boolean));
    put_labels(kubernetes, boot);
    put_taints(kubernetes, boot);
}

/// Ours over the user's.
fn put_labels(kubernetes: &mut Table, boot: &Boot) {
    let mut labels = match kubernetes.remove("node-labels") {
        Some(Value::Table(own)) => own,
        _ => Table::new(),
    };
    labels.extend(boot.labels.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))));
    if !labels.is_empty() {
        kubernetes.insert("node-labels".to_owned(), Value::Table(labels));
    }
}

/// Ours in place of the user's: a taint that no NodePool knows of would make every placement wrong.
fn put_taints(kubernetes: &mut Table, boot: &Boot) {
    kubernetes.remove("node-taints");
    let mut taints = Table::new();
    for taint in &boot.taints {
        let value = Value::String(format!("{}:{}", taint.value, taint.effect));
        let list = taints.entry(taint.key.clone()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(value);
        }
    }
    if !taints.is_empty() {
        kubernetes.insert("node-taints".to_owned(), Value::Table(taints));
    }
}

fn texts(values: &std::collections::BTreeMap<String, String>) -> Value {
    Value::Table(values.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect())
}

fn mount_instance_store(boot: &Boot) -> Table {
    let words = |words: &[&str]| Value::Array(words.iter().map(|w| Value::String((*w).to_owned())).collect());
    let bind = if boot.bind_named_directories {
        words(&[
            "apiclient",
            "ephemeral-storage",
            "bind",
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods",
        ])
    } else {
        words(&["apiclient", "ephemeral-storage", "bind"])
    };
    let mut command = Table::new();
    command.insert(
        "commands".to_owned(),
        Value::Array(vec![words(&["apiclient", "ephemeral-storage", "init"]), bind]),
    );
    command.insert("essential".to_owned(), Value::Boolean(true));
    command.insert("mode".to_owned(), Value::String("always".to_owned()));
    command
}

//! The kubelet's command line, for images whose bootstrap takes it as text.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::Boot;

/// `--node-labels="a=b,c=d"`; `None` without labels.
pub(super) fn node_labels(labels: &BTreeMap<String, String>) -> Option<String> {
    pairs("node-labels", Some(labels), "=")
}

/// All flags, in the reference's order, those without a value left out.
pub(super) fn extra_args(boot: &Boot) -> String {
    let kubelet = &boot.kubelet;
    let grace = kubelet
        .eviction_soft_grace_period
        .as_ref()
        .map(|periods| periods.iter().map(|(k, v)| (k.clone(), v.canonical())).collect::<BTreeMap<_, _>>());
    let flags = [
        node_labels(&boot.labels),
        register_with_taints(boot),
        one("max-pods", kubelet.max_pods),
        one("pods-per-core", kubelet.pods_per_core),
        pairs("system-reserved", kubelet.system_reserved.as_ref(), "="),
        pairs("kube-reserved", kubelet.kube_reserved.as_ref(), "="),
        pairs("eviction-hard", kubelet.eviction_hard.as_ref(), "<"),
        pairs("eviction-soft", kubelet.eviction_soft.as_ref(), "<"),
        pairs("eviction-soft-grace-period", grace.as_ref(), "="),
        one("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        one("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        one("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
        one("cpu-cfs-quota", kubelet.cpu_cfs_quota),
    ];
    flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn register_with_taints(boot: &Boot) -> Option<String> {
    let taints: Vec<String> =
        boot.taints.iter().map(|t| format!("{}={}:{}", t.key, t.value, t.effect)).collect();
    (!taints.is_empty()).then(|| format!("--register-with-taints=\"{}\"", taints.join(",")))
}

fn one(name: &str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("--{name}={value}"))
}

fn pairs(name: &str, values: Option<&BTreeMap<String, String>>, between: &str) -> Option<String> {
    let values = values.filter(|values| !values.is_empty())?;
    let all: Vec<String> = values.iter().map(|(key, value)| format!("{key}{between}{value}")).collect();
    Some(format!("--{name}=\"{}\"", all.join(",")))
}

//! Amazon Linux 2023: nodeadm merges the NodeConfigs it finds, later ones over earlier ones, so ours is the last.

use serde_json::{Map, Value, json};

use super::mime::{self, Part};
use super::{Boot, Unrenderable, flags};

const NODE_CONFIG: &str = "application/node.eks.aws";

pub(super) fn render(boot: &Boot) -> Result<String, Unrenderable> {
    let mut parts = match boot.custom() {
        None => Vec::new(),
        Some(text) if mime::is_mime(text) => mime::parts(text)?,
        Some(text) if is_yaml_map(text) => vec![Part::new(NODE_CONFIG, text)],
        Some(text) => vec![Part::new(mime::SHELL, text)],
    };
    let config = node_config(boot)?;
    let yaml = serde_saphyr::to_string(&config).map_err(|error| Unrenderable::Write(error.to_string()))?;
    parts.push(Part::new(
        NODE_CONFIG,
        format!("# Written by the autoscaler; wins over the parts above.\n{yaml}"),
    ));
    Ok(mime::join(&parts))
}

/// A shell script is YAML too, but a text, not a map.
fn is_yaml_map(text: &str) -> bool {
    serde_saphyr::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

fn node_config(boot: &Boot) -> Result<Value, Unrenderable> {
    let cidr = boot.service_cidr.as_ref().ok_or(Unrenderable::NoServiceCidr)?;
    let mut cluster = json!({
        "name": boot.cluster_name,
        "apiServerEndpoint": boot.endpoint,
    });
    if let Some(ca) = &boot.ca_bundle {
        cluster["certificateAuthority"] = json!(ca);
    }
    cluster["cidr"] = json!(cidr);
    let mut kubelet = Map::new();
    let config = kubelet_config(boot)?;
    if !config.is_empty() {
        kubelet.insert("config".to_owned(), Value::Object(config));
    }
    if let Some(labels) = flags::node_labels(&boot.labels) {
        kubelet.insert("flags".to_owned(), json!([labels]));
    }
    let mut spec = json!({"cluster": cluster, "kubelet": kubelet});
    if boot.raid0 {
        spec["instance"] = json!({"localStorage": {"strategy": "RAID0"}});
    }
    Ok(json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}))
}

/// The class's block has the kubelet's own names, so it is passed on as it is.
fn kubelet_config(boot: &Boot) -> Result<Map<String, Value>, Unrenderable> {
    let written =
        serde_json::to_value(&boot.kubelet).map_err(|error| Unrenderable::Write(error.to_string()))?;
    let Value::Object(mut config) = written else {
        return Err(Unrenderable::Write("spec.kubelet is not a map".to_owned()));
    };
    if !boot.taints.is_empty() {
        let taints = boot.taints.iter().map(|taint| {
            let mut entry = json!({"key": taint.key});
            if !taint.value.is_empty() {
                entry["value"] = json!(taint.value);
            }
            entry["effect"] = json!(taint.effect);
            entry
        });
        config.insert("registerWithTaints".to_owned(), taints.collect());
    }
    Ok(config)
}

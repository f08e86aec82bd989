//! NodePools and workloads of the cluster as text for the editor of the what-if view, read with the person's own kubeconfig.

use anyhow::{Context as _, Result, bail};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Sources;

/// Kinds that a plan understands and that people change: kind, group, version, plural, and whether it has a namespace.
const KINDS: [(&str, &str, &str, &str, bool); 7] = [
    ("NodePool", "karpenter.sh", "v1", "nodepools", false),
    ("Deployment", "apps", "v1", "deployments", true),
    ("StatefulSet", "apps", "v1", "statefulsets", true),
    ("DaemonSet", "apps", "v1", "daemonsets", true),
    ("ReplicaSet", "apps", "v1", "replicasets", true),
    ("Job", "batch", "v1", "jobs", true),
    ("NodeOverlay", "karpenter.sh", "v1alpha1", "nodeoverlays", false),
];

/// Names that are offered; any other may be typed.
const MOST_NAMES: u32 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    kind: String,
    /// `name` or `namespace/name`; empty for the names of all.
    #[serde(default)]
    name: String,
}

/// `{"names": […]}` where no name is asked for, else `{"yaml": "…"}`.
pub(super) async fn read(sources: &Sources, asked: &[u8]) -> Result<Value> {
    let Wanted { kind, name } = serde_json::from_slice(asked).context("read the question")?;
    let Some((kind, group, version, plural, namespaced)) = KINDS.into_iter().find(|each| each.0 == kind)
    else {
        bail!("{kind} cannot be loaded; {} can", KINDS.map(|each| each.0).join(", "));
    };
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    let client = sources.connection.client().await?;
    if name.is_empty() {
        let all: Api<DynamicObject> = Api::all_with(client, &resource);
        let listed = all.list_metadata(&ListParams::default().limit(MOST_NAMES)).await;
        let listed = listed.with_context(|| format!("list {plural} with your kubeconfig"))?;
        let names = listed.items.into_iter().map(|each| {
            let name = each.metadata.name.unwrap_or_default();
            each.metadata.namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
        });
        return Ok(json!({"names": names.collect::<Vec<_>>()}));
    }
    let (api, own) = match (name.split_once('/'), namespaced) {
        (Some((namespace, own)), true) => (Api::namespaced_with(client, namespace, &resource), own),
        (None, false) => (Api::all_with(client, &resource), name.as_str()),
        (None, true) => bail!("name the {kind} as namespace/name"),
        (Some(_), false) => bail!("a {kind} has no namespace: give its name alone"),
    };
    let found: DynamicObject =
        api.get(own).await.with_context(|| format!("read {kind} {name} with your kubeconfig"))?;
    let mut object = serde_json::to_value(found)?;
    reduce(&mut object);
    Ok(json!({"yaml": serde_saphyr::to_string(&object).context("write the object as YAML")?}))
}

/// Metadata that the API server writes, and that a plan does not read.
const OF_THE_SERVER: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
    "ownerReferences",
    "finalizers",
];

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What no plan needs of a container; environments often hold secrets, and this page may be on a shared screen.
const OF_CONTAINERS: [&str; 8] =
    ["env", "envFrom", "command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// Leaves what a person would edit.
fn reduce(object: &mut Value) {
    let Value::Object(all) = object else { return };
    all.remove("status");
    if let Some(Value::Object(metadata)) = all.get_mut("metadata") {
        remove(metadata, &OF_THE_SERVER);
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    let Some(Value::Object(pod)) = object.pointer_mut("/spec/template/spec") else { return };
    for containers in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = pod.get_mut(containers) else { continue };
        containers.iter_mut().filter_map(Value::as_object_mut).for_each(|each| remove(each, &OF_CONTAINERS));
    }
}

fn remove(from: &mut Map<String, Value>, keys: &[&str]) {
    keys.iter().for_each(|key| drop(from.remove(*key)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_reduced_to_what_a_person_would_edit() {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "annotations": {LAST_APPLIED: "{}"}, "labels": {"team": "a"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [
                {"name": "c", "env": [{"name": "PASSWORD", "value": "secret"}],
                 "resources": {"requests": {"cpu": "1"}}}]}}},
            "status": {"replicas": 3},
        });
        reduce(&mut object);
        assert_eq!(
            object,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop", "labels": {"team": "a"}},
                "spec": {"replicas": 3, "template": {"spec": {"containers": [
                    {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
            })
        );
        let yaml = serde_saphyr::to_string(&object).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, object, "{yaml}");
    }
}

//! A Pod as it is read from the API server: only the fields that draining looks at. Whole ones of tens of thousands of pods,
//! held until a list is complete, would be most of the memory of the process.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use policy::drain;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BoundPod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    pub(super) node_name: Option<String>,
    pub(super) priority_class_name: Option<String>,
    pub(super) priority: Option<i32>,
    pub(super) containers: Vec<Container>,
    pub(super) termination_grace_period_seconds: Option<i64>,
    pub(super) tolerations: Option<Vec<Toleration>>,
    pub(super) volumes: Option<Vec<Volume>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Container {
    pub(super) resources: Option<ResourceRequirements>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) persistent_volume_claim: Option<ClaimSource>,
    /// That there is one is all that counts: its claim is named after pod and volume.
    pub(super) ephemeral: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimSource {
    pub(super) claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub(super) phase: Option<String>,
    pub(super) start_time: Option<Time>,
    pub(super) conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
}

impl BoundPod {
    /// The pod as draining sees it, and its node; `None` where it has none.
    pub(super) fn resident(&self, shared: &mut residents::Labels) -> Option<(Arc<str>, drain::Pod)> {
        let (spec, status) = (&self.spec, &self.status);
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        let volumes = spec.volumes.iter().flatten().map(|volume| residents::Volume {
            name: &volume.name,
            claim: volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.as_str()),
            ephemeral: volume.ephemeral.is_some(),
        });
        let fields = residents::Fields {
            node_name: spec.node_name.as_deref(),
            priority_class_name: spec.priority_class_name.as_deref(),
            priority: spec.priority,
            size: residents::size(spec.containers.iter().map(|container| container.resources.as_ref())),
            grace_seconds: spec.termination_grace_period_seconds,
            tolerations: spec.tolerations.as_deref().unwrap_or_default(),
            volumes: volumes.collect(),
            phase: status.phase.as_deref(),
            started: status.start_time.as_ref().map(|time| time.0),
            ready: ready.map(|condition| condition.status.as_str()),
        };
        residents::resident(&self.metadata, &fields, shared)
    }
}

/// As that of the whole Pod.
impl Resource for BoundPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <Pod as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <Pod as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <Pod as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_reads_what_the_whole_pod_holds_and_leaves_out_the_rest() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "shop", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "priorityClassName": "high", "priority": 7,
                     "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}},
                                    {"name": "d"}],
                     "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "x"}},
                                 {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                                 {"name": "c", "configMap": {"name": "y"}}]},
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:01Z", "podIPs": [{"ip": "10.0.0.1"}],
                       "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}]},
        });
        let whole: Pod = serde_json::from_value(pod.clone()).unwrap();
        let read: BoundPod = serde_json::from_value(pod).unwrap();
        assert_eq!(read.metadata, whole.metadata);
        assert_eq!(read.spec.node_name.as_deref(), Some("n"));
        let volumes = read.spec.volumes.unwrap();
        let claims: Vec<_> = volumes
            .iter()
            .map(|v| {
                (v.persistent_volume_claim.as_ref().map(|c| c.claim_name.as_str()), v.ephemeral.is_some())
            })
            .collect();
        assert_eq!(claims, [(Some("x"), false), (None, true), (None, false)]);
        assert_eq!(read.status.start_time, whole.status.clone().unwrap().start_time);
        let labels = &mut residents::Labels::default();
        let again: BoundPod = serde_json::from_value(serde_json::to_value(&whole).unwrap()).unwrap();
        assert_eq!(again.resident(labels), residents::pod(&whole, labels), "the same pod either way");
        assert_eq!(BoundPod::url_path(&(), Some("shop")), Pod::url_path(&(), Some("shop")));
        let bare: BoundPod = serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
        assert!(bare.spec.node_name.is_none() && bare.status.phase.is_none());
    }
}

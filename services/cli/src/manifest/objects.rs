//! The objects of the input by kind.

use api::EC2NodeClass;
use api::capacitybuffer::CapacityBuffer;
use api::convert::{FieldPath, Step};
use api::nodeclaim::NodeClaim;
use api::nodeoverlay::NodeOverlay;
use api::nodepool::NodePool;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::sources::Origin;
use super::stream::Failure;

/// An object and where it stood.
#[derive(Clone, Debug)]
pub struct Named<T> {
    pub object: T,
    pub origin: Origin,
}

#[derive(Debug, Default)]
pub struct Objects {
    pub node_pools: Vec<Named<NodePool>>,
    pub node_claims: Vec<Named<NodeClaim>>,
    pub node_classes: Vec<Named<EC2NodeClass>>,
    pub node_overlays: Vec<Named<NodeOverlay>>,
    pub capacity_buffers: Vec<Named<CapacityBuffer>>,
    pub pods: Vec<Named<Pod>>,
    pub nodes: Vec<Named<Node>>,
    pub deployments: Vec<Named<Deployment>>,
    pub replica_sets: Vec<Named<ReplicaSet>>,
    pub stateful_sets: Vec<Named<StatefulSet>>,
    pub jobs: Vec<Named<Job>>,
    pub daemon_sets: Vec<Named<DaemonSet>>,
    pub pod_templates: Vec<Named<PodTemplate>>,
    pub budgets: Vec<Named<PodDisruptionBudget>>,
    pub priority_classes: Vec<Named<PriorityClass>>,
    pub claims: Vec<Named<PersistentVolumeClaim>>,
    pub volumes: Vec<Named<PersistentVolume>>,
    pub storage_classes: Vec<Named<StorageClass>>,
    pub csi_nodes: Vec<Named<CSINode>>,
    pub namespaces: Vec<Named<Namespace>>,
}

impl Objects {
    pub(super) fn add(
        &mut self,
        value: Value,
        origin: Origin,
        ignored: &mut dyn FnMut(String),
    ) -> Result<(), Failure> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        if kind.is_empty() {
            return Err(failure(String::new(), &["kind"], "is missing: is this a Kubernetes object?"));
        }
        if api_version.is_empty() {
            return Err(failure(kind, &["apiVersion"], "is missing"));
        }
        match (group.as_str(), kind.as_str()) {
            ("karpenter.sh", "NodePool") => add(value, &kind, origin, &mut self.node_pools),
            ("karpenter.sh", "NodeClaim") => add(value, &kind, origin, &mut self.node_claims),
            ("karpenter.sh", "NodeOverlay") => add(value, &kind, origin, &mut self.node_overlays),
            ("karpenter.k8s.aws", "EC2NodeClass") => add(value, &kind, origin, &mut self.node_classes),
            ("autoscaling.x-k8s.io", "CapacityBuffer") => {
                add(value, &kind, origin, &mut self.capacity_buffers)
            }
            ("", "Pod") => add(value, &kind, origin, &mut self.pods),
            ("", "Node") => add(value, &kind, origin, &mut self.nodes),
            ("", "PodTemplate") => add(value, &kind, origin, &mut self.pod_templates),
            ("apps", "Deployment") => add(value, &kind, origin, &mut self.deployments),
            ("apps", "ReplicaSet") => add(value, &kind, origin, &mut self.replica_sets),
            ("apps", "StatefulSet") => add(value, &kind, origin, &mut self.stateful_sets),
            ("batch", "Job") => add(value, &kind, origin, &mut self.jobs),
            ("apps", "DaemonSet") => add(value, &kind, origin, &mut self.daemon_sets),
            ("policy", "PodDisruptionBudget") => add(value, &kind, origin, &mut self.budgets),
            ("scheduling.k8s.io", "PriorityClass") => add(value, &kind, origin, &mut self.priority_classes),
            ("", "PersistentVolumeClaim") => add(value, &kind, origin, &mut self.claims),
            ("", "PersistentVolume") => add(value, &kind, origin, &mut self.volumes),
            ("storage.k8s.io", "StorageClass") => add(value, &kind, origin, &mut self.storage_classes),
            ("storage.k8s.io", "CSINode") => add(value, &kind, origin, &mut self.csi_nodes),
            ("", "Namespace") => add(value, &kind, origin, &mut self.namespaces),
            _ => {
                ignored(format!("{api_version} {kind}"));
                Ok(())
            }
        }
    }
}

fn failure(object: String, path: &[&str], problem: &str) -> Failure {
    let path = FieldPath(path.iter().map(|key| Step::Key((*key).to_owned())).collect());
    Failure { item: None, object, path, problem: problem.to_owned() }
}

/// `Kind namespace/name`, as far as the document tells.
fn described(kind: &str, value: &Value) -> String {
    let meta = |key: &str| value.get("metadata").and_then(|m| m.get(key)).and_then(Value::as_str);
    match (meta("namespace"), meta("name")) {
        (_, None) => kind.to_owned(),
        (None, Some(name)) => format!("{kind} {name}"),
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
    }
}

fn check_name(value: &Value, kind: &str) -> Result<(), Failure> {
    let name = value.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(failure(kind.to_owned(), &["metadata", "name"], "is missing"));
    }
    Ok(())
}

fn add<T: DeserializeOwned>(
    value: Value,
    kind: &str,
    origin: Origin,
    list: &mut Vec<Named<T>>,
) -> Result<(), Failure> {
    check_name(&value, kind)?;
    let object = described(kind, &value);
    let read: Result<T, _> = serde_path_to_error::deserialize(value);
    match read {
        Ok(object) => {
            list.push(Named { object, origin });
            Ok(())
        }
        Err(error) => {
            use serde_path_to_error::Segment;
            let steps = error.path().iter().filter_map(|segment| match segment {
                Segment::Seq { index } => Some(Step::Index(*index)),
                Segment::Map { key } => Some(Step::Key(key.clone())),
                Segment::Enum { .. } | Segment::Unknown => None,
            });
            let path = FieldPath(steps.collect());
            Err(Failure { item: None, object, path, problem: error.into_inner().to_string() })
        }
    }
}

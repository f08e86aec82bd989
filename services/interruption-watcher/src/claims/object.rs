//! A NodeClaim as it is read from the API server, with only the fields that matter here: with thousands of claims, the
//! requirements and resources would be most of this process's memory.

use std::borrow::Cow;
use std::sync::Arc;

use api::NodeClaim;
use cloud::instance::id_of_provider;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use model::labels;
use serde::Deserialize;

/// Of kind NodeClaim.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ClaimObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_class_ref: ClassRef,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ClassRef {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, rename = "providerID")]
    provider_id: Option<String>,
    #[serde(default)]
    node_name: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Resource for ClaimObject {
    type DynamicType = ();
    type Scope = <NodeClaim as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        NodeClaim::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        NodeClaim::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        NodeClaim::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        NodeClaim::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What is kept of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// Empty before the launch.
    pub(crate) instance: Arc<str>,
    /// Empty before the node has joined.
    pub(crate) node: Arc<str>,
    pub(crate) nodepool: Arc<str>,
    pub(crate) capacity_type: Arc<str>,
    pub(crate) instance_type: Arc<str>,
    /// Zone name.
    pub(crate) zone: Arc<str>,
    /// Capacity reservation it runs in; empty when in none.
    pub(crate) reservation: Arc<str>,
    /// Of an EC2NodeClass, so ours to end.
    pub(crate) managed: bool,
    pub(crate) deleting: bool,
    pub(crate) initialized: bool,
    /// When its drain stops respecting budgets.
    pub(crate) deadline: Option<Timestamp>,
    /// Context of the node's trace.
    pub(crate) traceparent: Option<Arc<str>>,
    /// Command that it was made for as a replacement.
    pub(crate) command: Option<Arc<str>>,
}

impl Claim {
    /// `None` for an object without name or uid, which the API server does not have.
    pub(crate) fn of(object: &ClaimObject) -> Option<Self> {
        let meta = &object.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let class = &object.spec.node_class_ref;
        let provider_id = object.status.provider_id.as_deref().unwrap_or_default();
        let is_true = |wanted: &str| {
            object.status.conditions.iter().any(|found| found.type_ == wanted && found.status == "True")
        };
        Some(Self {
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
            instance: id_of_provider(provider_id).unwrap_or_default().into(),
            node: object.status.node_name.as_deref().unwrap_or_default().into(),
            nodepool: label(labels::NODEPOOL).into(),
            capacity_type: label(labels::CAPACITY_TYPE).into(),
            instance_type: label(labels::INSTANCE_TYPE).into(),
            zone: label(labels::ZONE).into(),
            reservation: label(labels::CAPACITY_RESERVATION_ID).into(),
            managed: class.group == labels::KARPENTER_AWS_DOMAIN && class.kind == "EC2NodeClass",
            deleting: meta.deletion_timestamp.is_some(),
            initialized: is_true("Initialized"),
            deadline: annotation(labels::TERMINATION_TIMESTAMP).and_then(|at| at.parse().ok()),
            traceparent: annotation(labels::TRACEPARENT).map(|text| text.as_str().into()),
            command: annotation(labels::COMMAND).map(|text| text.as_str().into()),
        })
    }
}

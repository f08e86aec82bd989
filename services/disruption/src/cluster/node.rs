//! A Node, reduced to what decisions about it need.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use model::labels;
use model::quantity::Quantity;
use runtime::watch::Versioned;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: String,
    pub(crate) deleting: bool,
    pub(crate) provider_id: Option<Arc<str>>,
    /// Of an EC2NodeClass: ours to handle.
    pub(crate) managed: bool,
    pub(crate) registered: bool,
    pub(crate) initialized: bool,
    pub(crate) ready: bool,
    /// Only the literal `true` counts on a node.
    pub(crate) do_not_disrupt: bool,
    /// `karpenter.sh/disrupted:NoSchedule` is on it.
    pub(crate) tainted: bool,
    /// Our key with another effect or value: somebody else's mark.
    pub(crate) foreign_taint: Option<String>,
    pub(crate) pool: Option<Arc<str>>,
    pub(crate) instance_type: Option<Arc<str>>,
    pub(crate) zone: Option<Arc<str>>,
    pub(crate) capacity_type: Option<Arc<str>>,
    pub(crate) conditions: Vec<NodeCondition>,
    /// Millicores and bytes that pods may use.
    pub(crate) allocatable: (i64, i64),
}

/// One condition of a node, for repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeCondition {
    pub(crate) type_: Arc<str>,
    pub(crate) status: Arc<str>,
    pub(crate) since: Timestamp,
}

/// The taint as we write it.
pub(crate) fn is_disrupted(taint: &Taint) -> bool {
    taint.key == labels::DISRUPTED_TAINT
        && taint.effect == "NoSchedule"
        && taint.value.as_deref().unwrap_or_default().is_empty()
}

fn is_foreign(taint: &Taint) -> bool {
    taint.key == labels::DISRUPTED_TAINT && !is_disrupted(taint)
}

impl NodeState {
    /// `None` for an object without name or uid, which no API server hands out.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let meta = &node.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let shared = |key: &str| label(key).filter(|value| !value.is_empty()).map(Arc::from);
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let status = node.status.as_ref();
        let written = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let conditions: Vec<NodeCondition> = written
            .iter()
            .map(|condition| NodeCondition {
                type_: condition.type_.as_str().into(),
                status: condition.status.as_str().into(),
                since: condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            })
            .collect();
        let amount = |name: &str| {
            let text = status.and_then(|status| status.allocatable.as_ref()?.get(name));
            text.and_then(|quantity| quantity.0.parse::<Quantity>().ok())
        };
        Some(Self {
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            provider_id: spec
                .and_then(|spec| spec.provider_id.as_deref())
                .filter(|id| !id.is_empty())
                .map(Arc::from),
            managed: label(labels::EC2NODECLASS).is_some(),
            registered: label(labels::REGISTERED) == Some(labels::TRUE),
            initialized: label(labels::INITIALIZED) == Some(labels::TRUE),
            ready: conditions.iter().any(|c| &*c.type_ == "Ready" && &*c.status == "True"),
            do_not_disrupt: annotation(labels::DO_NOT_DISRUPT).is_some_and(|value| value == labels::TRUE),
            tainted: taints.iter().any(is_disrupted),
            foreign_taint: taints.iter().find(|taint| is_foreign(taint)).map(|taint| {
                format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect)
            }),
            pool: shared(labels::NODEPOOL),
            instance_type: shared(labels::INSTANCE_TYPE),
            zone: shared(labels::ZONE),
            capacity_type: shared(labels::CAPACITY_TYPE),
            conditions,
            allocatable: (
                amount("cpu").map_or(0, Quantity::milli_ceil),
                amount("memory").map_or(0, Quantity::value_ceil),
            ),
        })
    }
}

impl Versioned for NodeState {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

//! A Node, reduced to what its removal needs.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use model::labels;
use runtime::watch::Versioned;

use super::joined::Identity;

/// Value and key of the label that takes a node out of external load balancers.
pub(crate) const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
pub(crate) const EXCLUDE_VALUE: &str = "karpenter";

#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: String,
    pub(crate) created: Timestamp,
    pub(crate) deleting: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) provider_id: Option<Arc<str>>,
    /// Of an EC2NodeClass: ours to handle.
    pub(crate) managed: bool,
    pub(crate) ready: bool,
    pub(crate) taints: Vec<Taint>,
    excluded: bool,
    pub(crate) nodepool: Arc<str>,
    pub(crate) zone: Arc<str>,
    pub(crate) traceparent: Option<String>,
}

impl NodeState {
    /// `None` for an object without name or uid, which no API server hands out.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let meta = &node.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
        let spec = node.spec.as_ref();
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        Some(Self {
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            provider_id: spec
                .and_then(|spec| spec.provider_id.as_deref())
                .filter(|id| !id.is_empty())
                .map(Arc::from),
            managed: label(labels::EC2NODECLASS).is_some(),
            ready: conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            excluded: label(EXCLUDE_LABEL).is_some_and(|value| value == EXCLUDE_VALUE),
            nodepool: label(labels::NODEPOOL).map_or("", String::as_str).into(),
            zone: label(labels::ZONE).map_or("", String::as_str).into(),
            traceparent: meta
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(labels::TRACEPARENT).cloned()),
        })
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| name == labels::TERMINATION_FINALIZER)
    }

    /// Ours to take down: managed, being deleted, and waiting for us.
    pub(crate) fn is_leaving(&self) -> bool {
        self.managed && self.deleting.is_some() && self.has_finalizer()
    }

    /// The disrupted taint as it should be, none other of its key, and out of the load balancers.
    pub(crate) fn is_tainted(&self) -> bool {
        let own: Vec<&Taint> =
            self.taints.iter().filter(|taint| taint.key == labels::DISRUPTED_TAINT).collect();
        let right =
            |taint: &&Taint| taint.effect == "NoSchedule" && taint.value.as_deref().unwrap_or("").is_empty();
        own.len() == 1 && own.iter().all(right) && self.excluded
    }

    /// The taints with the disrupted one among them, all others of its key replaced.
    pub(crate) fn with_disrupted_taint(&self) -> Vec<Taint> {
        let others = self.taints.iter().filter(|taint| taint.key != labels::DISRUPTED_TAINT).cloned();
        let own = Taint {
            key: labels::DISRUPTED_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        others.chain([own]).collect()
    }

    pub(crate) fn finalizers_without_ours(&self) -> Vec<String> {
        let ours = labels::TERMINATION_FINALIZER;
        self.finalizers.iter().filter(|name| *name != ours).cloned().collect()
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

impl Identity for NodeState {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn provider_id(&self) -> Option<&Arc<str>> {
        self.provider_id.as_ref()
    }
}

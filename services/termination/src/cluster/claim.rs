//! A NodeClaim, reduced to what its removal needs.

use std::sync::Arc;

use api::NodeClaim;
use api::conditions::{self, Condition, ConditionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::duration::GoDuration;
use model::labels;
use policy::drain::Deadline;
use policy::drain::node::{Drained, Volumes};
use runtime::watch::Versioned;

use super::joined::Identity;

pub(crate) const DRAINED: &str = "Drained";
pub(crate) const VOLUMES_DETACHED: &str = "VolumesDetached";
pub(crate) const INSTANCE_TERMINATING: &str = "InstanceTerminating";
const REGISTERED: &str = "Registered";
const DISRUPTION_REASON: &str = "DisruptionReason";

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: String,
    /// What conditions are judged by: creation, deletion and generation.
    pub(crate) meta: ObjectMeta,
    pub(crate) deleting: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) managed: bool,
    pub(crate) provider_id: Option<Arc<str>>,
    pub(crate) node_name: Option<String>,
    pub(crate) termination_grace_period: Option<GoDuration>,
    pub(crate) deadline: Deadline,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) nodepool: Arc<str>,
    pub(crate) capacity_type: Arc<str>,
    pub(crate) zone: Arc<str>,
    pub(crate) traceparent: Option<String>,
    /// The fleet requests that it shared with other claims.
    pub(crate) batch: Option<String>,
    /// As given to `Terminate`.
    pub(crate) termination_reason: Option<String>,
}

impl Claim {
    pub(crate) fn of(claim: &NodeClaim) -> Option<Self> {
        let meta = &claim.metadata;
        let label =
            |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str);
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|annotations| annotations.get(key));
        let status = claim.status.as_ref();
        let class = &claim.spec.node_class_ref;
        Some(Self {
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            meta: ObjectMeta {
                creation_timestamp: meta.creation_timestamp.clone(),
                generation: meta.generation,
                deletion_timestamp: meta.deletion_timestamp.clone(),
                ..ObjectMeta::default()
            },
            deleting: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            managed: class.group == labels::KARPENTER_AWS_DOMAIN && class.kind == "EC2NodeClass",
            provider_id: status
                .and_then(|status| status.provider_id.as_deref())
                .filter(|id| !id.is_empty())
                .map(Arc::from),
            node_name: status.and_then(|status| status.node_name.clone()),
            termination_grace_period: claim.spec.termination_grace_period.clone(),
            deadline: Deadline::parse(annotation(labels::TERMINATION_TIMESTAMP).map(String::as_str)),
            conditions: status.and_then(|status| status.conditions.clone()).unwrap_or_default(),
            nodepool: label(labels::NODEPOOL).into(),
            capacity_type: label(labels::CAPACITY_TYPE).into(),
            zone: label(labels::ZONE).into(),
            traceparent: annotation(labels::TRACEPARENT).cloned(),
            batch: annotation(labels::LAUNCH_BATCH).cloned(),
            termination_reason: annotation(crate::writes::REASON_ANNOTATION).cloned(),
        })
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|name| name == labels::TERMINATION_FINALIZER)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.managed && self.deleting.is_some() && self.has_finalizer()
    }

    pub(crate) fn finalizers_without_ours(&self) -> Vec<String> {
        let ours = labels::TERMINATION_FINALIZER;
        self.finalizers.iter().filter(|name| *name != ours).cloned().collect()
    }

    pub(crate) fn created(&self) -> Timestamp {
        self.meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    pub(crate) fn is_registered(&self) -> bool {
        conditions::is_true(&self.conditions, REGISTERED)
    }

    pub(crate) fn is_instance_terminating(&self) -> bool {
        conditions::is_true(&self.conditions, INSTANCE_TERMINATING)
    }

    /// Since when a condition has its status.
    pub(crate) fn since(&self, type_: &str) -> Option<Timestamp> {
        conditions::find(&self.conditions, type_).map(|condition| condition.last_transition_time.0)
    }

    pub(crate) fn drained(&self) -> Drained {
        match conditions::find(&self.conditions, DRAINED) {
            None => Drained::NotBegun,
            Some(found) if found.status == ConditionStatus::True => Drained::Done,
            Some(found) => Drained::Since(found.last_transition_time.0),
        }
    }

    pub(crate) fn volumes(&self) -> Volumes {
        match conditions::find(&self.conditions, VOLUMES_DETACHED).map(|found| found.status.clone()) {
            Some(ConditionStatus::True) => Volumes::Detached,
            Some(ConditionStatus::False) => Volumes::Abandoned,
            Some(_) => Volumes::Awaited,
            None => Volumes::NotLooked,
        }
    }

    /// Why it goes, in the word that disruption noted on it.
    pub(crate) fn disruption_reason(&self) -> Option<&str> {
        let found = conditions::find(&self.conditions, DISRUPTION_REASON)?;
        (found.status == ConditionStatus::True).then_some(found.reason.as_str())
    }
}

impl Versioned for Claim {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl Identity for Claim {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn provider_id(&self) -> Option<&Arc<str>> {
        self.provider_id.as_ref()
    }
}

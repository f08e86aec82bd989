//! A NodeClaim, reduced to what decisions about it need. Its requirements are not kept: with hundreds of types they would be
//! most of the memory of a large cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodeClaim;
use api::conditions::{self, Condition, ConditionStatus};
use jiff::Timestamp;
use model::duration::{GoDuration, NillableDuration};
use model::labels;
use runtime::watch::Versioned;

use crate::command_annotation::CommandAnnotation;

pub(crate) const CONSOLIDATABLE: &str = "Consolidatable";
pub(crate) const DRIFTED: &str = "Drifted";
pub(crate) const DISRUPTION_REASON: &str = "DisruptionReason";
const INITIALIZED: &str = "Initialized";
const LAUNCHED: &str = "Launched";
const INSTANCE_TERMINATING: &str = "InstanceTerminating";

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: String,
    pub(crate) created: Timestamp,
    pub(crate) deleting: bool,
    pub(crate) managed: bool,
    pub(crate) provider_id: Option<Arc<str>>,
    pub(crate) image_id: Option<Arc<str>>,
    pub(crate) termination_grace_period: Option<GoDuration>,
    pub(crate) expire_after: NillableDuration,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) last_pod_event: Option<Timestamp>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// Empty where the label is missing.
    pub(crate) pool: Arc<str>,
    pub(crate) class: Arc<str>,
    /// The command that it is to be removed by, as noted on it.
    pub(crate) note: Option<CommandAnnotation>,
    /// The command that it was made for.
    pub(crate) made_for: Option<Arc<str>>,
}

/// Annotations that decisions read; the others are not kept.
const READ: [&str; 10] = [
    labels::NODEPOOL_HASH,
    labels::NODEPOOL_HASH_VERSION,
    labels::EC2NODECLASS_HASH,
    labels::EC2NODECLASS_HASH_VERSION,
    labels::TERMINATION_TIMESTAMP,
    labels::TRACEPARENT,
    labels::COMMAND,
    labels::LAUNCHED_SUBNET,
    labels::LAUNCHED_SECURITY_GROUPS,
    labels::DO_NOT_DISRUPT,
];

impl Claim {
    pub(crate) fn of(claim: &NodeClaim) -> Option<Self> {
        let meta = &claim.metadata;
        let status = claim.status.as_ref();
        let written = meta.annotations.iter().flatten();
        let annotations: BTreeMap<String, String> = written
            .filter(|(key, _)| READ.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let command = annotations.get(labels::COMMAND).map(String::as_str);
        let note = command.and_then(CommandAnnotation::read);
        Some(Self {
            name: meta.name.as_deref()?.into(),
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
            managed: claim.spec.node_class_ref.is_supported(),
            provider_id: status
                .and_then(|status| status.provider_id.as_deref())
                .filter(|id| !id.is_empty())
                .map(Arc::from),
            image_id: status
                .and_then(|status| status.image_id.as_deref())
                .filter(|id| !id.is_empty())
                .map(Arc::from),
            termination_grace_period: claim.spec.termination_grace_period.clone(),
            expire_after: claim.spec.expire_after.clone(),
            conditions: status.and_then(|status| status.conditions.clone()).unwrap_or_default(),
            last_pod_event: status.and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0),
            pool: meta
                .labels
                .as_ref()
                .and_then(|all| all.get(labels::NODEPOOL))
                .map_or("", String::as_str)
                .into(),
            labels: meta.labels.clone().unwrap_or_default(),
            class: claim.spec.node_class_ref.name.as_str().into(),
            made_for: command.filter(|_| note.is_none()).map(Arc::from),
            note,
            annotations,
        })
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The command it belongs to, either way.
    pub(super) fn command(&self) -> Option<Arc<str>> {
        let noted = self.note.as_ref().map(|note| Arc::from(note.id.as_str()));
        noted.or_else(|| self.made_for.clone())
    }

    pub(crate) fn traceparent(&self) -> Option<&str> {
        self.annotation(labels::TRACEPARENT)
    }

    pub(crate) fn is_launched(&self) -> bool {
        conditions::is_true(&self.conditions, LAUNCHED)
    }

    pub(crate) fn is_initialized(&self) -> bool {
        conditions::is_true(&self.conditions, INITIALIZED)
    }

    pub(crate) fn is_instance_terminating(&self) -> bool {
        conditions::is_true(&self.conditions, INSTANCE_TERMINATING)
    }

    pub(crate) fn is_consolidatable(&self) -> bool {
        conditions::is_true(&self.conditions, CONSOLIDATABLE)
    }

    pub(crate) fn is_drifted(&self) -> bool {
        conditions::is_true(&self.conditions, DRIFTED)
    }

    /// Since when a condition is True.
    pub(crate) fn true_since(&self, type_: &str) -> Option<Timestamp> {
        let found = conditions::find(&self.conditions, type_)?;
        (found.status == ConditionStatus::True).then_some(found.last_transition_time.0)
    }

    pub(crate) fn initialized_since(&self) -> Option<Timestamp> {
        self.true_since(INITIALIZED)
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

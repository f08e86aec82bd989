//! What is remembered of a pod only to be shown to people: its phase, its owner, its moments. No decision reads it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use model::resources::Resources;
use tokio::sync::oneshot;

use super::actor::Message;
use super::pods::Shown;
use super::state::State;
use super::{ClusterHandle, pods::Pods};
use crate::observe::{Times, limits};

#[derive(Clone, Debug, Default)]
pub(super) struct PodDisplay {
    phase: &'static str,
    owner: Option<Arc<str>>,
    pub(super) times: Times,
    /// Since when it was ours to place, if it ever was.
    waited: Option<Timestamp>,
    pub(super) limits: Option<Arc<Resources>>,
}

/// One pod for a page of metrics.
#[derive(Clone, Debug)]
pub(crate) struct PodRow {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) owner: Option<Arc<str>>,
    /// Kubernetes' name.
    pub(crate) node: Option<Arc<str>>,
    /// The node as views name it.
    pub(crate) shown_on: Option<Arc<str>>,
    pub(crate) phase: &'static str,
    pub(crate) times: Times,
    pub(crate) waited: Option<Timestamp>,
    /// Waits, and was not part of any decision yet.
    pub(crate) undecided: bool,
}

impl Pods {
    /// `before` is what was known of the same pod.
    pub(super) fn tell(
        &mut self,
        object: &core::Pod,
        before: Option<&PodDisplay>,
        waiting: bool,
        now: Timestamp,
    ) -> PodDisplay {
        let times = Times::of(object);
        let waited = before.and_then(|b| b.waited).or_else(|| waiting.then_some(now));
        if let Some(before) = before {
            self.metrics.went_on(before.times, times, waited);
        }
        let spec = object.spec.as_ref();
        PodDisplay {
            phase: phase(object),
            owner: before.and_then(|b| b.owner.clone()).or_else(|| self.owner(object)),
            times,
            waited,
            limits: before
                .map_or_else(|| spec.and_then(|s| self.shared_limits(s)), |known| known.limits.clone()),
        }
    }

    /// As the reference names owners: the path of the object.
    fn owner(&mut self, object: &core::Pod) -> Option<Arc<str>> {
        let meta = &object.metadata;
        let owner = meta.owner_references.iter().flatten().next()?;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let (version, kind) = (&owner.api_version, owner.kind.to_lowercase());
        let path = format!("/apis/{version}/namespaces/{namespace}/{kind}s/{}", owner.name);
        Some(self.shared(Arc::from(path)))
    }

    /// One allocation for all pods with the same limits.
    fn shared_limits(&mut self, spec: &core::PodSpec) -> Option<Arc<Resources>> {
        let own = limits(spec);
        let written = own.to_string();
        (!own.is_empty()).then(|| Arc::clone(self.limits.entry(written).or_insert_with(|| Arc::new(own))))
    }
}

fn phase(object: &core::Pod) -> &'static str {
    match object.status.as_ref().and_then(|s| s.phase.as_deref()) {
        Some("Running") => "Running",
        Some("Succeeded") => "Succeeded",
        Some("Failed") => "Failed",
        Some("Unknown") => "Unknown",
        _ => "Pending",
    }
}

impl State {
    pub(super) fn rows(&self) -> Vec<PodRow> {
        let row = |key: &super::pods::PodKey, record: &super::pods::Record| PodRow {
            namespace: Arc::clone(&key.namespace),
            name: Arc::clone(&key.name),
            owner: record.told.owner.clone(),
            node: record.pod.node.clone(),
            shown_on: match &record.shown {
                Shown::On(node) if record.pod.node.is_some() => Some(Arc::clone(node)),
                _ => None,
            },
            phase: record.told.phase,
            times: record.told.times,
            waited: record.told.waited,
            undecided: record.waiting_since.is_some() && record.triggered.is_none(),
        };
        self.pods.records.iter().map(|(key, record)| row(key, record)).collect()
    }
}

impl ClusterHandle {
    /// All pods, for metrics. Waits for the actor's answer: never to be called on a task.
    pub(crate) fn pod_rows(&self) -> Vec<PodRow> {
        let (reply, answer) = oneshot::channel();
        match self.inbox.blocking_send(Message::Rows(reply)) {
            Ok(()) => answer.blocking_recv().unwrap_or_default(),
            // The process is ending.
            Err(_) => Vec::new(),
        }
    }
}

//! Carries out one step on one claim. It decides nothing; what it wrote and learned goes back to the actor.

mod deletion;
mod launch;
mod registration;

use std::sync::Arc;

use api::conditions::{self, Finding};
use api::{EC2NodeClass, NodeClaim};
use cloud::Launcher;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::Resource as _;
use model::labels;
use runtime::events::{Event, Recorder};
use serde_json::json;
use tracing::Instrument as _;

use super::decision::{CONSISTENT, INITIALIZED, LAUNCHED, REGISTERED, Shortfall, Step, conditions_of};
use super::index::Name;
use super::metrics::LifecycleMetrics;
use super::tagging::TagHandle;
use super::write::{WriteError, Writer};
use crate::catalog::CatalogHandle;
use crate::cluster::ClusterHandle;
use crate::launch::Launch;
use crate::nodepool::HealthHandle;

/// Everything a step may need.
pub(super) struct Executor {
    pub(super) writer: Writer,
    pub(super) classes: kube::Api<EC2NodeClass>,
    pub(super) launch: Launch,
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) catalog: CatalogHandle,
    pub(super) cluster: ClusterHandle,
    pub(super) recorder: Recorder,
    pub(super) metrics: LifecycleMetrics,
    pub(super) health: HealthHandle,
    pub(super) tags: TagHandle,
}

/// What a step is about.
pub(super) struct Job {
    pub(super) name: Name,
    pub(super) claim: Arc<NodeClaim>,
    pub(super) class: Option<Arc<EC2NodeClass>>,
    pub(super) step: Step,
    pub(super) now: Timestamp,
}

/// What came of it: the objects as they are now, and what is to be remembered.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) claim: Option<NodeClaim>,
    pub(super) node: Option<Node>,
    pub(super) learned: Learned,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Learned {
    #[default]
    Nothing,
    LaunchFailed,
    PartitionUnknown,
    Scanned,
    /// The claim was deleted; its finalizers may still hold it.
    Deleted,
}

impl Outcome {
    fn claim(claim: NodeClaim) -> Self {
        Self { claim: Some(claim), ..Self::default() }
    }

    fn learned(mut self, learned: Learned) -> Self {
        self.learned = learned;
        self
    }

    fn node(mut self, node: Node) -> Self {
        self.node = Some(node);
        self
    }
}

type Done = Result<Outcome, WriteError>;

impl Executor {
    pub(super) async fn carry_out(&self, job: &Job) -> Done {
        match &job.step {
            Step::Leave | Step::Wait(_) => Ok(Outcome::default()),
            Step::Adopt => self.adopt(job).await,
            Step::Launch => {
                let span = tracing::info_span!("launch_nodeclaim", nodeclaim = &*job.name);
                Box::pin(self.launch(job).instrument(continued(span, &job.claim))).await
            }
            Step::GiveUp(expired) => self.give_up(job, *expired).await,
            Step::Note(type_, finding) => self.note(job, &[(*type_, finding.clone())]).await,
            Step::Refresh => self.refresh(job).await,
            Step::FindPartition => self.find_partition(job).await,
            Step::Register(registration) => {
                let span = tracing::info_span!("registration", nodeclaim = &*job.name);
                self.register(job, registration).instrument(continued(span, &job.claim)).await
            }
            Step::Initialize(node) => {
                let span = tracing::info_span!("initialization", nodeclaim = &*job.name);
                self.initialize(job, node).instrument(continued(span, &job.claim)).await
            }
            Step::LabelNode(node) => {
                let class = &job.claim.spec.node_class_ref.name;
                let patch = json!({"metadata": {"labels": {labels::EC2NODECLASS: class}}});
                Ok(Outcome::default().node(self.writer.node(node, &patch).await?))
            }
            Step::Scanned(shortfalls) => self.scanned(job, shortfalls).await,
        }
    }

    async fn adopt(&self, job: &Job) -> Done {
        let class = &job.claim.spec.node_class_ref.name;
        let change = |meta: &mut kube::core::ObjectMeta| {
            let finalizers = meta.finalizers.get_or_insert_default();
            if !finalizers.iter().any(|f| f == labels::TERMINATION_FINALIZER) {
                finalizers.push(labels::TERMINATION_FINALIZER.to_owned());
            }
            let all = meta.labels.get_or_insert_default();
            all.entry(labels::EC2NODECLASS.to_owned()).or_insert_with(|| class.clone());
        };
        Ok(Outcome::claim(self.writer.claim_meta(&job.claim, change).await?))
    }

    async fn note(&self, job: &Job, findings: &[(&'static str, Finding)]) -> Done {
        let claim = self.writer.conditions(&job.claim, findings, job.now).await?;
        Ok(Outcome::claim(claim))
    }

    async fn refresh(&self, job: &Job) -> Done {
        let held = [LAUNCHED, REGISTERED, INITIALIZED];
        let is_true = |type_: &&str| conditions::is_true(conditions_of(&job.claim), type_);
        let findings: Vec<_> =
            held.into_iter().filter(is_true).map(|type_| (type_, Finding::holds())).collect();
        self.note(job, &findings).await
    }

    async fn scanned(&self, job: &Job, shortfalls: &[Shortfall]) -> Done {
        let texts: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
        for text in &texts {
            let event = Event::warning(about(&job.claim), "FailedConsistencyCheck", text.clone());
            self.recorder.publish(event.distinct([text.clone()]));
        }
        let finding = if texts.is_empty() {
            Finding::holds()
        } else {
            Finding::fails("ConsistencyCheckFailed", texts.join("; "))
        };
        self.tags.wanted(&job.claim);
        Ok(self.note(job, &[(CONSISTENT, finding)]).await?.learned(Learned::Scanned))
    }
}

/// The span belongs to the trace of the node's life.
fn continued(span: tracing::Span, claim: &NodeClaim) -> tracing::Span {
    let annotations = claim.metadata.annotations.as_ref();
    if let Some(parent) = annotations.and_then(|all| all.get(labels::TRACEPARENT)) {
        runtime::trace::set_parent(&span, parent);
    }
    span
}

pub(super) fn about(claim: &NodeClaim) -> ObjectReference {
    claim.object_ref(&())
}

fn label<'a>(claim: &'a NodeClaim, key: &str) -> &'a str {
    claim.metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

fn pool_of(claim: &NodeClaim) -> &str {
    label(claim, labels::NODEPOOL)
}

//! Every write to the Kubernetes API, one function each. All are conditional (uid or resourceVersion) and may be repeated:
//! none can hit a namesake or undo somebody else's change.

use std::sync::Arc;

use api::NodeClaim;
use api::conditions::{ConditionSet, Finding};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource};
use model::labels;
use policy::drain;
use policy::drain::node::Mark;
use runtime::flow::Flow;
use runtime::writes::CALL_TIMEOUT;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{
    Claim, DRAINED, EXCLUDE_LABEL, EXCLUDE_VALUE, INSTANCE_TERMINATING, NodeState, VOLUMES_DETACHED,
};

pub(crate) use runtime::writes::Error;

const FIELD_MANAGER: &str = "karpenter-termination";
/// After so many in a row it is left to the next look.
const MOST_CONFLICTS: u32 = 5;
/// Why a claim goes, as given to `Terminate`: kept on the claim so that it survives us.
pub(crate) const REASON_ANNOTATION: &str = "karpenter.sh/termination-reason";

/// What the eviction API said.
#[derive(Debug)]
pub(crate) enum Evicted {
    Yes,
    /// Gone, or another pod of that name.
    NotThere {
        code: u16,
    },
    /// A budget says wait; its own words.
    Refused {
        code: u16,
        words: String,
    },
    Failed {
        code: u16,
        error: String,
    },
}

impl Evicted {
    /// HTTP status; 0 where no answer came.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Yes => 200,
            Self::NotThere { code } | Self::Refused { code, .. } | Self::Failed { code, .. } => *code,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Writes {
    client: Client,
    flow: Arc<Flow>,
    /// For what keeps new pods off a node: never behind thousands of evictions.
    urgent: Arc<Flow>,
}

impl Writes {
    /// `most`: of writes that are on their way at once.
    pub(crate) fn new(client: Client, most: usize) -> Self {
        Self { client, flow: Arc::new(Flow::new(most)), urgent: Arc::new(Flow::new(most)) }
    }

    async fn patched<K>(&self, api: Api<K>, name: &str, patch: Value) -> Result<K, Error>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let (params, patch) = (params(), Patch::Merge(patch));
        self.flow.timely(api.patch(name, &params, &patch)).await
    }

    async fn deleted<K>(&self, api: Api<K>, name: &str, params: DeleteParams) -> Result<Option<K>, Error>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        settled(self.flow.timely(api.delete(name, &params)).await.map(|answer| answer.left()))
    }

    /// Its kubelet and others write to the node all the time: after a conflict it is read and tried again at once, so that no pod
    /// lands meanwhile.
    pub(crate) async fn taint(&self, node: &NodeState) -> Result<Node, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut reread: Option<NodeState> = None;
        for _ in 0..MOST_CONFLICTS {
            let current = reread.as_ref().unwrap_or(node);
            let patch = Patch::Merge(json!({
                "metadata": {
                    "resourceVersion": current.resource_version, "labels": {EXCLUDE_LABEL: EXCLUDE_VALUE},
                },
                "spec": {"taints": current.with_disrupted_taint()},
            }));
            match self.urgent.timely(nodes.patch(&node.name, &params(), &patch)).await {
                Err(Error::Conflict) => {}
                other => return other,
            }
            let found = self.urgent.timely(nodes.get(&node.name)).await?;
            let same = NodeState::of(&found).filter(|found| found.uid == node.uid);
            reread = Some(same.ok_or(Error::Gone)?);
        }
        Err(Error::Conflict)
    }

    /// The node as it is now that it is being deleted; `None`: it is gone.
    pub(crate) async fn delete_node(&self, name: &str, uid: &str) -> Result<Option<Node>, Error> {
        let (nodes, params): (Api<Node>, _) = (Api::all(self.client.clone()), by_uid(uid));
        settled(self.urgent.timely(nodes.delete(name, &params)).await.map(|answer| answer.left()))
    }

    pub(crate) async fn release_node(&self, node: &NodeState) -> Result<Node, Error> {
        let patch = release(&node.resource_version, node.finalizers_without_ours());
        self.patched(Api::all(self.client.clone()), &node.name, patch).await
    }

    pub(crate) async fn delete_claim(&self, name: &str, uid: &str) -> Result<Option<NodeClaim>, Error> {
        self.deleted::<NodeClaim>(Api::all(self.client.clone()), name, by_uid(uid)).await
    }

    pub(crate) async fn stamp_deadline(
        &self,
        claim: &Claim,
        deadline: Timestamp,
    ) -> Result<NodeClaim, Error> {
        self.annotate_claim(claim, [(labels::TERMINATION_TIMESTAMP, rfc3339(deadline))]).await
    }

    pub(crate) async fn annotate_claim(
        &self,
        claim: &Claim,
        annotations: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<NodeClaim, Error> {
        let annotations: serde_json::Map<String, Value> =
            annotations.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
        let patch =
            json!({"metadata": {"resourceVersion": claim.resource_version, "annotations": annotations}});
        self.patched(Api::all(self.client.clone()), &claim.name, patch).await
    }

    pub(crate) async fn release_claim(&self, claim: &Claim) -> Result<NodeClaim, Error> {
        let patch = release(&claim.resource_version, claim.finalizers_without_ours());
        self.patched(Api::all(self.client.clone()), &claim.name, patch).await
    }

    pub(crate) async fn set_conditions(
        &self,
        claim: &Claim,
        marks: &[Mark],
        now: Timestamp,
    ) -> Result<NodeClaim, Error> {
        let mut conditions = claim.conditions.clone();
        for mark in marks {
            let (type_, finding) = condition(*mark);
            ConditionSet::NODE_CLAIM.set(&mut conditions, &claim.meta, type_, finding, now);
        }
        let patch = json!({
            "metadata": {"resourceVersion": claim.resource_version},
            "status": {"conditions": conditions},
        });
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let (params, patch) = (params(), Patch::Merge(patch));
        self.flow.timely(claims.patch_status(&claim.name, &params, &patch)).await
    }

    pub(crate) async fn evict(&self, pod: &drain::Pod) -> Evicted {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = EvictParams { delete_options: Some(by_uid(&pod.uid)), ..EvictParams::default() };
        // A refusal by a budget comes with the same code as "too many requests" and says nothing about the API server.
        // The time for an answer begins with the eviction's turn.
        let call = async { tokio::time::timeout(CALL_TIMEOUT, pods.evict(&pod.name, &params)).await };
        let answer =
            self.flow.pass(call, |answer| !matches!(answer, Ok(Ok(_) | Err(kube::Error::Api(_))))).await;
        match answer {
            Ok(Ok(_)) => Evicted::Yes,
            Ok(Err(kube::Error::Api(status))) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
                let words = if causes.is_empty() { status.message.clone() } else { causes.join("; ") };
                match status.code {
                    code @ (404 | 409) => Evicted::NotThere { code },
                    429 => Evicted::Refused { code: 429, words },
                    500 if status.message.contains("more than one PodDisruptionBudget") => {
                        Evicted::Refused { code: 500, words: status.message.clone() }
                    }
                    code => Evicted::Failed { code, error: status.message.clone() },
                }
            }
            Ok(Err(error)) => Evicted::Failed { code: 0, error: error.to_string() },
            Err(_) => Evicted::Failed { code: 0, error: Error::Timeout.to_string() },
        }
    }

    pub(crate) async fn delete_pod(&self, pod: &drain::Pod, grace_seconds: i64) -> Result<(), Error> {
        let grace = u32::try_from(grace_seconds.max(1)).unwrap_or(u32::MAX);
        let params = DeleteParams { grace_period_seconds: Some(grace), ..by_uid(&pod.uid) };
        self.deleted::<Pod>(Api::namespaced(self.client.clone(), &pod.namespace), &pod.name, params)
            .await
            .map(drop)
    }
}

/// Gone already, or a namesake of another uid: both mean done. An object that finalizers hold comes back.
fn settled<K>(deleted: Result<Option<K>, Error>) -> Result<Option<K>, Error> {
    match deleted {
        Err(Error::Gone | Error::Conflict) => Ok(None),
        other => other,
    }
}

fn condition(mark: Mark) -> (&'static str, Finding) {
    match mark {
        Mark::Draining => (DRAINED, Finding::open("Draining", "Draining")),
        Mark::Drained => (DRAINED, Finding::holds()),
        Mark::AwaitingVolumes => {
            (VOLUMES_DETACHED, Finding::open("AwaitingVolumeDetachment", "AwaitingVolumeDetachment"))
        }
        Mark::VolumesDetached => (VOLUMES_DETACHED, Finding::holds()),
        Mark::VolumesAbandoned => (
            VOLUMES_DETACHED,
            Finding::fails("TerminationGracePeriodElapsed", "TerminationGracePeriodElapsed"),
        ),
        Mark::InstanceTerminating => (INSTANCE_TERMINATING, Finding::holds()),
    }
}

/// Whole seconds, as the reference writes it.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

fn release(resource_version: &str, finalizers: Vec<String>) -> Value {
    json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}})
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn by_uid(uid: &str) -> DeleteParams {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

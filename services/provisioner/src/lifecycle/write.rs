//! Writes to the API server. Lists such as conditions and finalizers have several writers, so a write names the version it was
//! made for; where another was faster, the object is read again and the change made anew.

use std::fmt::Debug;

use api::NodeClaim;
use api::conditions::{ConditionSet, Finding};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::deps::FIELD_MANAGER;

/// More than once or twice means that something writes in a loop; the caller tries again later.
const MOST_CONFLICTS: usize = 6;

#[derive(Clone)]
pub(super) struct Writer {
    claims: Api<NodeClaim>,
    nodes: Api<Node>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The object is gone, or is another one of the same name.
    #[error("the object is gone")]
    Gone,
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

impl Writer {
    pub(super) fn new(client: Client) -> Self {
        Self { claims: Api::all(client.clone()), nodes: Api::all(client) }
    }

    /// `change` edits the metadata; only labels, annotations and finalizers are written.
    pub(super) async fn claim_meta(
        &self,
        claim: &NodeClaim,
        change: impl Fn(&mut ObjectMeta),
    ) -> Result<NodeClaim, WriteError> {
        let edit = |current: &NodeClaim| {
            let mut meta = current.metadata.clone();
            change(&mut meta);
            meta_patch(&current.metadata, &meta)
        };
        patch(&self.claims, claim, Part::Object, edit).await
    }

    /// `change` edits the status; says whether it changed anything.
    pub(super) async fn claim_status(
        &self,
        claim: &NodeClaim,
        change: impl Fn(&mut NodeClaim) -> bool,
    ) -> Result<NodeClaim, WriteError> {
        let edit = |current: &NodeClaim| {
            let mut wanted = current.clone();
            change(&mut wanted).then(|| json!({"status": wanted.status}))
        };
        patch(&self.claims, claim, Part::Status, edit).await
    }

    pub(super) async fn conditions(
        &self,
        claim: &NodeClaim,
        findings: &[(&str, Finding)],
        now: Timestamp,
    ) -> Result<NodeClaim, WriteError> {
        self.claim_status(claim, |wanted| set_conditions(wanted, findings, now)).await
    }

    /// A patch that names its version. A conflict is left to the caller, who made it from the Node as it was.
    pub(super) async fn node(&self, name: &str, patch: &Value) -> Result<Node, WriteError> {
        self.nodes.patch(name, &params(), &Patch::Merge(patch)).await.map_err(gone)
    }

    pub(super) async fn read_node(&self, name: &str) -> Result<Node, WriteError> {
        self.nodes.get(name).await.map_err(gone)
    }

    /// Deletes this very claim; one that is gone already is a success. The claim as it is now, when finalizers hold it.
    pub(super) async fn delete(&self, claim: &NodeClaim) -> Result<Option<NodeClaim>, WriteError> {
        let preconditions = Preconditions { uid: claim.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        match self.claims.delete(name, &params).await.map_err(gone) {
            Ok(answer) => Ok(answer.left()),
            Err(WriteError::Gone) => Ok(None),
            // Another claim of the same name: ours is gone.
            Err(WriteError::Kube(error)) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Says whether anything changed.
pub(super) fn set_conditions(claim: &mut NodeClaim, findings: &[(&str, Finding)], now: Timestamp) -> bool {
    let meta = claim.metadata.clone();
    let list = claim.status.get_or_insert_default().conditions.get_or_insert_default();
    let mut changed = false;
    for (type_, finding) in findings {
        changed |= ConditionSet::NODE_CLAIM.set(list, &meta, type_, finding.clone(), now);
    }
    changed
}

#[derive(Clone, Copy)]
enum Part {
    Object,
    Status,
}

/// `edit` gives the merge patch for the object as it is now, or `None` when it is as wanted.
async fn patch<K>(
    api: &Api<K>,
    known: &K,
    part: Part,
    edit: impl Fn(&K) -> Option<Value>,
) -> Result<K, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let name = known.meta().name.as_deref().unwrap_or_default();
    let mut current = known.clone();
    let mut conflicts = 0;
    loop {
        let Some(mut body) = edit(&current) else { return Ok(current) };
        body["metadata"]["resourceVersion"] = json!(current.meta().resource_version);
        let body = Patch::Merge(body);
        let written = match part {
            Part::Object => api.patch(name, &params(), &body).await,
            Part::Status => api.patch_status(name, &params(), &body).await,
        };
        match written {
            Err(error) if is_conflict(&error) && conflicts < MOST_CONFLICTS => {
                conflicts += 1;
                current = api.get(name).await.map_err(gone)?;
                if current.meta().uid != known.meta().uid {
                    return Err(WriteError::Gone);
                }
            }
            answer => return answer.map_err(gone),
        }
    }
}

fn meta_patch(was: &ObjectMeta, is: &ObjectMeta) -> Option<Value> {
    let mut meta = serde_json::Map::new();
    if was.labels != is.labels {
        meta.insert("labels".to_owned(), json!(is.labels));
    }
    if was.annotations != is.annotations {
        meta.insert("annotations".to_owned(), json!(is.annotations));
    }
    if was.finalizers != is.finalizers {
        meta.insert("finalizers".to_owned(), json!(is.finalizers));
    }
    (!meta.is_empty()).then(|| json!({"metadata": meta}))
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn gone(error: kube::Error) -> WriteError {
    match error {
        kube::Error::Api(status) if status.code == 404 => WriteError::Gone,
        error => WriteError::Kube(error),
    }
}

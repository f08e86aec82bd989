//! Every write to the Kubernetes API, one function each, and the reads that must not come from a watch. All writes are
//! conditional (uid or resourceVersion) and may be repeated: none can hit a namesake or undo somebody else's change. Where
//! another writer was faster, the object is read again and the change made anew.

use std::sync::Arc;

use api::conditions::{Condition, ConditionSet, Finding};
use api::{NodeClaim, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, VersionMatch};
use kube::{Api, Client, Resource};
use model::labels;
use runtime::flow::Flow;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{Claim, is_disrupted};

pub(crate) use runtime::writes::Error;

const FIELD_MANAGER: &str = "karpenter-disruption";
/// More than once or twice means that something writes in a loop; the caller comes again later.
const MOST_CONFLICTS: usize = 6;
/// Calls on their way; fewer while the API server is slow.
const MOST_AT_ONCE: usize = 100;

/// A change of one condition; `None` takes it off.
pub(crate) type Mark = (&'static str, Option<Finding>);

#[derive(Clone)]
pub(crate) struct Writes {
    client: Client,
    flow: Arc<Flow>,
}

/// Name and uid of an object: what a write is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

impl Writes {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, flow: Arc::new(Flow::new(MOST_AT_ONCE)) }
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Puts the disrupted taint on the node, or takes it off. A node that is being deleted keeps what it has.
    pub(crate) async fn taint(&self, node: Target<'_>, on: bool) -> Result<Node, Error> {
        self.edit(&self.nodes(), node, Part::Object, |current: &Node| {
            let taints = current.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            let is_on = taints.iter().any(is_disrupted);
            if is_on == on || (!on && current.metadata.deletion_timestamp.is_some()) {
                return None;
            }
            let mut wanted: Vec<Taint> = taints.into_iter().filter(|taint| !is_disrupted(taint)).collect();
            if on {
                wanted.push(Taint {
                    key: labels::DISRUPTED_TAINT.to_owned(),
                    effect: "NoSchedule".to_owned(),
                    ..Taint::default()
                });
            }
            Some(json!({"spec": {"taints": wanted}}))
        })
        .await
    }

    /// Sets or removes annotations of a claim.
    pub(crate) async fn annotate(
        &self,
        claim: Target<'_>,
        annotations: &[(&str, Option<&str>)],
    ) -> Result<NodeClaim, Error> {
        self.edit(&self.claims(), claim, Part::Object, |current: &NodeClaim| {
            let now = current.metadata.annotations.as_ref();
            let differs = |(key, value): &&(&str, Option<&str>)| {
                now.and_then(|all| all.get(*key)).map(String::as_str) != *value
            };
            let changes: serde_json::Map<String, Value> = annotations
                .iter()
                .filter(differs)
                .map(|(key, value)| {
                    ((*key).to_owned(), value.map_or(Value::Null, |v| Value::String(v.to_owned())))
                })
                .collect();
            (!changes.is_empty()).then(|| json!({"metadata": {"annotations": changes}}))
        })
        .await
    }

    /// Sets conditions, and the time of the last pod event where it is later than what is written.
    pub(crate) async fn mark(
        &self,
        claim: Target<'_>,
        marks: &[Mark],
        pod_event: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<NodeClaim, Error> {
        self.edit(&self.claims(), claim, Part::Status, |current: &NodeClaim| {
            let status = current.status.as_ref();
            let mut conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
            let mut wanted = serde_json::Map::new();
            if apply(ConditionSet::NODE_CLAIM, &mut conditions, &current.metadata, marks, now) {
                wanted.insert("conditions".to_owned(), json!(conditions));
            }
            let known = status.and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0);
            if let Some(at) =
                pod_event.filter(|at| known.is_none_or(|known| known.as_second() < at.as_second()))
            {
                wanted.insert("lastPodEventTime".to_owned(), json!(rfc3339(at)));
            }
            (!wanted.is_empty()).then(|| json!({"status": wanted}))
        })
        .await
    }

    /// Sets or removes conditions of a NodePool.
    pub(crate) async fn mark_pool(
        &self,
        pool: Target<'_>,
        marks: &[Mark],
        now: Timestamp,
    ) -> Result<NodePool, Error> {
        let pools: Api<NodePool> = Api::all(self.client.clone());
        self.edit(&pools, pool, Part::Status, |current: &NodePool| {
            let status = current.status.as_ref();
            let mut conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
            apply(ConditionSet::NODE_POOL, &mut conditions, &current.metadata, marks, now)
                .then(|| json!({"status": {"conditions": conditions}}))
        })
        .await
    }

    /// Gone already, or a namesake of another uid: both mean done. The claim as it is then, if it stays for its finalizers.
    pub(crate) async fn delete_claim(&self, claim: Target<'_>) -> Result<Option<NodeClaim>, Error> {
        match self.delete(claim, None).await {
            Err(Error::Conflict) => Ok(None),
            outcome => outcome,
        }
    }

    /// Only while the command still has it: the claim is read, and deleted in that very version. Taking a command back changes
    /// the claim first, so a deletion that comes late is a conflict. Other changes, such as the time of the last pod event, are
    /// none: it is read again.
    pub(crate) async fn delete_claim_of(
        &self,
        claim: Target<'_>,
        command: &str,
    ) -> Result<Option<NodeClaim>, Error> {
        for _ in 0..MOST_CONFLICTS {
            let current = match self.flow.timely(self.claims().get(claim.name)).await {
                Err(Error::Gone) => return Ok(None),
                other => other?,
            };
            if current.metadata.uid.as_deref() != Some(claim.uid) {
                return Ok(None);
            }
            let state = Claim::of(&current).filter(|state| {
                state.note.as_ref().is_some_and(|note| note.id == command)
                    && state.disruption_reason().is_some()
            });
            let Some(state) = state else { return Err(Error::Conflict) };
            match self.delete(claim, Some(state.resource_version)).await {
                Err(Error::Conflict) => {}
                other => return other,
            }
        }
        Err(Error::Conflict)
    }

    async fn delete(&self, claim: Target<'_>, version: Option<String>) -> Result<Option<NodeClaim>, Error> {
        let preconditions = Preconditions { uid: Some(claim.uid.to_owned()), resource_version: version };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.flow.timely(self.claims().delete(claim.name, &params)).await {
            Ok(answer) => Ok(answer.left()),
            Err(Error::Gone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads, lets `change` say what to patch (nothing: done), and patches that very version.
    async fn edit<K>(
        &self,
        api: &Api<K>,
        target: Target<'_>,
        part: Part,
        change: impl Fn(&K) -> Option<Value>,
    ) -> Result<K, Error>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        for _ in 0..MOST_CONFLICTS {
            let current = self.flow.timely(api.get(target.name)).await?;
            if current.meta().uid.as_deref() != Some(target.uid) {
                return Err(Error::Gone);
            }
            let Some(mut patch) = change(&current) else { return Ok(current) };
            patch["metadata"]["resourceVersion"] = json!(current.meta().resource_version);
            let params =
                PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            let patch = Patch::Merge(patch);
            let answer = match part {
                Part::Object => self.flow.timely(api.patch(target.name, &params, &patch)).await,
                Part::Status => self.flow.timely(api.patch_status(target.name, &params, &patch)).await,
            };
            match answer {
                Err(Error::Conflict) => {}
                other => return other,
            }
        }
        Err(Error::Conflict)
    }

    /// All claims as the API server has them now: the former leader may have written on them what no watch has shown yet.
    pub(crate) async fn all_claims(&self) -> Result<Vec<NodeClaim>, Error> {
        Ok(self.flow.timely(self.claims().list(&ListParams::default())).await?.items)
    }

    /// The pods of a node as the API server has them, at `version` or later, and when they were asked for. Such a list comes from the
    /// server's watch cache on every version of Kubernetes; where the cache is behind, or versions of pods and nodes cannot be
    /// compared (another etcd), the newest list is read, which older servers make from all pods. A server that does not answer is
    /// not asked for that.
    pub(crate) async fn pods_on(
        &self,
        node: &str,
        version: Option<u64>,
    ) -> Result<(Timestamp, Vec<Pod>), Error> {
        let newest = ListParams::default().fields(&format!("spec.nodeName={node}"));
        if let Some(version) = version {
            let params = newest.clone().at(&version.to_string()).matching(VersionMatch::NotOlderThan);
            match self.pods(&params).await {
                Err(error) if is_about_the_version(&error) => {}
                answer => return answer,
            }
        }
        self.pods(&newest).await
    }

    /// Waiting for a turn makes what is read no older.
    async fn pods(&self, params: &ListParams) -> Result<(Timestamp, Vec<Pod>), Error> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let list = async {
            let at = Timestamp::now();
            Ok((at, pods.list(params).await?.items))
        };
        self.flow.timely(list).await
    }
}

/// The same call will be refused again: the API server understood it, or the object is gone.
pub(crate) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Gone => true,
        Error::Api(kube::Error::Api(status)) => (400..500).contains(&status.code) && status.code != 429,
        Error::Api(_) | Error::Conflict | Error::Timeout => false,
    }
}

/// The API server does not have that version, yet or any more: `Too large resource version` after it waited for its cache in vain,
/// or 410 Gone.
fn is_about_the_version(error: &Error) -> bool {
    let Error::Api(kube::Error::Api(status)) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let too_large = || {
        causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
            || status.message.starts_with("Too large resource version")
    };
    status.code == 410 || (status.code == 504 && too_large())
}

/// Says whether anything changed.
fn apply(
    set: ConditionSet,
    conditions: &mut Vec<Condition>,
    meta: &ObjectMeta,
    marks: &[Mark],
    now: Timestamp,
) -> bool {
    let mut changed = false;
    for (type_, finding) in marks {
        changed |= match finding {
            Some(finding) => set.set(conditions, meta, type_, finding.clone(), now),
            None => set.clear(conditions, type_),
        };
    }
    changed
}

/// Whole seconds, as the reference writes times.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

#[derive(Clone, Copy)]
enum Part {
    Object,
    Status,
}

#[cfg(test)]
mod tests;

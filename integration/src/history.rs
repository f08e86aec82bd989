//! Every state that the NodeClaims of a pool went through, in the API server's order: what polling would miss is in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use api::{NodeClaim, conditions};
use futures::TryStreamExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use tokio::task::JoinHandle;

/// The claims that existed at one moment, by name.
pub type State = BTreeMap<String, NodeClaim>;

#[derive(Clone, Debug)]
enum Change {
    Is(Box<NodeClaim>),
    IsGone(String),
}

/// Records until it is dropped.
pub struct History {
    changes: Arc<Mutex<Vec<Change>>>,
    recording: JoinHandle<()>,
}

impl History {
    /// Claims of the pool, from now on.
    pub async fn of_pool(client: &Client, pool: &str) -> Result<Self> {
        let api: Api<NodeClaim> = Api::all(client.clone());
        let selector = format!("karpenter.sh/nodepool={pool}");
        let listed = api.list(&ListParams::default().labels(&selector)).await?;
        let version = listed.metadata.resource_version.context("a list has a version")?;
        let first = listed.items.into_iter().map(|claim| Change::Is(Box::new(claim))).collect();
        let changes = Arc::new(Mutex::new(first));
        let recorded = record(api, WatchParams::default().labels(&selector), version, changes.clone());
        #[expect(clippy::disallowed_methods, reason = "ends when this is dropped")]
        let recording = tokio::spawn(recorded);
        Ok(Self { changes, recording })
    }

    /// All states in their order. Fails when the recording has a gap.
    pub fn states(&self) -> Result<Vec<State>> {
        ensure!(!self.recording.is_finished(), "the watch of the claims ended");
        Ok(states(&self.changes.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The largest number of claims at one moment for which `holds`.
    pub fn most(&self, holds: impl Fn(&NodeClaim) -> bool) -> Result<usize> {
        let counts =
            self.states()?.into_iter().map(|state| state.values().filter(|c| holds(c)).count()).max();
        counts.context("no claim was ever there")
    }

    /// Fails unless at the moment when each of these claims began to be deleted, another one was initialized in its place: one
    /// that is not among them.
    pub fn replaced_before_deletion(&self, old: &[String]) -> Result<()> {
        let states = self.states()?;
        for (index, name) in old.iter().enumerate() {
            let first = states.iter().find(|state| state.get(name).is_some_and(is_deleting));
            let first = first.with_context(|| format!("claim {name} was never deleted"))?;
            let new =
                first.iter().filter(|(other, claim)| !old.contains(other) && is_initialized(claim)).count();
            let deleting = old.iter().filter(|other| first.get(*other).is_none_or(is_deleting)).count();
            ensure!(
                new >= deleting,
                "when claim {name} (number {index}) began to be deleted, {deleting} of the old claims were deleted or being \
                 deleted, and only {new} replacements were initialized"
            );
        }
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.recording.abort();
    }
}

pub fn is_deleting(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

pub fn is_initialized(claim: &NodeClaim) -> bool {
    let all = claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions::is_true(all, "Initialized")
}

/// Watches on from the last version seen whenever the server ends a watch; an error other than that ends the recording.
async fn record(
    api: Api<NodeClaim>,
    parameters: WatchParams,
    from: String,
    changes: Arc<Mutex<Vec<Change>>>,
) {
    let mut version = from;
    loop {
        let Ok(stream) = api.watch(&parameters, &version).await else { return };
        let mut stream = std::pin::pin!(stream);
        while let Ok(Some(event)) = stream.try_next().await {
            let change = match event {
                WatchEvent::Added(claim) | WatchEvent::Modified(claim) => {
                    version = claim.resource_version().unwrap_or_default();
                    Change::Is(Box::new(claim))
                }
                WatchEvent::Deleted(claim) => {
                    version = claim.resource_version().unwrap_or_default();
                    Change::IsGone(claim.name_any())
                }
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(_) => return,
            };
            changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        }
    }
}

fn states(changes: &[Change]) -> Vec<State> {
    let mut now = State::new();
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        match change {
            Change::Is(claim) => drop(now.insert(claim.name_any(), (**claim).clone())),
            Change::IsGone(name) => drop(now.remove(name)),
        }
        all.push(now.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, deleting: bool, initialized: bool) -> Change {
        let class = serde_json::json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"});
        let mut value = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
            "spec": {"nodeClassRef": class, "requirements": []},
        });
        if deleting {
            value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        if initialized {
            value["status"] = serde_json::json!({"conditions": [{"type": "Initialized", "status": "True",
                "reason": "Initialized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        }
        Change::Is(Box::new(serde_json::from_value(value).expect("a claim")))
    }

    async fn recorded(changes: Vec<Change>) -> History {
        #[expect(clippy::disallowed_methods, reason = "ends when the history is dropped")]
        let recording = tokio::spawn(std::future::pending());
        History { changes: Arc::new(Mutex::new(changes)), recording }
    }

    #[tokio::test]
    async fn a_deletion_before_the_replacement_is_initialized_is_found() {
        let old = ["a".to_owned()];
        let early = [
            claim("a", false, true),
            claim("b", false, false),
            claim("a", true, true),
            claim("b", false, true),
        ];
        assert!(recorded(early.to_vec()).await.replaced_before_deletion(&old).is_err());
        let late = [claim("a", false, true), claim("b", false, true), claim("a", true, true)];
        recorded(late.to_vec()).await.replaced_before_deletion(&old).expect("in order");
    }

    #[tokio::test]
    async fn one_replacement_does_not_do_for_two() {
        let old = ["a".to_owned(), "b".to_owned()];
        let changes = [
            claim("a", false, true),
            claim("b", false, true),
            claim("c", false, true),
            claim("a", true, true),
            Change::IsGone("a".into()),
            claim("b", true, true),
        ];
        assert!(recorded(changes.to_vec()).await.replaced_before_deletion(&old).is_err());
    }

    #[tokio::test]
    async fn the_largest_number_at_one_moment_is_found() {
        let changes = [
            claim("a", true, true),
            Change::IsGone("a".into()),
            claim("b", true, true),
            claim("c", true, true),
            Change::IsGone("b".into()),
        ];
        assert_eq!(recorded(changes.to_vec()).await.most(is_deleting).expect("a number"), 2);
    }
}

//! What is written once an instance and its claim know each other, each in what the other lacks:
//!
//! - tags on the instance, once its node's name is known: `Name` above all, for people who look at EC2. Tags that are there
//!   already are never overwritten. One call a second: a large scale-up must not use up the account's limit on tags;
//! - annotations on the claim with the instance's subnet and security groups, where another release launched it: drift is
//!   judged by them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use cloud::error::ErrorKind;
use cloud::instance::{CLUSTER_TAG, Instance, NAME_TAG, NODECLAIM_TAG, id_of_provider};
use cloud::{Launcher, Tags};
use model::labels;
use runtime::Leadership;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::decision::{is_ours, provider_id};
use super::write::Writer;
use crate::launch;

const PACE: Duration = Duration::from_secs(1);
/// Claims whose instances are described in one call.
const TOGETHER: usize = 100;
/// What does not fit is asked for again with the next scan of the claim.
const WAITING: usize = 4096;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct TagHandle(mpsc::Sender<NodeClaim>);

impl TagHandle {
    /// Returns at once.
    pub(super) fn wanted(&self, claim: &NodeClaim) {
        if needs_tags(claim) || lacks_network(claim) {
            // Only what is used of it: claims may wait for minutes.
            let mut slim = claim.clone();
            slim.spec.requirements = Vec::new();
            slim.metadata.managed_fields = None;
            let _ = self.0.try_send(slim);
        }
    }
}

pub(super) struct Tagger {
    wanted: mpsc::Receiver<NodeClaim>,
    launcher: Arc<dyn Launcher>,
    writer: Writer,
    leadership: Leadership,
    cluster: String,
}

impl Tagger {
    pub(super) fn new(
        launcher: Arc<dyn Launcher>,
        writer: Writer,
        leadership: Leadership,
        cluster: String,
    ) -> (Self, TagHandle) {
        let (sender, wanted) = mpsc::channel(WAITING);
        (Self { wanted, launcher, writer, leadership, cluster }, TagHandle(sender))
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let mut claims = Vec::new();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                received = self.wanted.recv_many(&mut claims, TOGETHER) => if received == 0 {
                    stop.cancelled().await;
                    return Ok(());
                }
            }
            let Some(term) = self.leadership.held() else { continue };
            let lost = term.lost();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = lost.cancelled() => {}
                () = self.complete(claims) => {}
            }
            drop(term);
        }
    }

    async fn complete(&self, claims: Vec<NodeClaim>) {
        let id = |claim: &NodeClaim| provider_id(claim).and_then(id_of_provider).map(str::to_owned);
        let claims: BTreeMap<String, NodeClaim> =
            claims.into_iter().filter_map(|claim| Some((id(&claim)?, claim))).collect();
        if claims.is_empty() {
            return;
        }
        let found = match self.launcher.instances_by_id(claims.keys().cloned().collect()).await {
            Ok(found) => found,
            Err(error) => {
                warn!(%error, "reading instances failed, trying again with the next scan of their claims");
                return;
            }
        };
        for instance in found {
            if let Some(claim) = claims.get(&instance.id) {
                self.complete_one(claim, &instance).await;
            }
        }
    }

    async fn complete_one(&self, claim: &NodeClaim, instance: &Instance) {
        let nodeclaim = claim.metadata.name.as_deref().unwrap_or_default();
        let mut annotations = BTreeMap::new();
        if needs_tags(claim) {
            let missing = missing_tags(claim, &self.cluster, &instance.tags);
            if !missing.is_empty() {
                let tagged = self.launcher.tag_instance(&instance.id, missing).await;
                tokio::time::sleep(PACE).await;
                match tagged {
                    Ok(()) => {}
                    Err(error) if error.kind == ErrorKind::NotFound => return,
                    Err(error) => {
                        warn!(nodeclaim, %error, "tagging the instance failed, trying again with the next scan");
                        return;
                    }
                }
            }
            for key in [labels::TAGGED, labels::CLUSTER_NAME_TAGGED] {
                annotations.insert(key.to_owned(), labels::TRUE.to_owned());
            }
        }
        if lacks_network(claim) {
            annotations.extend(network_of(instance));
        }
        if annotations.is_empty() {
            return;
        }
        let written = self.writer.claim_meta(claim, |meta| {
            meta.annotations.get_or_insert_default().extend(annotations.clone());
        });
        if let Err(error) = written.await {
            debug!(nodeclaim, %error, "writing what its instance is failed, trying again with the next scan");
        }
    }
}

/// It was launched, and does not say into which subnet or with which security groups.
pub(super) fn lacks_network(claim: &NodeClaim) -> bool {
    let has = |key: &str| claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    is_ours(claim)
        && claim.metadata.deletion_timestamp.is_none()
        && provider_id(claim).is_some()
        && !(has(labels::LAUNCHED_SUBNET) && has(labels::LAUNCHED_SECURITY_GROUPS))
}

fn network_of(instance: &Instance) -> BTreeMap<String, String> {
    launch::network(instance.subnet_id.as_deref(), instance.security_group_ids.iter().map(String::as_str))
}

/// Its annotations say that its instance has all tags.
fn has_tags(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let done =
        |key: &str| annotations.is_some_and(|all| all.get(key).is_some_and(|value| value == labels::TRUE));
    done(labels::TAGGED) && done(labels::CLUSTER_NAME_TAGGED)
}

/// Somebody removed the annotation: the tags are looked at once more, as the reference does.
pub(super) fn needs_tags_again(before: &NodeClaim, claim: &NodeClaim) -> bool {
    has_tags(before) && needs_tags(claim)
}

/// Its Node's name is known, and it does not say yet that its tags are complete.
pub(super) fn needs_tags(claim: &NodeClaim) -> bool {
    is_ours(claim)
        && claim.metadata.deletion_timestamp.is_none()
        && claim.status.as_ref().is_some_and(|status| status.node_name.is_some())
        && !has_tags(claim)
}

pub(super) fn missing_tags(claim: &NodeClaim, cluster: &str, present: &Tags) -> Tags {
    let name = claim.metadata.name.clone().unwrap_or_default();
    let node = claim.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default();
    let wanted = [(NAME_TAG, node), (NODECLAIM_TAG, name), (CLUSTER_TAG, cluster.to_owned())];
    let missing = wanted.into_iter().filter(|(key, _)| !present.contains_key(*key));
    missing.map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
#[path = "tagging_tests.rs"]
mod tests;

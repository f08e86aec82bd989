//! Tags that an instance gets once its node's name is known: `Name` above all, for people who look at EC2. Tags that are
//! there already are never overwritten. One call a second: a large scale-up must not use up the account's limit on tags.

use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use cloud::error::ErrorKind;
use cloud::instance::{CLUSTER_TAG, NAME_TAG, NODECLAIM_TAG, id_of_provider};
use cloud::{Launcher, Tags};
use model::labels;
use runtime::Leadership;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::decide::{is_ours, provider_id};
use super::write::Writer;

const PACE: Duration = Duration::from_secs(1);
/// What does not fit is asked for again with the next scan of the claim.
const WAITING: usize = 4096;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct TagHandle(mpsc::Sender<NodeClaim>);

impl TagHandle {
    /// Returns at once.
    pub(super) fn wanted(&self, claim: &NodeClaim) {
        if needs_tags(claim) {
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
            let claim = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(claim) = self.wanted.recv() => claim,
                else => {
                    stop.cancelled().await;
                    return Ok(());
                }
            };
            if !self.leadership.is_leader() {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.tag(&claim) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(PACE) => {}
            }
        }
    }

    async fn tag(&self, claim: &NodeClaim) {
        let nodeclaim = claim.metadata.name.as_deref().unwrap_or_default();
        let Some(id) = provider_id(claim).and_then(id_of_provider) else { return };
        let found = match self.launcher.instances_by_id(vec![id.to_owned()]).await {
            Ok(found) => found,
            Err(error) => {
                warn!(nodeclaim, %error, "reading the instance's tags failed, trying again with the next scan");
                return;
            }
        };
        let Some(instance) = found.first() else {
            debug!(nodeclaim, id, "the instance is gone, no tags");
            return;
        };
        let missing = missing_tags(claim, &self.cluster, &instance.tags);
        if !missing.is_empty() {
            match self.launcher.tag_instance(id, missing).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NotFound => return,
                Err(error) => {
                    warn!(nodeclaim, %error, "tagging the instance failed, trying again with the next scan");
                    return;
                }
            }
        }
        let written = self
            .writer
            .claim_meta(claim, |meta| {
                let all = meta.annotations.get_or_insert_default();
                for key in [labels::TAGGED, labels::CLUSTER_NAME_TAGGED] {
                    all.insert(key.to_owned(), labels::TRUE.to_owned());
                }
            })
            .await;
        if let Err(error) = written {
            debug!(nodeclaim, %error, "noting that the instance is tagged failed");
        }
    }
}

/// Its Node's name is known, and it does not say yet that its tags are complete.
pub(super) fn needs_tags(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let done =
        |key: &str| annotations.is_some_and(|all| all.get(key).is_some_and(|value| value == labels::TRUE));
    is_ours(claim)
        && claim.metadata.deletion_timestamp.is_none()
        && claim.status.as_ref().is_some_and(|status| status.node_name.is_some())
        && !(done(labels::TAGGED) && done(labels::CLUSTER_NAME_TAGGED))
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

//! Instance profiles that no class and no claim uses any more are deleted, every half hour, by the leader.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::{EC2NodeClass, NodeClaim};
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use model::labels;
use runtime::Leadership;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::reconcile::Visit;

const EVERY: Duration = Duration::from_mins(30);

pub(super) async fn run(
    visit: Arc<Visit>,
    leadership: Leadership,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    leadership
        .lead(stop, |lost| {
            let visit = Arc::clone(&visit);
            async move {
                let mut tick = tokio::time::interval(EVERY);
                loop {
                    tokio::select! {
                        () = lost.cancelled() => return Ok(()),
                        _ = tick.tick() => {}
                    }
                    if let Err(error) = once(&visit).await {
                        warn!(error = format!("{error:#}"), "unused instance profiles stay for now");
                    }
                }
            }
        })
        .await
}

/// Profiles are listed after what uses them: one that is made meanwhile is young and stays.
async fn once(visit: &Visit) -> anyhow::Result<()> {
    let mut used = BTreeSet::new();
    let classes: Api<EC2NodeClass> = Api::all(visit.kube.clone());
    for class in classes.list(&ListParams::default()).await.context("list EC2NodeClasses")? {
        used.extend(class.status.and_then(|status| status.instance_profile));
    }
    let claims: Api<NodeClaim> = Api::all(visit.kube.clone());
    let mut page = ListParams::default().limit(500);
    loop {
        let listed = claims.list_metadata(&page).await.context("list NodeClaims")?;
        for claim in listed.items {
            used.extend(claim.metadata.annotations.and_then(|mut a| a.remove(labels::INSTANCE_PROFILE_NAME)));
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    visit.profiles.sweep(&used, Timestamp::now()).await.context("sweep instance profiles")
}

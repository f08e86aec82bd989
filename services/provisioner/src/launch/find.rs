//! The instance that a claim has already, found by its tags.

use cloud::error::CloudError;
use cloud::instance::{CLUSTER_TAG, Instance, NODECLAIM_TAG};
use cloud::select::TagFilter;
use tracing::{info, warn};

use super::attempts::PATIENCE;
use super::error::LaunchError;
use super::launched::{self, Facts, Launched};
use super::{Job, Launch, Wanted};

impl Launch {
    pub(super) fn adopt(&self, job: &Job<'_>, instance: &Instance) -> Launched {
        let parts = &self.inner.parts;
        info!(instance = instance.id, "the claim has an instance already");
        let facts = Facts::of(instance, job.class, parts.reserved_capacity);
        launched::describe(facts, &job.wanted, job.class, job.types, job.group.as_ref())
    }

    /// The instance that was launched for this claim, if EC2 shows one that is not on its way out.
    pub(super) async fn find(&self, wanted: &Wanted) -> Result<Option<Instance>, CloudError> {
        let parts = &self.inner.parts;
        let tags =
            vec![TagFilter::is(NODECLAIM_TAG, &wanted.name), TagFilter::is(CLUSTER_TAG, &parts.cluster.name)];
        let found = parts.launcher.instances_by_tags(tags).await?;
        let mut live: Vec<Instance> = found.into_iter().filter(|i| !i.state.is_ending()).collect();
        live.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
        if live.len() > 1 {
            let ids: Vec<&str> = live.iter().map(|i| i.id.as_str()).collect();
            warn!(
                nodeclaim = wanted.name,
                ?ids,
                "several instances carry this claim's name; the oldest is taken, garbage collection ends the rest"
            );
        }
        Ok(live.into_iter().next())
    }

    pub(super) async fn find_patiently(&self, wanted: &Wanted) -> Result<Option<Instance>, LaunchError> {
        for wait in PATIENCE {
            tokio::time::sleep(wait).await;
            match self.find(wanted).await {
                Ok(Some(instance)) => return Ok(Some(instance)),
                Ok(None) => {}
                Err(error) => return Err(LaunchError::of_call(&error)),
            }
        }
        Ok(None)
    }
}

//! Instances that claims have already, or may have: found by their tag, and handed out to those that wait.

use std::collections::BTreeSet;

use cloud::error::CloudError;
use cloud::instance::{CLUSTER_TAG, Instance, NODECLAIM_TAG};
use cloud::select::TagFilter;
use model::labels;
use tracing::{info, warn};

use super::attempts::PATIENCE;
use super::batch::{Seen, assign};
use super::error::LaunchError;
use super::launched::{self, Facts, Launched};
use super::shares::Shares;
use super::{Job, Launch};

impl Launch {
    pub(super) fn adopt(&self, job: &Job<'_>, instance: &Instance) -> Launched {
        let parts = &self.inner.parts;
        info!(instance = instance.id, "the claim has an instance already");
        let facts = Facts::of(instance, job.class, parts.reserved_capacity);
        launched::describe(facts, &job.wanted, job.class, job.types, job.group.as_ref())
    }

    /// Hands out what earlier requests launched, as far as EC2 shows it and nobody has it.
    pub(super) async fn recover(&self, job: &Job<'_>, shares: &mut Shares) -> Result<(), LaunchError> {
        let found = self.find(job).await.map_err(|error| LaunchError::of_call(&error))?;
        if found.is_empty() {
            return Ok(());
        }
        let taken = self.taken(job).await?;
        let seen: Vec<Seen> = found
            .iter()
            .map(|i| Seen { id: i.id.clone(), claim: i.tags.get(NODECLAIM_TAG).cloned() })
            .collect();
        if !job.key.is_batch && seen.len() > 1 {
            let ids: Vec<&str> = seen.iter().map(|instance| instance.id.as_str()).collect();
            warn!(
                nodeclaim = job.wanted.name,
                ?ids,
                "several instances carry this claim's name; the oldest is taken, garbage collection ends the rest"
            );
        }
        for (member, id) in assign(shares.open(), &seen, &taken) {
            if let Some(instance) = found.iter().find(|instance| instance.id == id) {
                let launched = self.adopt(job, instance);
                self.inner.attempts.hand_out(&member.uid, launched.clone());
                shares.give(&member, launched);
            }
        }
        Ok(())
    }

    /// As [`Launch::recover`], until everybody has one or EC2 must have shown all there is.
    pub(super) async fn recover_patiently(
        &self,
        job: &Job<'_>,
        shares: &mut Shares,
    ) -> Result<(), LaunchError> {
        for wait in PATIENCE {
            tokio::time::sleep(wait).await;
            self.recover(job, shares).await?;
            if shares.open().is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Instances of the batch that are somebody's. Those of a single claim carry its name, and nobody else asks for them.
    pub(super) async fn taken(&self, job: &Job<'_>) -> Result<BTreeSet<String>, LaunchError> {
        if !job.key.is_batch {
            return Ok(BTreeSet::new());
        }
        let named = self.inner.parts.records.instances_named(&job.wanted.pool, &job.key.id).await;
        let mut taken = named.map_err(|why| {
            let text =
                format!("which instances the other claims of batch {} have is not known: {why}", job.key.id);
            LaunchError::retryable("LaunchFailed", text)
        })?;
        taken.extend(self.inner.attempts.all_handed());
        Ok(taken)
    }

    /// Instances with the job's tag that are not on their way out and are what its claims want, the oldest first.
    async fn find(&self, job: &Job<'_>) -> Result<Vec<Instance>, CloudError> {
        let parts = &self.inner.parts;
        let (key, value) = &job.key.tag;
        let tags = vec![TagFilter::is(*key, value), TagFilter::is(CLUSTER_TAG, &parts.cluster.name)];
        let mut live = parts.launcher.instances_by_tags(tags).await?;
        // A batch's id that somebody copied onto another claim must not bring it an instance it cannot use.
        let fits = |instance: &Instance| {
            let capacity_type = instance.capacity_type(parts.reserved_capacity);
            job.wanted.allows(labels::INSTANCE_TYPE, &instance.instance_type)
                && job.wanted.allows(labels::ZONE, &instance.zone)
                && job.wanted.allows(labels::CAPACITY_TYPE, capacity_type.as_str())
        };
        live.retain(|instance| !instance.state.is_ending() && (!job.key.is_batch || fits(instance)));
        live.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
        Ok(live)
    }
}

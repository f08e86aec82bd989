//! Launch: an instance for the claim, and what it is, on the claim.

use api::NodeClaim;
use api::amount::{Amount, ResourceList};
use api::conditions::Finding;
use model::resources::Resources;
use runtime::events::Event;
use tokio::time::Instant;
use tracing::{info, warn};

use super::super::decision::{LAUNCHED, REGISTERED, no_node_yet};
use super::super::write::{WriteError, set_conditions};
use super::{Done, Executor, Job, Learned, Outcome, about, pool_of};
use crate::launch::{Failure, LaunchError, Launched};

impl Executor {
    pub(super) async fn launch(&self, job: &Job) -> Done {
        let began = Instant::now();
        let answer = self.buy(job).await?;
        let error = answer.as_ref().err().map(|error| match error.kind {
            Failure::InsufficientCapacity => "InsufficientCapacityError",
            Failure::NodeClassNotReady => "NodeClassNotReadyError",
            Failure::Retryable | Failure::Terminal => "",
        });
        self.metrics.launched(began.elapsed(), error);
        match answer {
            Ok(launched) => self.launched(job, &launched).await,
            Err(error) => self.not_launched(job, &error).await,
        }
    }

    async fn buy(&self, job: &Job) -> Result<Result<Launched, LaunchError>, WriteError> {
        let name = &job.claim.spec.node_class_ref.name;
        let class = match &job.class {
            Some(class) => class.clone(),
            // The claim may have been seen before its class.
            None => match self.classes.get_opt(name).await? {
                Some(class) => class.into(),
                None => {
                    let message = format!("there is no EC2NodeClass {name}");
                    let event =
                        Event::warning(about(&job.claim), "FailedResolvingNodeClass", message.clone());
                    self.recorder.publish(event);
                    return Ok(Err(LaunchError::insufficient(message)));
                }
            },
        };
        let types = self.catalog.instance_types(name, pool_of(&job.claim));
        Ok(self.launch.launch(&job.claim, &class, types.as_ref().map(|types| types.as_slice())).await)
    }

    async fn launched(&self, job: &Job, launched: &Launched) -> Done {
        let claim = self
            .writer
            .claim_meta(&job.claim, |meta| {
                let own = meta.labels.get_or_insert_default();
                for (key, value) in &launched.labels {
                    own.entry(key.clone()).or_insert_with(|| value.clone());
                }
                meta.annotations.get_or_insert_default().extend(launched.annotations.clone());
            })
            .await?;
        let claim = self.writer.claim_status(&claim, |claim| record(claim, launched, job)).await?;
        self.launch.recorded(&claim);
        info!(
            nodeclaim = &*job.name,
            nodepool = pool_of(&claim),
            provider_id = launched.provider_id,
            instance_type = launched.instance_type,
            zone = launched.zone,
            capacity_type = %launched.capacity_type,
            allocatable = %launched.allocatable,
            adopted = launched.adopted,
            "launched nodeclaim"
        );
        Ok(Outcome::claim(claim))
    }

    async fn not_launched(&self, job: &Job, error: &LaunchError) -> Done {
        let nodeclaim = &*job.name;
        let reason = match error.kind {
            Failure::Retryable => {
                warn!(
                    nodeclaim,
                    reason = error.reason,
                    error = error.message,
                    "launching nodeclaim failed, trying again"
                );
                let finding = Finding::open(error.reason, error.message.clone());
                return Ok(self.note(job, &[(LAUNCHED, finding)]).await?.learned(Learned::LaunchFailed));
            }
            Failure::InsufficientCapacity => {
                let message = format!("NodeClaim {nodeclaim}: {}", error.message);
                self.recorder.publish(Event::warning(
                    about(&job.claim),
                    "InsufficientCapacityError",
                    message,
                ));
                "insufficient_capacity"
            }
            Failure::NodeClassNotReady => {
                self.recorder.publish(Event::warning(
                    about(&job.claim),
                    "NodeClassNotReady",
                    error.message.clone(),
                ));
                "nodeclass_not_ready"
            }
            Failure::Terminal => {
                self.recorder.publish(Event::warning(
                    about(&job.claim),
                    "LaunchFailed",
                    error.message.clone(),
                ));
                "launch_failed"
            }
        };
        warn!(
            nodeclaim,
            reason = error.reason,
            error = error.message,
            "launching nodeclaim failed, deleting it"
        );
        self.cluster.launch_failed(nodeclaim, &error.message).await;
        self.delete(job, reason).await
    }
}

/// Says whether anything changed.
fn record(claim: &mut NodeClaim, launched: &Launched, job: &Job) -> bool {
    let status = claim.status.get_or_insert_default();
    // Another leader was faster; what was launched for nobody is garbage collected.
    if status.provider_id.as_ref().is_some_and(|id| !id.is_empty() && *id != launched.provider_id) {
        return false;
    }
    status.provider_id = Some(launched.provider_id.clone());
    status.image_id = Some(launched.image_id.clone());
    status.capacity = Some(amounts(&launched.capacity));
    status.allocatable = Some(amounts(&launched.allocatable));
    // One write less: a node that was launched now has not joined yet.
    set_conditions(claim, &[(LAUNCHED, Finding::holds()), (REGISTERED, no_node_yet())], job.now);
    true
}

fn amounts(resources: &Resources) -> ResourceList {
    resources.iter().map(|(name, amount)| (name.to_owned(), Amount::Text(amount.to_string()))).collect()
}

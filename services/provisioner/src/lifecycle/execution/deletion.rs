//! A claim that comes to nothing is deleted; termination does the rest, and its pods are planned anew.

use api::conditions;
use model::labels;
use tracing::info;

use super::super::decision::{Expired, LAUNCHED, conditions_of};
use super::super::metrics::Disrupted;
use super::{Done, Executor, Job, Learned, Outcome, label, pool_of};
use crate::nodepool::Registered;

impl Executor {
    pub(super) async fn give_up(&self, job: &Job, expired: Expired) -> Done {
        let launched = conditions::find(conditions_of(&job.claim), LAUNCHED);
        let is_launched = launched.is_some_and(|c| c.status == conditions::ConditionStatus::True);
        let (reason, message) = match launched.filter(|_| !is_launched) {
            Some(condition) => (condition.reason.clone(), condition.message.clone()),
            None => ("RegistrationFailed".to_owned(), "the instance's Node did not join in time".to_owned()),
        };
        let nodepool = pool_of(&job.claim);
        info!(
            nodeclaim = &*job.name,
            nodepool,
            reason = expired.reason(),
            message,
            "deleting nodeclaim, it took too long"
        );
        if !is_launched {
            self.cluster.launch_failed(&job.name, &message).await;
        }
        let outcome = self.delete(job, expired.reason()).await?;
        self.health.report(&job.claim, Registered::No { reason, message });
        Ok(outcome)
    }

    pub(super) async fn delete(&self, job: &Job, reason: &'static str) -> Done {
        let held = self.writer.delete(&job.claim).await?;
        let labels = Disrupted {
            reason,
            nodepool: pool_of(&job.claim).to_owned(),
            capacity_type: label(&job.claim, labels::CAPACITY_TYPE).to_owned(),
        };
        self.metrics.disrupted.get_or_create(&labels).inc();
        Ok(Outcome { claim: held, learned: Learned::Deleted, ..Outcome::default() })
    }
}

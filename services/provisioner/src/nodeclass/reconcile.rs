//! One visit to one class: finalizer and hash, every resolver in turn, conditions, one write of the status. A resolver that
//! fails leaves its part as it was and does not keep the others from theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::EC2NodeClass;
use api::conditions::{self, Condition, ConditionSet, ConditionStatus, Finding};
use jiff::Timestamp;
use kube::Client;
use runtime::events::Recorder;
use tracing::warn;

use super::images::Images;
use super::placement_groups::PlacementGroups;
use super::profiles::Profiles;
use super::reservations::Reservations;
use super::resolve::Draft;
use super::resolved::{Resolved, ResolvedClasses};
use super::security_groups::SecurityGroups;
use super::subnets::Subnets;
use super::validate::{self, Validation};
use super::version::Versions;
use super::write::is_conflict;
use crate::launch::{ClusterFacts, Templates};

/// For what arrives by itself after a start.
const SHORTLY: Duration = Duration::from_secs(1);
pub(super) const SOON: Duration = Duration::from_mins(1);
const VALIDATE_EVERY: Duration = Duration::from_mins(10);

const VALIDATED: &str = "ValidationSucceeded";

/// Everything a visit uses.
pub(super) struct Visit {
    pub(super) kube: Client,
    pub(super) recorder: Recorder,
    pub(super) cluster: Arc<ClusterFacts>,
    pub(super) resolved: ResolvedClasses,
    pub(super) versions: Versions,
    pub(super) images: Images,
    pub(super) subnets: Subnets,
    pub(super) groups: SecurityGroups,
    pub(super) profiles: Profiles,
    pub(super) reservations: Reservations,
    pub(super) placement: PlacementGroups,
    pub(super) validation: Validation,
    pub(super) templates: Arc<Templates>,
    pub(super) reserved_capacity: bool,
    pub(super) isolated_vpc: bool,
    /// The problem last warned of, by class.
    pub(super) told: Mutex<BTreeMap<String, String>>,
}

/// When to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    After(Duration),
    /// Something failed: after the object's backoff.
    Retry,
    /// The object is gone or will change.
    Wait,
}

impl Visit {
    /// What a replica needs that does not lead: nothing is written.
    pub(super) async fn follow(&self, class: &EC2NodeClass, now: Timestamp) -> Next {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let before = self.resolved.get(name).unwrap_or_default();
        let outcome = self
            .placement
            .resolve(class.spec.placement_group_selector.as_ref(), before.placement_group)
            .await;
        let reservations = match self.reservations.resolve(self.reservation_terms(class), now).await {
            Ok(found) => found,
            Err(_) => before.reservations,
        };
        self.resolved.put(name, Resolved { placement_group: outcome.group, reservations });
        Next::After(SOON)
    }

    pub(super) fn reservation_terms<'a>(
        &self,
        class: &'a EC2NodeClass,
    ) -> &'a [api::ec2nodeclass::CapacityReservationSelectorTerm] {
        let terms = class.spec.capacity_reservation_selector_terms.as_deref().unwrap_or_default();
        if self.reserved_capacity { terms } else { &[] }
    }

    /// As the leader.
    pub(super) async fn lead(&self, class: &EC2NodeClass, now: Timestamp) -> Next {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let outcome = if class.metadata.deletion_timestamp.is_some() {
            self.finalize(class).await
        } else {
            self.keep(class, now).await
        };
        if outcome.is_ok() {
            self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        }
        outcome.unwrap_or_else(|error| {
            // Somebody else wrote meanwhile: the watch brings the news.
            if is_conflict(&error) {
                return Next::Retry;
            }
            let text = format!("{error:#}");
            // One warning a problem, however often it is met.
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.get(name) != Some(&text) {
                warn!(ec2nodeclass = name, error = text, "EC2NodeClass is visited again");
                told.insert(name.to_owned(), text);
            }
            Next::Retry
        })
    }

    async fn keep(&self, class: &EC2NodeClass, now: Timestamp) -> anyhow::Result<Next> {
        if self.mark(class).await? {
            // The write comes back through the watch, with the new resource version.
            return Ok(Next::Wait);
        }
        let mut draft = Draft {
            class: class.clone(),
            status: class.status.clone().unwrap_or_default(),
            set: ConditionSet::ec2_node_class(self.reserved_capacity),
            now,
            next: VALIDATE_EVERY,
            problems: Vec::new(),
        };
        draft.set.initialize(draft.status.conditions.get_or_insert_default(), &class.metadata, now);
        self.find_images(&mut draft).await;
        let group = self.find_resolved(&mut draft).await;
        self.find_subnets(&mut draft).await;
        self.find_security_groups(&mut draft).await;
        self.find_profile(&mut draft).await;
        let mut seen = draft.class.clone();
        seen.status = Some(draft.status.clone());
        draft.take_validation(self.validation.run(&seen, group.as_ref()).await);
        let changed = Some(&draft.status) != class.status.as_ref();
        if changed {
            self.write_status(class, &draft.status).await?;
            self.tell(class, &draft.status);
        }
        if draft.problems.is_empty() {
            return Ok(Next::After(draft.next));
        }
        anyhow::bail!("{}", draft.problems.join("; "))
    }
}

impl Draft {
    fn take_validation(&mut self, outcome: validate::Outcome) {
        match outcome {
            validate::Outcome::Found(finding) => self.find(VALIDATED, finding),
            validate::Outcome::AskAgain(text) => {
                // An earlier verdict stands until there is another.
                let known = self.status.conditions.as_deref().unwrap_or_default();
                let is_verdict = |c: &Condition| {
                    c.status != ConditionStatus::Unknown && c.reason != validate::DEPENDENCIES_NOT_READY
                };
                if !conditions::find(known, VALIDATED).is_some_and(is_verdict) {
                    self.find(VALIDATED, Finding::open("DryRunFailed", text.clone()));
                }
                self.problem("validation", text);
            }
            validate::Outcome::NotYet => self.come_back(SHORTLY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "RunInstances: InvalidParameterValue: the instance type does not support EFA";

    fn draft() -> Draft {
        let class: EC2NodeClass = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "generation": 1}, "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "node",
                "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]
            }
        }))
        .unwrap();
        let (set, now) = (ConditionSet::ec2_node_class(false), Timestamp::UNIX_EPOCH);
        let mut status = api::ec2nodeclass::EC2NodeClassStatus::default();
        set.initialize(status.conditions.get_or_insert_default(), &class.metadata, now);
        Draft { class, status, set, now, next: VALIDATE_EVERY, problems: Vec::new() }
    }

    fn validated(draft: &Draft) -> Condition {
        let all = draft.status.conditions.as_deref().unwrap_or_default();
        conditions::find(all, VALIDATED).expect("the condition").clone()
    }

    #[test]
    fn what_ec2_says_to_a_dry_run_is_in_the_condition_until_there_is_a_verdict() {
        let mut draft = draft();
        draft.take_validation(validate::Outcome::AskAgain(REFUSED.to_owned()));
        let condition = validated(&draft);
        assert_eq!((condition.status, condition.reason.as_str()), (ConditionStatus::Unknown, "DryRunFailed"));
        assert_eq!(condition.message, REFUSED);
        assert_eq!(draft.problems, [format!("validation: {REFUSED}")], "it is asked again with backoff");
        let other = "RunInstances: RequestLimitExceeded: slow down";
        draft.take_validation(validate::Outcome::AskAgain(other.to_owned()));
        assert_eq!(validated(&draft).message, other, "the newest answer");

        draft.take_validation(validate::Outcome::Found(Finding::holds()));
        draft.take_validation(validate::Outcome::AskAgain(REFUSED.to_owned()));
        assert_eq!(validated(&draft).status, ConditionStatus::True, "a verdict stands");
    }

    #[test]
    fn waiting_for_dependencies_is_no_verdict() {
        let mut draft = draft();
        let waits = Finding::fails(validate::DEPENDENCIES_NOT_READY, "Awaiting SubnetsReady");
        draft.take_validation(validate::Outcome::Found(waits));
        draft.take_validation(validate::Outcome::AskAgain(REFUSED.to_owned()));
        assert_eq!(validated(&draft).message, REFUSED);
    }
}

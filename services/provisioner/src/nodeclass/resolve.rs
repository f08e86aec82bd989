//! Every resolver in turn, and what each means for the class: its part of the status, a condition, when to look again.

use std::time::Duration;

use api::EC2NodeClass;
use api::conditions::{ConditionSet, Finding};
use api::ec2nodeclass::EC2NodeClassStatus;
use jiff::Timestamp;

use super::images::NoImages;
use super::profiles::NoProfile;
use super::reconcile::{SOON, Visit};
use super::reservations;
use super::resolved::Resolved;

const LATER: Duration = Duration::from_mins(5);

/// A visit's results so far.
pub(super) struct Draft {
    pub(super) class: EC2NodeClass,
    pub(super) status: EC2NodeClassStatus,
    pub(super) set: ConditionSet,
    pub(super) now: Timestamp,
    pub(super) next: Duration,
    pub(super) problems: Vec<String>,
}

impl Draft {
    pub(super) fn find(&mut self, type_: &str, finding: Finding) {
        let conditions = self.status.conditions.get_or_insert_default();
        self.set.set(conditions, &self.class.metadata, type_, finding, self.now);
    }

    pub(super) fn come_back(&mut self, after: Duration) {
        self.next = self.next.min(after);
    }

    pub(super) fn problem(&mut self, what: &str, error: impl std::fmt::Display) {
        self.problems.push(format!("{what}: {error}"));
    }
}

impl Visit {
    pub(super) async fn find_images(&self, draft: &mut Draft) {
        let version = match self.versions.current().await {
            Ok(version) => version,
            Err(error) => return draft.problem("Kubernetes version", format!("{error:#}")),
        };
        match self.images.resolve(&draft.class.spec, version, draft.now).await {
            Ok(Ok(amis)) => {
                draft.status.amis = Some(amis);
                draft.find("AMIsReady", Finding::holds());
                draft.come_back(LATER);
            }
            Ok(Err(none)) => {
                draft.status.amis = None;
                let finding = match none {
                    NoImages::UnsupportedAlias(text) => Finding::fails("UnsupportedAlias", text),
                    NoImages::NotFound(text) => Finding::fails("AMINotFound", text),
                };
                draft.find("AMIsReady", finding);
                draft.come_back(SOON);
            }
            Err(error) => draft.problem("images", error),
        }
    }

    /// Reservations and placement group, which others in this process want to know too.
    pub(super) async fn find_resolved(&self, draft: &mut Draft) -> Option<cloud::nodeclass::PlacementGroup> {
        let name = draft.class.metadata.name.clone().unwrap_or_default();
        let before = self.resolved.get(&name).unwrap_or_default();
        let mut reservations = before.reservations;
        if self.reserved_capacity {
            match self.reservations.resolve(self.reservation_terms(&draft.class), draft.now).await {
                Ok(found) => {
                    let listed: Vec<_> = found.iter().map(|r| reservations::status(r, draft.now)).collect();
                    draft.status.capacity_reservations = (!listed.is_empty()).then_some(listed);
                    draft.find("CapacityReservationsReady", Finding::holds());
                    draft.come_back(reservations::look_again(&found, draft.now));
                    reservations = found;
                }
                Err(error) => draft.problem("capacity reservations", error),
            }
        }
        let selector = draft.class.spec.placement_group_selector.clone();
        let outcome = self.placement.resolve(selector.as_ref(), before.placement_group).await;
        if let Some(finding) = outcome.finding {
            draft.find("PlacementGroupReady", finding);
            if selector.is_some() {
                draft.come_back(SOON);
            }
        }
        if let Some(error) = outcome.error {
            draft.problem("placement group", error);
        }
        self.resolved.put(&name, Resolved { placement_group: outcome.group.clone(), reservations });
        outcome.group
    }

    pub(super) async fn find_subnets(&self, draft: &mut Draft) {
        draft.come_back(SOON);
        match self.subnets.resolve(&draft.class.spec.subnet_selector_terms).await {
            Ok(found) if found.is_empty() => {
                draft.status.subnets = None;
                draft.find(
                    "SubnetsReady",
                    Finding::fails("SubnetsNotFound", "SubnetSelector did not match any Subnets"),
                );
            }
            Ok(found) => {
                draft.status.subnets = Some(found);
                draft.find("SubnetsReady", Finding::holds());
            }
            Err(error) => draft.problem("subnets", error),
        }
    }

    pub(super) async fn find_security_groups(&self, draft: &mut Draft) {
        match self.groups.resolve(&draft.class.spec.security_group_selector_terms).await {
            Ok(found) if found.is_empty() => {
                draft.status.security_groups = None;
                let text = "SecurityGroupSelector did not match any SecurityGroups";
                draft.find("SecurityGroupsReady", Finding::fails("SecurityGroupsNotFound", text));
                draft.come_back(SOON);
            }
            Ok(found) => {
                draft.status.security_groups = Some(found);
                draft.find("SecurityGroupsReady", Finding::holds());
                draft.come_back(LATER);
            }
            Err(error) => draft.problem("security groups", error),
        }
    }

    pub(super) async fn find_profile(&self, draft: &mut Draft) {
        match self.profiles.resolve(&draft.class).await {
            Ok(name) => {
                draft.status.instance_profile = Some(name);
                draft.find("InstanceProfileReady", Finding::holds());
            }
            // Never False, as in the reference: the role may be on its way. But it says what is missing.
            Err(error @ NoProfile::RoleNotFound { .. }) => {
                draft.find("InstanceProfileReady", Finding::open("RoleNotFound", error.to_string()));
                draft.come_back(SOON);
            }
            Err(NoProfile::Call(error)) => draft.problem("instance profile", error),
        }
    }
}

//! One visit to one class: finalizer and hash, every resolver in turn, conditions, one write of the status. A resolver that
//! fails leaves its part as it was and does not keep the others from theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use api::conditions::{self, ConditionSet, Finding, READY};
use api::ec2nodeclass::EC2NodeClassStatus;
use api::{EC2NodeClass, NodeClaim};
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource as _};
use model::labels;
use runtime::events::{Event, Recorder};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::images::{Images, NoImages};
use super::placement_groups::PlacementGroups;
use super::profiles::{NoProfile, Profiles};
use super::reservations::{self, Reservations};
use super::resolved::{Resolved, ResolvedClasses};
use super::security_groups::SecurityGroups;
use super::subnets::Subnets;
use super::validate::{self, Validation};
use super::version::Versions;
use super::{FIELD_MANAGER, hash};
use crate::launch::{ClusterFacts, Templates};

/// For what arrives by itself after a start.
const SHORTLY: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_mins(1);
const LATER: Duration = Duration::from_mins(5);
const VALIDATE_EVERY: Duration = Duration::from_mins(10);
/// How often an ending class looks whether its claims are gone.
const WAIT_FOR_CLAIMS: Duration = Duration::from_secs(5);

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

/// A visit's results so far.
struct Draft {
    class: EC2NodeClass,
    status: EC2NodeClassStatus,
    set: ConditionSet,
    now: Timestamp,
    next: Duration,
    problems: Vec<String>,
}

impl Draft {
    fn find(&mut self, type_: &str, finding: Finding) {
        let conditions = self.status.conditions.get_or_insert_default();
        self.set.set(conditions, &self.class.metadata, type_, finding, self.now);
    }

    fn come_back(&mut self, after: Duration) {
        self.next = self.next.min(after);
    }

    fn problem(&mut self, what: &str, error: impl std::fmt::Display) {
        self.problems.push(format!("{what}: {error}"));
    }
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

    fn reservation_terms<'a>(
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
        match self.validation.run(&seen, group.as_ref()).await {
            validate::Outcome::Found(finding) => draft.find("ValidationSucceeded", finding),
            validate::Outcome::AskAgain(text) => draft.problem("validation", text),
            validate::Outcome::NotYet => draft.come_back(SHORTLY),
        }
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

    async fn find_images(&self, draft: &mut Draft) {
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
    async fn find_resolved(&self, draft: &mut Draft) -> Option<cloud::nodeclass::PlacementGroup> {
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

    async fn find_subnets(&self, draft: &mut Draft) {
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

    async fn find_security_groups(&self, draft: &mut Draft) {
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

    async fn find_profile(&self, draft: &mut Draft) {
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

    /// Finalizer and hash annotations. Says whether it wrote.
    async fn mark(&self, class: &EC2NodeClass) -> anyhow::Result<bool> {
        let wanted = hash::wanted(class, self.cluster.ca_bundle.as_deref().unwrap_or_default());
        let own = class.metadata.annotations.clone().unwrap_or_default();
        let stamped = wanted.iter().all(|(key, value)| own.get(key) == Some(value));
        let mut finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        let held = finalizers.iter().any(|f| f == labels::EC2NODECLASS_FINALIZER);
        if stamped && held {
            return Ok(false);
        }
        if hash::version_changed(class) {
            self.restamp(class, &wanted).await?;
        }
        if !held {
            finalizers.push(labels::EC2NODECLASS_FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": class.metadata.resource_version,
            "finalizers": finalizers,
            "annotations": wanted,
        }});
        self.patch(class, &patch).await.context("write finalizer and hash")?;
        Ok(true)
    }

    async fn restamp(&self, class: &EC2NodeClass, wanted: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let api: Api<NodeClaim> = Api::all(self.kube.clone());
        for claim in self.claims_of(class).await? {
            let (Some(name), Some(stamps)) = (&claim.metadata.name, hash::restamped(&claim, wanted)) else {
                continue;
            };
            let patch = json!({"metadata": {"annotations": stamps}});
            let written = api.patch_metadata(name, &params(), &Patch::Merge(&patch)).await;
            if let Err(error) = written
                && !is_gone(&error)
            {
                return Err(error).with_context(|| format!("write the hash version of NodeClaim {name}"));
            }
        }
        Ok(())
    }

    async fn claims_of(&self, class: &EC2NodeClass) -> anyhow::Result<Vec<NodeClaim>> {
        let api: Api<NodeClaim> = Api::all(self.kube.clone());
        let mut all = Vec::new();
        let mut page = ListParams::default().limit(500);
        loop {
            let listed = api.list(&page).await.context("list NodeClaims")?;
            let own = |claim: &NodeClaim| {
                let reference = &claim.spec.node_class_ref;
                reference.kind == api::ec2nodeclass::KIND
                    && Some(&reference.name) == class.metadata.name.as_ref()
            };
            all.extend(listed.items.into_iter().filter(own));
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// A class ends when no claim needs it: profiles and launch templates go, then the object may.
    async fn finalize(&self, class: &EC2NodeClass) -> anyhow::Result<Next> {
        let name = class.metadata.name.clone().unwrap_or_default();
        let finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|f| f == labels::EC2NODECLASS_FINALIZER) {
            return Ok(Next::Wait);
        }
        let claims = self.claims_of(class).await?;
        if !claims.is_empty() {
            let names: Vec<String> = claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect();
            let more = names.len().saturating_sub(5);
            let shown = names.into_iter().take(5).collect::<Vec<_>>().join(", ");
            let rest = if more > 0 { format!(" and {more} other(s)") } else { String::new() };
            let text = format!("Waiting on NodeClaim termination for {shown}{rest}");
            self.recorder.publish(Event::normal(
                class.object_ref(&()),
                "WaitingOnNodeClaimTermination",
                text,
            ));
            return Ok(Next::After(WAIT_FOR_CLAIMS));
        }
        if !self.isolated_vpc {
            self.profiles.delete_of_class(class).await.context("delete instance profiles")?;
        }
        self.templates.delete_of_class(&name).await.context("delete launch templates")?;
        let left: Vec<String> =
            finalizers.into_iter().filter(|f| f != labels::EC2NODECLASS_FINALIZER).collect();
        let patch = json!({"metadata": {
            "resourceVersion": class.metadata.resource_version,
            "finalizers": left,
        }});
        match self.patch(class, &patch).await {
            Ok(()) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error).context("remove the finalizer"),
        }
        self.validation.forget(&name);
        self.resolved.remove(&name);
        self.recorder.publish(Event::normal(
            class.object_ref(&()),
            "Finalized",
            format!("Finalized {}", labels::EC2NODECLASS_FINALIZER),
        ));
        info!(ec2nodeclass = name, "finalized EC2NodeClass");
        Ok(Next::Wait)
    }

    async fn patch(&self, class: &EC2NodeClass, patch: &Value) -> Result<(), kube::Error> {
        let api: Api<EC2NodeClass> = Api::all(self.kube.clone());
        let name = class.metadata.name.as_deref().unwrap_or_default();
        api.patch(name, &params(), &Patch::Merge(patch)).await.map(drop)
    }

    /// Whole, with the resource version that it was made from.
    async fn write_status(&self, class: &EC2NodeClass, status: &EC2NodeClassStatus) -> anyhow::Result<()> {
        let api: Api<EC2NodeClass> = Api::all(self.kube.clone());
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let mut written = serde_json::to_value(status).context("write the status as JSON")?;
        // A field that is gone must be named, or a merge keeps it.
        for field in ["amis", "subnets", "securityGroups", "capacityReservations", "instanceProfile"] {
            if written.get(field).is_none() {
                written[field] = Value::Null;
            }
        }
        let patch = json!({
            "metadata": {"resourceVersion": class.metadata.resource_version},
            "status": written,
        });
        api.patch_status(name, &params(), &Patch::Merge(&patch)).await.map(drop).context("write the status")
    }

    /// An Event for each condition whose status is another.
    fn tell(&self, class: &EC2NodeClass, status: &EC2NodeClassStatus) {
        let before = class.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let after = status.conditions.as_deref().unwrap_or_default();
        let set = ConditionSet::ec2_node_class(self.reserved_capacity);
        for type_ in set.dependents().iter().copied().chain([READY]) {
            let (old, new) = (conditions::status(before, type_), conditions::status(after, type_));
            let Some(condition) = conditions::find(after, type_).filter(|_| old != new) else { continue };
            let text = format!(
                "Status condition transitioned, Type: {type_}, Status: {old} -> {new}, Reason: {}",
                condition.reason
            );
            let told = if condition.message.is_empty() {
                text
            } else {
                format!("{text}, Message: {}", condition.message)
            };
            self.recorder
                .publish(Event::normal(class.object_ref(&()), type_, told).distinct([new.to_string()]));
        }
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn is_conflict(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<kube::Error>();
    matches!(status, Some(kube::Error::Api(status)) if status.code == 409)
}

//! Whether nodes of a class could be launched: tags, then a real launch template and dry runs of the two calls that launch. A
//! verdict stands for half an hour, unless something it depends on changes.

mod choice;
mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, ConditionStatus, Finding};
use api::{EC2NodeClass, NodePool};
use cloud::error::CloudError;
use cloud::instance::NODECLAIM_TAG;
use cloud::launch::{FleetRequest, FleetTemplate, InstanceDryRun, Launcher, Override};
use cloud::nodeclass::PlacementGroup;
use cloud::{NodeClassSource, derive::Family};
use kube::api::ListParams;
use kube::{Api, Client};
use model::catalog::{CapacityType, InstanceType};
use model::labels;
use model::requirement::Requirement;
use model::resources::PODS;
use serde_json::json;
use tracing::debug;

use super::cache::Cache;
use super::tags::forbidden_tag;
use crate::launch::fleet::{Images, Shape, target};
use crate::launch::template::{self, Setting};
use crate::launch::{ClaimRequest, ClusterFacts, Templates};
use outcome::{Check, Verdict};

const GOOD_FOR: Duration = Duration::from_mins(30);
const DEPENDENCIES: [&str; 4] = ["AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady"];
pub(super) const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";

/// Types of a class; those without an available offering cannot be used with it. `None` before the catalogue has arrived.
pub type TypesOf =
    Arc<dyn Fn(&EC2NodeClass, Option<&PlacementGroup>) -> Option<Vec<InstanceType>> + Send + Sync>;

pub(super) struct Validation {
    pub(super) kube: Client,
    pub(super) source: Arc<dyn NodeClassSource>,
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) cluster: Arc<ClusterFacts>,
    pub(super) templates: Arc<Templates>,
    pub(super) types: TypesOf,
    pub(super) dry_run: bool,
    pub(super) reserved_capacity: bool,
    verdicts: Cache<(String, String), Finding>,
}

/// What to do about the condition.
pub(super) enum Outcome {
    Found(Finding),
    /// Leave it as it is and ask again, more slowly each time.
    AskAgain(String),
    /// Something that comes by itself is not there yet.
    NotYet,
}

impl Validation {
    #[expect(clippy::too_many_arguments, reason = "one caller, which names each")]
    pub(super) fn new(
        kube: Client,
        source: Arc<dyn NodeClassSource>,
        launcher: Arc<dyn Launcher>,
        cluster: Arc<ClusterFacts>,
        templates: Arc<Templates>,
        types: TypesOf,
        dry_run: bool,
        reserved_capacity: bool,
    ) -> Self {
        let verdicts = Cache::new(GOOD_FOR);
        Self { kube, source, launcher, cluster, templates, types, dry_run, reserved_capacity, verdicts }
    }

    /// `class` carries the status as resolved just now.
    pub(super) async fn run(&self, class: &EC2NodeClass, group: Option<&PlacementGroup>) -> Outcome {
        if template::family(class) == Family::Al2023
            && let Err(error) = self.cluster.resolve_service_cidr(&*self.source).await
        {
            if error.is_retryable() {
                return Outcome::AskAgain(error.to_string());
            }
            let text = format!("failed to detect the cluster CIDR: {error}");
            return Outcome::Found(Finding::fails("ClusterCIDRResolutionFailed", text));
        }
        if let Some(finding) = dependencies(class) {
            return Outcome::Found(finding);
        }
        if let Some(key) = forbidden_tag(class) {
            let text = format!("tag {key} is the autoscaler's own and cannot be set");
            return Outcome::Found(Finding::fails("TagValidationFailed", text));
        }
        if !self.dry_run {
            return Outcome::Found(Finding::holds());
        }
        let name = class.metadata.name.clone().unwrap_or_default();
        let key = (name, content(class));
        if let Some(known) = self.verdicts.get(&key) {
            return Outcome::Found(known);
        }
        let Some(types) = (self.types)(class, group) else { return Outcome::NotYet };
        match self.try_out(class, group, &types).await {
            Ok(finding) => {
                self.verdicts.put(key, finding.clone());
                Outcome::Found(finding)
            }
            Err(text) => Outcome::AskAgain(text),
        }
    }

    pub(super) fn forget(&self, class: &str) {
        self.verdicts.retain(|(name, _)| name != class);
    }

    async fn try_out(
        &self,
        class: &EC2NodeClass,
        group: Option<&PlacementGroup>,
        types: &[InstanceType],
    ) -> Result<Finding, String> {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let all: Api<NodePool> = Api::all(self.kube.clone());
        let listed =
            all.list(&ListParams::default()).await.map_err(|error| format!("list NodePools: {error}"))?;
        let own = |pool: &&NodePool| pool.spec.template.spec.node_class_ref.name == name;
        let pools: Vec<&NodePool> = listed.items.iter().filter(own).collect();
        let status = class.status.as_ref();
        let images = Images::of(status.and_then(|s| s.amis.as_deref()).unwrap_or_default());
        let family = template::family(class);
        let Some(choice) = choice::choose(types, &pools, &images, family.is_windows()) else {
            return Err("no instance type that the class can use fits one of its images".to_owned());
        };
        let wanted = wanted(&pools);
        let setting = Setting {
            class,
            cluster: &self.cluster,
            wanted: &wanted,
            buying: CapacityType::OnDemand,
            placement_group: group,
            reserved_capacity: self.reserved_capacity,
        };
        let max_pods = choice.kind.capacity.get(PODS).value_floor();
        let shape = Shape { image_id: choice.image_id.clone(), max_pods, efa: 0, reservation: None };
        let rendered = template::render(&setting, &shape).map_err(|error| error.to_string())?;
        let template = rendered.template.clone();
        if let Err(error) = self.templates.ensure(rendered.template).await {
            return verdict(Check::CreateLaunchTemplate, &error);
        }
        let subnets: Vec<(&str, &str)> = status
            .iter()
            .flat_map(|s| s.subnets.iter().flatten())
            .map(|subnet| (subnet.id.as_str(), subnet.zone.as_str()))
            .collect();
        let place = |(id, zone): &(&str, &str)| Override {
            instance_type: choice.kind.name.to_string(),
            zone: (*zone).to_owned(),
            subnet_id: (*id).to_owned(),
            image_id: Some(choice.image_id.clone()),
            priority: None,
        };
        let mut tags = template.tags.clone();
        tags.insert(NODECLAIM_TAG.to_owned(), wanted.name.clone());
        let fleet = FleetRequest {
            count: 1,
            client_token: None,
            target: target(CapacityType::OnDemand, None),
            prioritized: false,
            context: class.spec.context.clone(),
            tags: tags.clone(),
            templates: vec![FleetTemplate {
                name: template.name.clone(),
                overrides: subnets.iter().map(place).collect(),
            }],
        };
        if let Err(error) = self.launcher.dry_run_fleet(fleet).await {
            return verdict(Check::CreateFleet, &error);
        }
        let mut first: Option<CloudError> = None;
        for (subnet_id, _) in &subnets {
            let request = InstanceDryRun {
                template: template.name.clone(),
                instance_type: choice.kind.name.to_string(),
                image_id: choice.image_id.clone(),
                subnet_id: (*subnet_id).to_owned(),
                interfaces: template.data.interfaces.clone(),
                tags: tags.clone(),
            };
            match self.launcher.dry_run_instance(request).await {
                Ok(()) => return Ok(Finding::holds()),
                Err(error) => {
                    debug!(subnet = subnet_id, error = %error, "dry run refused");
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) => verdict(Check::RunInstances, &error),
            None => Err("the class has no subnets".to_owned()),
        }
    }
}

fn verdict(check: Check, error: &CloudError) -> Result<Finding, String> {
    match outcome::judge(check, error) {
        Verdict::Fails(finding) => Ok(finding),
        Verdict::AskAgain => Err(error.to_string()),
    }
}

/// A claim as some pool of the class would make it.
fn wanted(pools: &[&NodePool]) -> ClaimRequest {
    let pool = pools.first().and_then(|pool| pool.metadata.name.clone());
    let mut wanted = ClaimRequest {
        name: "validation".to_owned(),
        pool: pool.unwrap_or_else(|| "validation".to_owned()),
        ..ClaimRequest::default()
    };
    if choice::wants_dedicated(pools) {
        wanted.requirements.add(Requirement::is(labels::INSTANCE_TENANCY, labels::TENANCY_DEDICATED));
    }
    wanted
}

/// `None` when everything it depends on is there.
fn dependencies(class: &EC2NodeClass) -> Option<Finding> {
    let conditions = class.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let of = |status: ConditionStatus| -> Vec<&str> {
        let has = |type_: &&str| conditions::status(conditions, type_) == status;
        DEPENDENCIES.into_iter().filter(has).collect()
    };
    let text = |which: &[&str]| format!("Awaiting {}", which.join(", "));
    let (failed, open) = (of(ConditionStatus::False), of(ConditionStatus::Unknown));
    if !failed.is_empty() {
        return Some(Finding::fails(DEPENDENCIES_NOT_READY, text(&failed)));
    }
    (!open.is_empty()).then(|| Finding::open(DEPENDENCIES_NOT_READY, text(&open)))
}

/// Everything a verdict depends on; any annotation that a person adds asks for a new one.
fn content(class: &EC2NodeClass) -> String {
    let status = class.status.as_ref();
    let annotations: BTreeMap<&String, &String> = class.metadata.annotations.iter().flatten().collect();
    json!({
        "spec": class.spec,
        "subnets": status.and_then(|s| s.subnets.as_ref()).map(|all| {
            let mut ids: Vec<&str> = all.iter().map(|subnet| subnet.id.as_str()).collect();
            ids.sort_unstable();
            ids
        }),
        "securityGroups": status.and_then(|s| s.security_groups.as_ref()),
        "amis": status.and_then(|s| s.amis.as_ref()),
        "profile": status.and_then(|s| s.instance_profile.as_ref()),
        "annotations": annotations,
    })
    .to_string()
}

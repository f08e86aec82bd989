//! From a NodeClaim to one EC2 instance: which types and places, which launch templates, the fleet call, and what its answer
//! teaches. It writes nothing to Kubernetes; the claim's life is `lifecycle`'s.
//!
//! ```text
//! Wanted (claim) + class + types
//!   └─ candidates   filters, cheapest first, 60 types          pure
//!       └─ fleet    shapes, overrides, what an answer teaches  pure
//!           ├─ template, userdata   launch template content    pure
//!           ├─ templates            made on demand in EC2
//!           └─ attempts             client tokens: one instance a claim, kill -9 or not
//! ```
//!
//! When a way of buying has nothing to give, the next that the claim allows is tried in the same call: reserved, spot,
//! on-demand.

mod attempts;
pub mod candidates;
mod error;
mod facts;
pub mod fleet;
mod launched;
mod metrics;
pub mod template;
mod templates;
#[cfg(test)]
mod tests;
pub mod userdata;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, ConditionSet, ConditionStatus, READY};
use api::{EC2NodeClass, NodeClaim};
use cloud::error::{CloudError, ErrorKind, launch_reason};
use cloud::instance::{CLUSTER_TAG, Instance, NODECLAIM_TAG};
use cloud::launch::{FleetAnswer, FleetRequest, FleetTemplate, Launcher};
use cloud::nodeclass::PlacementGroup;
use cloud::select::TagFilter;
use cloud::unavailable::Scope;
use futures::future::{BoxFuture, try_join_all};
use jiff::Timestamp;
use model::catalog::{CapacityType, InstanceType};
use runtime::Leadership;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info, info_span, warn};

use crate::nodeclass::{Addresses, Chosen, ResolvedClasses};
use attempts::{Attempts, MISMATCH, PATIENCE};
use candidates::{Candidate, Terms};
use fleet::{Asked, Images, Place};
use launched::Facts;
use template::Setting;

pub use error::{Failure, LaunchError};
pub use facts::ClusterFacts;
pub use launched::Launched;
pub use metrics::LaunchMetrics;
pub use templates::Templates;
pub use wanted::Wanted;

/// Fleet requests for one way of buying in one launch: the 60 cheapest types, and once the next 60.
const ROUNDS_EACH: usize = 2;
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// Who is told what cannot be had.
pub trait Shortages: Send + Sync {
    /// In force when this returns. `reason` is EC2's code.
    fn report<'a>(&'a self, scopes: Vec<Scope>, reason: &'a str) -> BoxFuture<'a, ()>;
}

/// What a launch needs from outside.
pub struct Parts {
    pub launcher: Arc<dyn Launcher>,
    pub cluster: Arc<ClusterFacts>,
    pub shortages: Arc<dyn Shortages>,
    pub addresses: Addresses,
    pub resolved: ResolvedClasses,
    pub templates: Arc<Templates>,
    pub metrics: LaunchMetrics,
    /// Feature gate ReservedCapacity.
    pub reserved_capacity: bool,
    /// `minValues` that cannot be met forbid a launch.
    pub strict_min_values: bool,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Launch {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    attempts: Attempts,
}

/// One launch under way.
struct Job<'a> {
    wanted: Wanted,
    class: &'a EC2NodeClass,
    types: &'a [InstanceType],
    group: Option<PlacementGroup>,
    images: Images,
}

/// What one fleet request came to.
enum Bought {
    Instance(Box<Launched>),
    /// Nothing to be had this way.
    Nothing {
        message: String,
    },
}

impl Launch {
    pub fn new(parts: Parts) -> Self {
        Self { inner: Arc::new(Inner { parts, attempts: Attempts::default() }) }
    }

    /// Runs while this replica leads: takes over launch templates, deletes unused ones.
    pub async fn run(self, leadership: Leadership, stop: CancellationToken) -> anyhow::Result<()> {
        leadership
            .lead(stop, |lost| {
                let launch = self.clone();
                async move {
                    launch.inner.attempts.term_began(Timestamp::now());
                    launch.inner.parts.templates.adopt_leftovers().await;
                    let mut tick = tokio::time::interval(SWEEP_EVERY);
                    loop {
                        tokio::select! {
                            () = lost.cancelled() => return Ok(()),
                            _ = tick.tick() => launch.inner.parts.templates.sweep().await,
                        }
                    }
                }
            })
            .await
    }

    /// One instance for the claim: the one it has already, or a new one. `types` are the class's, `None` when there is no
    /// catalogue yet. May be repeated at any time, also by another process.
    pub async fn launch(
        &self,
        claim: &NodeClaim,
        class: &EC2NodeClass,
        types: Option<&[InstanceType]>,
    ) -> Result<Launched, LaunchError> {
        let wanted = Wanted::of(claim)
            .map_err(|error| LaunchError::new(Failure::Terminal, "InvalidNodeClaim", error.to_string()))?;
        if wanted.uid.is_empty() {
            return Err(LaunchError::new(Failure::Terminal, "InvalidNodeClaim", "the NodeClaim has no uid"));
        }
        let span = info_span!("launch", nodeclaim = wanted.name, nodepool = wanted.pool);
        let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Box::pin(self.run_job(wanted, created, class, types)).instrument(span).await
    }

    async fn run_job(
        &self,
        wanted: Wanted,
        created: Option<Timestamp>,
        class: &EC2NodeClass,
        types: Option<&[InstanceType]>,
    ) -> Result<Launched, LaunchError> {
        let parts = &self.inner.parts;
        check_class(class, parts.reserved_capacity)?;
        let Some(types) = types else {
            let text = "the catalogue of instance types has not arrived from pricing-cache yet";
            return Err(LaunchError::retryable("InstanceTypeResolutionFailed", text));
        };
        let status = class.status.as_ref();
        let job = Job {
            group: self.placement_group(class)?,
            images: Images::of(status.and_then(|s| s.amis.as_deref()).unwrap_or_default()),
            wanted,
            class,
            types,
        };
        if self.inner.attempts.may_have_instance(&job.wanted.uid, created)
            && let Some(instance) =
                self.find(&job.wanted).await.map_err(|error| LaunchError::of_call(&error))?
        {
            return Ok(self.adopt(&job, &instance));
        }
        let reservations = status.and_then(|s| s.capacity_reservations.as_deref()).unwrap_or_default();
        let mut terms = Terms {
            interruptible: reservations
                .iter()
                .filter(|r| r.interruptible == Some(true))
                .map(|r| r.id.clone())
                .collect(),
            strict_min_values: parts.strict_min_values,
            ..Terms::default()
        };
        if !parts.reserved_capacity {
            terms.given_up.insert(CapacityType::Reserved);
        }
        self.buy_until_nothing_is_left(&job, terms).await
    }

    async fn buy_until_nothing_is_left(
        &self,
        job: &Job<'_>,
        mut terms: Terms,
    ) -> Result<Launched, LaunchError> {
        let mut rounds: BTreeMap<CapacityType, usize> = BTreeMap::new();
        let mut told: Vec<String> = Vec::new();
        let mut unavailable = BTreeSet::new();
        loop {
            let left = match candidates::candidates(job.types, &job.wanted, &terms) {
                Ok(left) => left,
                Err(none) => {
                    told.push(none.to_string());
                    let mut error = LaunchError::insufficient(told.join("; "));
                    error.unavailable = unavailable.into_iter().collect();
                    return Err(error);
                }
            };
            let buying = candidates::capacity_type(&left);
            let tried = rounds.entry(buying).or_default();
            *tried += 1;
            match self.buy(job, &left, buying, &mut terms, &mut unavailable).await? {
                Bought::Instance(launched) => return Ok(*launched),
                Bought::Nothing { message } => {
                    info!(capacity_type = %buying, message, "nothing to be had this way");
                    told.push(format!("{buying}: {message}"));
                }
            }
            if *tried >= ROUNDS_EACH {
                terms.given_up.insert(buying);
            }
        }
    }

    /// One fleet request. What it could not give is excluded in `terms` and reported.
    async fn buy(
        &self,
        job: &Job<'_>,
        left: &[Candidate<'_>],
        buying: CapacityType,
        terms: &mut Terms,
        unavailable: &mut BTreeSet<Scope>,
    ) -> Result<Bought, LaunchError> {
        let parts = &self.inner.parts;
        let shapes = fleet::shapes(left, buying, &job.images, job.wanted.wants_efa(), &terms.interruptible);
        if shapes.is_empty() {
            let text = "no image of the EC2NodeClass fits any of the instance types that the claim allows";
            return Err(LaunchError::retryable("LaunchFailed", text));
        }
        let subnets = job.class.status.iter().flat_map(|s| s.subnets.iter().flatten());
        let chosen = parts
            .addresses
            .choose(subnets.map(|s| (s.id.as_str(), s.zone.as_str())), &fleet::least_pods(&shapes));
        if chosen.by_zone.is_empty() {
            return Err(LaunchError::retryable("SubnetResolutionFailed", "the EC2NodeClass has no subnets"));
        }
        let asked = self.ask(job, &shapes, buying, &chosen).await;
        let (answer, places) = match asked {
            Ok(Asking::Answered(answer, places)) => (answer, places),
            Ok(Asking::Found(instance)) => {
                parts.addresses.settle(chosen, instance.subnet_id.as_deref());
                return Ok(Bought::Instance(Box::new(self.adopt(job, &instance))));
            }
            Err(error) => {
                parts.addresses.settle(chosen, None);
                return Err(error);
            }
        };
        let used = answer.launched.first().and_then(|l| l.subnet_id.clone());
        parts.addresses.settle(chosen, used.as_deref());
        self.learn(job, &answer, buying, &places, terms, unavailable).await;
        self.judge(job, answer, buying, &places).await
    }

    /// Marks what could not be had, here and in pricing-cache.
    async fn learn(
        &self,
        job: &Job<'_>,
        answer: &FleetAnswer,
        buying: CapacityType,
        places: &[(String, Place<'_>)],
        terms: &mut Terms,
        unavailable: &mut BTreeSet<Scope>,
    ) {
        let parts = &self.inner.parts;
        let zone_id = |zone: Option<&str>| {
            places
                .iter()
                .find(|(_, p)| Some(&*p.offering.zone) == zone)
                .and_then(|(_, p)| p.offering.zone_id.clone())
        };
        for error in &answer.errors {
            let labels = metrics::FailureLabels {
                zone: error.zone.clone().unwrap_or_default(),
                zone_id: zone_id(error.zone.as_deref()).as_deref().unwrap_or_default().to_owned(),
                capacity_type: buying.as_str(),
                reason: launch_reason(&format!("{}: {}", error.code, error.message)).0.as_str(),
            };
            parts.metrics.failures.get_or_create(&labels).inc();
        }
        let group = job.group.as_ref().map(|g| g.id.as_str());
        let learned = fleet::lessons(answer, &Asked { buying, places, placement_group: group });
        for subnet in &learned.full_subnets {
            parts.addresses.full(subnet);
        }
        for id in &learned.drained_reservations {
            parts.resolved.reservation_drained(id);
        }
        if learned.spot_role_missing {
            terms.given_up.insert(CapacityType::Spot);
        }
        let mut by_code: BTreeMap<String, Vec<Scope>> = BTreeMap::new();
        for (scope, code) in learned.marks {
            unavailable.insert(scope.clone());
            by_code.entry(code).or_default().push(scope);
        }
        for (code, scopes) in by_code {
            info!(code, offerings = scopes.len(), "removing offerings that EC2 has none of for a while");
            parts.shortages.report(scopes, &code).await;
        }
        if answer.launched.is_empty() {
            // EC2 need not name every place it tried; none of them gave anything.
            let all =
                places.iter().map(|(_, p)| (buying, p.kind.name.to_string(), p.offering.zone.to_string()));
            terms.refused.extend(all);
        }
    }

    async fn judge(
        &self,
        job: &Job<'_>,
        answer: FleetAnswer,
        buying: CapacityType,
        places: &[(String, Place<'_>)],
    ) -> Result<Bought, LaunchError> {
        let Some(instance) = answer.launched.first() else {
            self.inner.attempts.used_up(&job.wanted.uid);
            let (reason, message) = fleet::failure(&answer);
            return if answer.is_insufficient_capacity() {
                Ok(Bought::Nothing { message })
            } else {
                Err(LaunchError::retryable(reason, message))
            };
        };
        let place = places
            .iter()
            .find(|(_, p)| *p.kind.name == *instance.instance_type && *p.offering.zone == *instance.zone);
        let Some((_, place)) = place else {
            // EC2 did not say where, or somewhere that was not asked for: the instance itself tells.
            return match self.find(&job.wanted).await {
                Ok(Some(found)) => Ok(Bought::Instance(Box::new(self.adopt(job, &found)))),
                Ok(None) => Err(LaunchError::retryable(
                    "LaunchFailed",
                    format!("instance {} was launched and EC2 does not show it yet", instance.id),
                )),
                Err(error) => Err(LaunchError::of_call(&error)),
            };
        };
        let interruptible = |id: &str| {
            let listed = job.class.status.iter().flat_map(|s| s.capacity_reservations.iter().flatten());
            listed.clone().any(|r| r.id == id && r.interruptible == Some(true))
        };
        let reservation = place.offering.reservation.as_ref().map(|r| {
            let kind = if &*r.kind == "capacity-block" { "capacity-block" } else { "default" };
            (r.id.to_string(), kind, interruptible(&r.id))
        });
        if let Some((id, ..)) = &reservation {
            self.inner.parts.resolved.reservation_taken(id);
        }
        let efa_only = job
            .class
            .spec
            .network_interfaces
            .iter()
            .flatten()
            .filter(|i| i.interface_type.as_str() == "efa-only");
        let efa = if job.wanted.wants_efa() { 1 } else { u32::try_from(efa_only.count()).unwrap_or(1) };
        let facts = Facts {
            id: instance.id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            zone_id: place.offering.zone_id.as_deref().map(str::to_owned),
            image_id: job.images.for_type(place.kind).unwrap_or_default().to_owned(),
            capacity_type: buying,
            tenancy: job.wanted.tenancy().to_owned(),
            efa_interfaces: efa,
            reservation,
            partition: None,
            subnet_id: instance.subnet_id.clone(),
            adopted: false,
        };
        let launched = launched::describe(facts, &job.wanted, job.class, job.types, job.group.as_ref());
        Ok(Bought::Instance(Box::new(launched)))
    }

    fn adopt(&self, job: &Job<'_>, instance: &Instance) -> Launched {
        let parts = &self.inner.parts;
        info!(instance = instance.id, "the claim has an instance already");
        let facts = Facts::of(instance, job.class, parts.reserved_capacity);
        launched::describe(facts, &job.wanted, job.class, job.types, job.group.as_ref())
    }

    /// The instance that was launched for this claim, if EC2 shows one that is not on its way out.
    async fn find(&self, wanted: &Wanted) -> Result<Option<Instance>, CloudError> {
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

    fn placement_group(&self, class: &EC2NodeClass) -> Result<Option<PlacementGroup>, LaunchError> {
        if class.spec.placement_group_selector.is_none() {
            return Ok(None);
        }
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let known = self.inner.parts.resolved.get(name).and_then(|r| r.placement_group);
        known.map(Some).ok_or_else(|| {
            LaunchError::retryable(
                "LaunchFailed",
                "the placement group of the EC2NodeClass is not resolved yet",
            )
        })
    }
}

/// How asking EC2 ended.
enum Asking<'a> {
    /// The places that were asked for, each with its template.
    Answered(FleetAnswer, Vec<(String, Place<'a>)>),
    Found(Box<Instance>),
}

impl Launch {
    /// Makes templates and calls. A template that is gone is made again, once; a token that is taken leads to the
    /// instance, or to the next token.
    async fn ask<'a>(
        &self,
        job: &Job<'_>,
        shapes: &BTreeMap<fleet::Shape, Vec<Place<'a>>>,
        buying: CapacityType,
        chosen: &Chosen,
    ) -> Result<Asking<'a>, LaunchError> {
        let Inner { parts, attempts } = &*self.inner;
        let uid = job.wanted.uid.as_str();
        let mut made_again = false;
        loop {
            let (templates, places) = self.prepare(job, shapes, buying, chosen).await?;
            let names: Vec<String> = templates.iter().map(|t| t.name.clone()).collect();
            let request = self.request(job, shapes, buying, templates);
            let gone = |kind: ErrorKind| kind == ErrorKind::LaunchTemplateNotFound && !made_again;
            attempts.began(uid);
            let span = info_span!("create_fleet", capacity_type = %buying, overrides = places.len());
            match parts.launcher.create_fleet(request).instrument(span).await {
                Ok(answer) if answer.launched.is_empty() && answer.errors.iter().any(|e| gone(e.kind())) => {
                    attempts.used_up(uid);
                }
                Ok(answer) => return Ok(Asking::Answered(answer, places)),
                Err(error) if gone(error.kind) => attempts.refused(uid),
                Err(error) if error.code == MISMATCH => {
                    if let Some(instance) = self.find_patiently(&job.wanted).await? {
                        return Ok(Asking::Found(Box::new(instance)));
                    }
                    attempts.used_up(uid);
                    continue;
                }
                Err(error) => {
                    if !error::outcome_unknown(&error) {
                        attempts.refused(uid);
                    }
                    return Err(LaunchError::of_call(&error));
                }
            }
            made_again = true;
            parts.templates.forget(names.iter().map(String::as_str));
        }
    }

    async fn find_patiently(&self, wanted: &Wanted) -> Result<Option<Instance>, LaunchError> {
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

    async fn prepare<'a>(
        &self,
        job: &Job<'_>,
        shapes: &BTreeMap<fleet::Shape, Vec<Place<'a>>>,
        buying: CapacityType,
        chosen: &Chosen,
    ) -> Result<(Vec<FleetTemplate>, Vec<(String, Place<'a>)>), LaunchError> {
        let parts = &self.inner.parts;
        let setting = Setting {
            class: job.class,
            cluster: &parts.cluster,
            wanted: &job.wanted,
            buying,
            placement_group: job.group.as_ref(),
            reserved_capacity: parts.reserved_capacity,
        };
        let class = job.class.metadata.name.clone().unwrap_or_default();
        let (mut templates, mut asked, mut making) = (Vec::new(), Vec::new(), Vec::new());
        for (shape, places) in shapes {
            let overrides = fleet::overrides(places, &shape.image_id, &chosen.by_zone);
            if overrides.is_empty() {
                continue;
            }
            let rendered = template::render(&setting, shape).map_err(|error| match error {
                userdata::Unrenderable::NoServiceCidr => LaunchError::not_ready(error.to_string()),
                _ => LaunchError::retryable("LaunchFailed", error.to_string()),
            })?;
            let size = rendered.user_data_bytes;
            let labels = metrics::ClassLabels { nodeclass: class.clone() };
            parts.metrics.user_data_bytes.get_or_create(&labels).set(size as u64);
            if size >= userdata::WARN_BYTES {
                warn!(
                    ec2nodeclass = class,
                    bytes = size,
                    limit = userdata::LIMIT_BYTES,
                    "user data is near EC2's limit"
                );
            }
            if !rendered.dropped_settings.is_empty() {
                info!(ec2nodeclass = class, settings = ?rendered.dropped_settings, "settings that Bottlerocket does not know are left out");
            }
            let name = rendered.template.name.clone();
            making.push(parts.templates.ensure(rendered.template));
            asked.extend(places.iter().map(|place| (name.clone(), *place)));
            templates.push(FleetTemplate { name, overrides });
        }
        if templates.is_empty() {
            let text = "no capacity offerings are currently available given the constraints";
            return Err(LaunchError::retryable("LaunchFailed", text));
        }
        try_join_all(making).await.map_err(|error| LaunchError::of_call(&error))?;
        Ok((templates, asked))
    }

    fn request(
        &self,
        job: &Job<'_>,
        shapes: &BTreeMap<fleet::Shape, Vec<Place<'_>>>,
        buying: CapacityType,
        templates: Vec<FleetTemplate>,
    ) -> FleetRequest {
        let Inner { parts, attempts } = &*self.inner;
        let mut tags = template::tags(job.class, &job.wanted.pool, &parts.cluster.name);
        tags.insert(NODECLAIM_TAG.to_owned(), job.wanted.name.clone());
        let reservation = shapes.keys().find_map(|shape| shape.reservation.as_ref().map(|(_, kind)| *kind));
        FleetRequest {
            count: 1,
            client_token: Some(attempts.token(&job.wanted.uid)),
            target: fleet::target(buying, reservation),
            prioritized: job.wanted.price_overlay,
            context: job.class.spec.context.clone().filter(|_| !job.wanted.min_values_relaxed),
            tags,
            templates,
        }
    }
}

/// A class that is not ready launches nothing.
fn check_class(class: &EC2NodeClass, reserved_capacity: bool) -> Result<(), LaunchError> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    if class.metadata.deletion_timestamp.is_some() {
        return Err(LaunchError::insufficient(format!("EC2NodeClass {name} is being deleted")));
    }
    let conditions = class.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let root = conditions::find(conditions, READY);
    let told = root.map(|c| c.message.clone()).unwrap_or_default();
    match conditions::status(conditions, READY) {
        ConditionStatus::True => {}
        ConditionStatus::False => {
            return Err(LaunchError::not_ready(format!("EC2NodeClass {name} is not ready: {told}")));
        }
        _ => {
            let text = format!("whether EC2NodeClass {name} is ready is not known yet: {told}");
            return Err(LaunchError::retryable("NodeClassReadinessUnknown", text));
        }
    }
    if !ConditionSet::ec2_node_class(reserved_capacity).is_ready(conditions, &class.metadata) {
        let text = format!("EC2NodeClass {name} has changed and is not looked at again yet");
        return Err(LaunchError::not_ready(text));
    }
    match crate::nodeclass::forbidden_tag(class) {
        Some(key) => {
            Err(LaunchError::not_ready(format!("EC2NodeClass {name}: tag {key} is the autoscaler's own")))
        }
        None => Ok(()),
    }
}

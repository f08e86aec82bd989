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

mod ask;
mod attempts;
mod buy;
pub mod candidates;
mod error;
mod facts;
mod find;
pub mod fleet;
mod launched;
mod metrics;
pub mod template;
mod templates;
#[cfg(test)]
mod tests;
mod usable;
pub mod userdata;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim};
use cloud::launch::Launcher;
use cloud::nodeclass::PlacementGroup;
use cloud::unavailable::Scope;
use futures::future::BoxFuture;
use jiff::Timestamp;
use model::catalog::{CapacityType, InstanceType};
use runtime::Leadership;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span};

use crate::nodeclass::{Addresses, ResolvedClasses};
use attempts::Attempts;
use candidates::Terms;
use fleet::Images;
use usable::check_class;

pub use error::{Failure, LaunchError};
pub use facts::ClusterFacts;
pub use launched::Launched;
pub use metrics::LaunchMetrics;
pub use templates::Templates;
pub use wanted::Wanted;

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
        // What a class offers follows from its status a moment after the status is there.
        if types.iter().all(|kind| kind.offerings.is_empty()) {
            let text = "what the EC2NodeClass offers is not known yet: no instance type is sold in its subnets' zones";
            return Err(LaunchError::retryable("InstanceTypeResolutionFailed", text));
        }
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

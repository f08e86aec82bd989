//! From a NodeClaim to one EC2 instance: which types and places, which launch templates, the fleet call, and what its answer
//! teaches. What comes of it is written by `lifecycle`, which owns the claim's life.
//!
//! ```text
//! ClaimRequest (claim) + class + types
//!   ├─ gathering    claims of one batch ask together
//!   └─ candidates   filters, cheapest first, 60 types          pure
//!       └─ fleet    shapes, overrides, what an answer teaches  pure
//!           ├─ template, userdata   launch template content    pure
//!           ├─ templates            made on demand in EC2
//!           ├─ attempts             client tokens: one instance a claim, kill -9 or not
//!           └─ batch                who gets which instance   pure
//! ```
//!
//! When a way of buying has nothing to give, the next that the claim allows is tried in the same call: reserved, spot,
//! on-demand.

mod attempts;
mod batch;
pub mod candidates;
mod claim_request;
mod class_readiness;
mod error;
mod facts;
pub mod fleet;
mod fleet_call;
mod gathering;
mod launched;
mod metrics;
mod purchase;
mod recovery;
mod shares;
pub mod template;
mod templates;
#[cfg(test)]
mod tests;
pub mod userdata;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{EC2NodeClass, NodeClaim};
use cloud::launch::Launcher;
use cloud::nodeclass::PlacementGroup;
use cloud::unavailable::Scope;
use futures::future::BoxFuture;
use jiff::Timestamp;
use model::catalog::{CapacityType, InstanceType, Overlaid};
use model::labels;
use runtime::Leadership;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span};

use crate::nodeclass::{Addresses, ResolvedClasses};
use attempts::Attempts;
use candidates::Terms;
use class_readiness::check_class;
use fleet::Images;
use gathering::{Gathering, Role};
use shares::{Key, Shares};

pub use claim_request::ClaimRequest;
pub use error::{Failure, LaunchError};
pub use facts::ClusterFacts;
pub use launched::Launched;
pub(crate) use launched::network;
pub use metrics::LaunchMetrics;
pub use templates::Templates;

const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// Who is told what cannot be had.
pub trait Shortages: Send + Sync {
    /// In force when this returns. `reason` is EC2's code.
    fn report<'a>(&'a self, scopes: Vec<Scope>, reason: &'a str) -> BoxFuture<'a, ()>;
}

/// What the API server knows of the claims of a batch.
pub trait Records: Send + Sync {
    /// Ids of the instances that claims of this NodePool name. When this returns, no write that was under way before can still
    /// add to those of the batch. `Err` says why this cannot be known.
    fn instances_named<'a>(
        &'a self,
        pool: &'a str,
        batch: &'a str,
    ) -> BoxFuture<'a, Result<BTreeSet<String>, String>>;
}

/// What a launch needs from outside.
pub struct Parts {
    pub launcher: Arc<dyn Launcher>,
    pub records: Arc<dyn Records>,
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
    gathering: Gathering<Waiting, Answer>,
}

type Answer = Result<Launched, LaunchError>;

/// A claim on its way to a launch.
struct Waiting {
    wanted: ClaimRequest,
    created: Option<Timestamp>,
}

/// One launch under way, for one claim or for several that are alike.
struct Job<'a> {
    /// Of any of the claims, where they are alike.
    wanted: ClaimRequest,
    key: Key,
    class: &'a EC2NodeClass,
    types: &'a [InstanceType],
    group: Option<PlacementGroup>,
    images: Images,
}

impl Launch {
    pub fn new(parts: Parts) -> Self {
        let inner = Inner { parts, attempts: Attempts::default(), gathering: Gathering::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Before the first launch of a term of leadership.
    pub fn term_began(&self) {
        self.inner.attempts.term_began(Timestamp::now());
    }

    /// The claim's status names its instance now.
    pub fn recorded(&self, claim: &NodeClaim) {
        self.inner.attempts.recorded(claim.metadata.uid.as_deref().unwrap_or_default());
    }

    /// Runs while this replica leads: takes over launch templates, deletes unused ones.
    pub async fn run(self, leadership: Leadership, stop: CancellationToken) -> anyhow::Result<()> {
        leadership
            .lead(stop, |lost| {
                let launch = self.clone();
                async move {
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
        let wanted = ClaimRequest::of(claim)
            .map_err(|error| LaunchError::new(Failure::Terminal, "InvalidNodeClaim", error.to_string()))?;
        if wanted.uid.is_empty() {
            return Err(LaunchError::new(Failure::Terminal, "InvalidNodeClaim", "the NodeClaim has no uid"));
        }
        let span = info_span!("launch", nodeclaim = wanted.name, nodepool = wanted.pool);
        let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let waiting = Waiting { wanted, created };
        let annotations = claim.metadata.annotations.as_ref();
        let batch = annotations.and_then(|all| all.get(labels::LAUNCH_BATCH)).filter(|id| !id.is_empty());
        Box::pin(async {
            match batch {
                Some(id) => self.launch_together(id, waiting, class, types).await,
                None => {
                    let (key, uid) = (Key::of_claim(&waiting.wanted), waiting.wanted.uid.clone());
                    let mut answers = self.run_job(key, vec![waiting], class, types).await;
                    answers.remove(&uid).unwrap_or_else(unanswered)
                }
            }
        })
        .instrument(span)
        .await
    }

    /// With the other claims of its batch that come at about the same time.
    async fn launch_together(
        &self,
        id: &str,
        waiting: Waiting,
        class: &EC2NodeClass,
        types: Option<&[InstanceType]>,
    ) -> Answer {
        let own = waiting.wanted.uid.clone();
        let (items, waited) = match self.inner.gathering.join(id, batch::size(id), waiting).await {
            Role::Answered(answer) => return answer.unwrap_or_else(unanswered),
            Role::Asks { items, waited } => (items, waited),
        };
        self.inner.parts.metrics.calls.batched("create_fleet", items.len(), waited);
        let (mut replies, mut open) = (BTreeMap::new(), Vec::new());
        for (waiting, reply) in items {
            replies.insert(waiting.wanted.uid.clone(), reply);
            open.push(waiting);
        }
        let mut own_answer = unanswered();
        // All are alike, unless somebody wrote the annotation by hand.
        while let Some(first) = open.first() {
            let wanted = first.wanted.clone();
            let (alike, others) = open.into_iter().partition(|w| w.wanted.is_alike(&wanted));
            open = others;
            for (uid, answer) in self.run_job(Key::of_batch(id), alike, class, types).await {
                match replies.remove(&uid).flatten() {
                    // One that went away needs no answer.
                    Some(reply) => drop(reply.send(answer)),
                    None if uid == own => own_answer = answer,
                    None => {}
                }
            }
        }
        own_answer
    }

    /// An answer for each uid.
    async fn run_job(
        &self,
        key: Key,
        claims: Vec<Waiting>,
        class: &EC2NodeClass,
        types: Option<&[InstanceType]>,
    ) -> BTreeMap<String, Answer> {
        let turn = self.inner.attempts.turn(&key.id);
        let _turn = turn.lock().await;
        let created = claims.iter().map(|waiting| waiting.created).min().flatten();
        let unsure = self.inner.attempts.may_have_instances(&key.id, created);
        let mut shares = Shares::new(claims.iter().map(|waiting| &waiting.wanted), unsure);
        for member in shares.open().to_vec() {
            if let Some(launched) = self.inner.attempts.handed(&member.uid) {
                shares.give(&member, launched);
            }
        }
        let first = claims.into_iter().next().filter(|_| !shares.open().is_empty());
        let failed = match first {
            Some(Waiting { wanted, .. }) => {
                Box::pin(self.serve(wanted, key, class, types, &mut shares)).await.err()
            }
            None => None,
        };
        shares.answers(failed)
    }

    /// `Err` is for those that are still without.
    async fn serve(
        &self,
        mut wanted: ClaimRequest,
        key: Key,
        class: &EC2NodeClass,
        types: Option<&[InstanceType]>,
        shares: &mut Shares,
    ) -> Result<(), LaunchError> {
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
        let overlaid: Vec<Overlaid> = candidates::listed(types, &wanted).map(|kind| kind.overlaid).collect();
        for one in overlaid {
            wanted.overlaid.price |= one.price;
            wanted.overlaid.capacity |= one.capacity;
        }
        let status = class.status.as_ref();
        let job = Job {
            group: self.placement_group(class)?,
            images: Images::of(status.and_then(|s| s.amis.as_deref()).unwrap_or_default()),
            wanted,
            key,
            class,
            types,
        };
        if shares.unsure {
            self.recover(&job, shares).await?;
        }
        let mut terms = Terms { strict_min_values: parts.strict_min_values, ..Terms::default() };
        if !parts.reserved_capacity {
            terms.given_up.insert(CapacityType::Reserved);
        }
        self.buy_until_nothing_is_left(&job, shares, terms).await
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

fn unanswered() -> Answer {
    let text = "the fleet request that this claim shared with others ended without an answer for it";
    Err(LaunchError::retryable("LaunchFailed", text))
}

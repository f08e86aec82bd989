//! Creates NodeClaims: the only place that does. Each create is sent under a name chosen here, so that sending it again after a
//! lost answer makes no second node.

mod batches;
mod content;
mod lookup;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{NodeClaim, NodePool};
use futures::StreamExt as _;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use model::labels;
use model::quantity::Quantity;
use model::resources::NODES;
use runtime::watch::Change;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info, warn};

use crate::cluster::{ClusterHandle, LaunchShape, PoolUsage};
use crate::deps::FIELD_MANAGER;
use crate::lifecycle;
use crate::metrics::Metrics;
pub(crate) use content::NewClaim;

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;
const PAGE: u32 = 1000;
const SILENCE: &str = "no answer within 5 s";
const LOST: &str = "the lease was lost before the answer came";
const SYNC_AGAIN: Duration = Duration::from_millis(100);
/// Creates under way at once, after each answer one more, at most so many: the first claim is not to wait for an API server
/// that is busy with all the others, as its launch begins when it is created.
const AT_ONCE: std::ops::RangeInclusive<usize> = 1..=64;

/// A claim to be created.
pub(crate) struct Order {
    pub(crate) pool: Arc<NodePool>,
    pub(crate) wanted: NewClaim,
    /// Command and place in it, for claims that must not be made twice.
    pub(crate) command: Option<(String, usize)>,
    /// Why, for the metric: a word of a closed set.
    pub(crate) reason: &'static str,
}

impl Order {
    /// What it has in common with other claims that fail to launch.
    pub(crate) fn shape(&self) -> LaunchShape {
        LaunchShape::of(&content::claim(&self.pool, String::new(), self.wanted.clone()))
    }
}

/// A claim that is there now.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) claim: Arc<NodeClaim>,
    /// An earlier call had made it.
    pub(crate) existed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("NodePool {pool} is over its limit of {resource}: {limit} allowed, {used} in use")]
    OverLimit { pool: String, resource: String, limit: Quantity, used: Quantity },
    #[error("create NodeClaim {name}")]
    Api { name: String, source: kube::Error },
    /// It may exist, and counts until the API server says that it does not.
    #[error("create NodeClaim {}: no answer from the API server, which may have created it: {why}", claim.name_any())]
    Unanswered { claim: Arc<NodeClaim>, why: String },
    #[error("NodeClaim {name} exists and is not of this command")]
    Foreign { name: String },
    #[error("create NodeClaim {name}: this replica does not lead any more")]
    LeadershipLost { name: String },
}

#[derive(Clone)]
pub(crate) struct Creator {
    pub(crate) claims: Api<NodeClaim>,
    pub(crate) cluster: ClusterHandle,
    pub(crate) metrics: Metrics,
    /// Told at once of what is there to be launched; a watch would tell it later.
    pub(crate) launches: lifecycle::Inbox,
}

impl Creator {
    /// A new leader must know every claim that the former one made, also those that its watch has not shown yet. `false`:
    /// it does not lead any more.
    pub(crate) async fn catch_up(&self, lost: &CancellationToken) -> bool {
        while !self.cluster.fresh().await.synced {
            tokio::select! {
                () = lost.cancelled() => return false,
                () = tokio::time::sleep(SYNC_AGAIN) => {}
            }
        }
        loop {
            match self.unknown_claims().await {
                Ok(claims) => {
                    self.cluster.assume(claims).await;
                    return !lost.is_cancelled();
                }
                Err(error) => {
                    warn!(%error, "cannot list NodeClaims, so nothing is decided yet");
                    tokio::select! {
                        () = lost.cancelled() => return false,
                        () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    }
                }
            }
        }
    }

    /// Claims that no watch has shown. Names are listed, not objects: thousands of claims are tens of megabytes.
    async fn unknown_claims(&self) -> Result<Vec<Arc<NodeClaim>>, kube::Error> {
        let view = self.cluster.fresh().await;
        let known: BTreeSet<&str> = view.nodes.values().filter_map(|n| n.node.claim.as_deref()).collect();
        let mut unknown = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let listed = self.claims.list_metadata(&page).await?;
            let names = listed.items.into_iter().filter_map(|object| object.metadata.name);
            for name in names.filter(|name| !known.contains(name.as_str())) {
                let found = self.claims.get_opt(&name).await?;
                unknown.extend(found.filter(|c| c.spec.node_class_ref.is_supported()).map(Arc::new));
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(unknown),
            }
        }
    }

    /// Creates all at once; one result for each order, in order. What was created counts in the cluster's state when this
    /// returns.
    pub(crate) async fn create(
        &self,
        mut orders: Vec<Order>,
        lost: &CancellationToken,
    ) -> Vec<Result<Made, Error>> {
        batches::annotate(&mut orders);
        let turns = Semaphore::new(*AT_ONCE.start());
        let in_turn = async |order| {
            let turn = turns.acquire().await;
            let made = self.create_one(order, lost).await;
            drop(turn);
            turns.add_permits(1);
            made
        };
        let made: Vec<_> =
            futures::stream::iter(orders).map(in_turn).buffered(*AT_ONCE.end()).collect().await;
        let counts = |made: &Result<Made, Error>| match made {
            Ok(Made { claim, .. }) | Err(Error::Unanswered { claim, .. }) => Some(Arc::clone(claim)),
            Err(_) => None,
        };
        self.cluster.assume(made.iter().filter_map(counts).collect()).await;
        made
    }

    async fn create_one(&self, order: Order, lost: &CancellationToken) -> Result<Made, Error> {
        let pool = order.pool.metadata.name.clone().unwrap_or_default();
        let name = match &order.command {
            Some((command, index)) => names::fixed(&pool, command, *index),
            None => names::random(&pool),
        };
        let span = tracing::info_span!("create nodeclaim", nodeclaim = name, nodepool = pool);
        let relaxed = order.wanted.min_values_relaxed;
        let Order { pool: object, mut wanted, command, reason } = order;
        let create = async {
            if let Some(parent) = runtime::trace::current_traceparent() {
                wanted.annotations.insert(labels::TRACEPARENT.to_owned(), parent);
            }
            if let Some((id, _)) = &command {
                wanted.annotations.insert(labels::COMMAND.to_owned(), id.clone());
            }
            let claim = content::claim(&object, name.clone(), wanted);
            self.send(&claim, command.as_ref().map(|(id, _)| id.as_str()), lost).await
        };
        let (claim, existed) = create.instrument(span).await?;
        if existed {
            return Ok(Made { claim: Arc::new(claim), existed });
        }
        self.metrics.created(reason, &pool, relaxed);
        let requests: Vec<String> = claim
            .spec
            .resources
            .iter()
            .flat_map(|r| r.requests.iter().flatten())
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect();
        let types = claim.spec.requirements.iter().find(|r| r.key == labels::INSTANCE_TYPE);
        info!(
            nodeclaim = name,
            nodepool = pool,
            requests = requests.join(" "),
            instance_types = types.map_or(0, |t| t.values().len()),
            "created nodeclaim"
        );
        let claim = Arc::new(claim);
        // Where there is no room the watch tells.
        let _ = self.launches.try_send(Change::Applied(Arc::clone(&claim)).into());
        Ok(Made { claim, existed })
    }

    /// The same name is sent until there is an answer; that it exists already means that an earlier try got through.
    async fn send(
        &self,
        claim: &NodeClaim,
        command: Option<&str>,
        lost: &CancellationToken,
    ) -> Result<(NodeClaim, bool), Error> {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let mut last = String::new();
        let unanswered = |why| Error::Unanswered { claim: Arc::new(claim.clone()), why };
        for attempt in 0..TRIES {
            if lost.is_cancelled() {
                return Err(match attempt {
                    0 => Error::LeadershipLost { name },
                    _ => unanswered(last),
                });
            }
            let answer = tokio::select! {
                biased;
                () = lost.cancelled() => return Err(unanswered(LOST.to_owned())),
                answer = tokio::time::timeout(CALL_TIMEOUT, self.claims.create(&params, claim)) => answer,
            };
            match answer {
                Ok(Ok(created)) => return Ok((created, false)),
                Ok(Err(kube::Error::Api(status))) if status.is_already_exists() => {
                    let found = self.existing(&name, command, attempt > 0).await;
                    return found.unwrap_or_else(|why| Err(unanswered(why)));
                }
                // A refusal stays one; a failing server may recover.
                Ok(Err(kube::Error::Api(status))) if status.code < 500 && status.code != 429 => {
                    return Err(Error::Api { name, source: kube::Error::Api(status) });
                }
                Ok(Err(source)) => last = source.to_string(),
                Err(_) => last = SILENCE.to_owned(),
            }
            warn!(
                nodeclaim = name,
                error = last,
                attempt,
                "claim not created, sending again under the same name"
            );
            tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
        }
        Err(unanswered(last))
    }

    /// `Err`: it cannot be said whose it is.
    async fn existing(
        &self,
        name: &str,
        command: Option<&str>,
        sent_before: bool,
    ) -> Result<Result<(NodeClaim, bool), Error>, String> {
        let found = tokio::time::timeout(CALL_TIMEOUT, self.claims.get(name)).await;
        let found = found.map_err(|_| SILENCE.to_owned())?.map_err(|error| error.to_string())?;
        let own =
            found.metadata.annotations.as_ref().and_then(|a| a.get(labels::COMMAND)).map(String::as_str);
        let ours = match command {
            Some(command) => own == Some(command),
            None => sent_before,
        };
        Ok(if ours { Ok((found, !sent_before)) } else { Err(Error::Foreign { name: name.to_owned() }) })
    }
}

/// Whether the pool may have no more nodes: what it uses already is above a limit.
pub(crate) fn over_limit(pool: &NodePool, usage: Option<&PoolUsage>) -> Option<Error> {
    let limits = api::convert::amounts(pool.spec.limits.as_ref(), &api::convert::At::Root).ok()?;
    let usage = usage?;
    for (resource, limit) in limits.iter() {
        let used = match resource {
            NODES => Quantity::from_units(i64::from(usage.nodes)),
            _ => usage.capacity.get(resource),
        };
        if used > limit {
            let pool = pool.metadata.name.clone().unwrap_or_default();
            return Some(Error::OverLimit { pool, resource: resource.to_owned(), limit, used });
        }
    }
    None
}

/// The annotation that keeps a claim's room for the pods it is made for.
pub(crate) fn nomination_annotation<'a>(uids: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let text = crate::cluster::nomination_text(uids);
    if text.is_empty() { BTreeMap::new() } else { [(labels::NOMINATED_PODS.to_owned(), text)].into() }
}

//! Static pools (`spec.replicas`, gate StaticCapacity): keeps each at its size, whatever pods wait. Claims are made straight
//! from the template; too many are deleted, the least missed first. Replacing drifted nodes is disruption's.

mod step;

use std::sync::Arc;
use std::time::Duration;

use api::conditions::{self, READY};
use api::convert;
use api::{NodeClaim, NodePool};
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt as _};
use model::labels;
use model::node::NodeState;
use model::requirement::Requirement;
use model::resources::{NODES, Resources};
use runtime::Shell;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info, warn};

use crate::claims::{Creator, NewClaim, Order};
use crate::cluster::{Backoff, ClusterHandle, ClusterView, NodeView, Probes};
use crate::deps::Deps;
use step::{Member, Presence, Step};

/// What the watches brought is looked at together.
const GATHER: Duration = Duration::from_millis(200);
/// For what no change announces: a limit that was in the way, a failed call.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const DELETES_AT_ONCE: usize = 16;
const PROVISIONED: &str = "provisioned";

struct Keeper {
    cluster: ClusterHandle,
    creator: Creator,
    claims: Api<NodeClaim>,
    probes: Mutex<Probes>,
}

/// Runs while this replica leads.
pub(crate) fn spawn(shell: &mut Shell, deps: &Deps, creator: Creator) {
    let (cluster, leadership) = (deps.cluster.clone(), deps.leadership.clone());
    let keeper =
        Arc::new(Keeper { cluster, creator, claims: Api::all(deps.kube.clone()), probes: Mutex::default() });
    let stop = shell.stop();
    let work = leadership.lead(stop, move |lost| {
        let keeper = Arc::clone(&keeper);
        async move { keeper.run(lost).await }
    });
    shell.process.spawn("replicas", work);
}

impl Keeper {
    async fn run(&self, lost: CancellationToken) -> anyhow::Result<()> {
        // Claims that the leader before made count, also those that no watch has shown here yet.
        if !self.creator.catch_up(&lost).await {
            return Ok(());
        }
        let mut views = self.cluster.subscribe();
        let mut tick = tokio::time::interval(LOOK_AGAIN);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = lost.cancelled() => return Ok(()),
                changed = views.changed() => if changed.is_err() {
                    lost.cancelled().await;
                    return Ok(());
                },
                _ = tick.tick() => {}
            }
            tokio::time::sleep(GATHER).await;
            if is_concerned(&views.borrow_and_update()) {
                self.look(&lost).await;
            }
        }
    }

    async fn look(&self, lost: &CancellationToken) {
        let view = self.cluster.fresh().await;
        if !view.synced {
            return;
        }
        for pool in view.pool_objects.values() {
            let Some(replicas) = pool.spec.replicas.filter(|_| is_kept(pool)) else { continue };
            let wanted = usize::try_from(replicas).unwrap_or(0);
            match step::step(wanted, limit(pool), &members(&view, pool)) {
                Step::Nothing => {}
                Step::Limited => info!(nodepool = pool.name_any(), replicas, "limit of nodes reached"),
                Step::Create(count) => self.create(pool, count, &view.backoff, lost).await,
                Step::Delete(names) => self.delete(pool, names).await,
            }
        }
    }

    async fn create(&self, pool: &Arc<NodePool>, count: usize, backoff: &Backoff, lost: &CancellationToken) {
        let Some(wanted) = template(pool) else { return };
        let order =
            || Order { pool: Arc::clone(pool), wanted: wanted.clone(), command: None, reason: PROVISIONED };
        let span =
            tracing::info_span!(parent: None, "replicas", nodepool = pool.name_any(), nodeclaims = count);
        let mut orders: Vec<Order> = (0..count).map(|_| order()).collect();
        let (shape, now) = (order().shape(), Timestamp::now());
        if let Some(pause) = backoff.get(&shape) {
            let is_admitted = self.probes.lock().await.admit(backoff, &shape, now).is_ok();
            if !is_admitted {
                return debug!(
                    nodepool = pool.name_any(),
                    why = pause.explained(&pool.name_any()),
                    "backing off"
                );
            }
            orders.truncate(1);
        }
        for made in self.creator.create(orders, lost).instrument(span).await {
            if let Err(error) = made {
                warn!(nodepool = pool.name_any(), %error, "nodeclaim of a static pool not created, trying again");
            }
        }
    }

    /// Ignores budgets, as the reference does; the drain itself keeps to PodDisruptionBudgets.
    async fn delete(&self, pool: &NodePool, names: Vec<Arc<str>>) {
        info!(nodepool = pool.name_any(), nodeclaims = names.len(), "static pool has too many nodes");
        let delete = |name: Arc<str>| async move {
            let uid = match self.claims.get_opt(&name).await {
                Ok(Some(claim)) => claim.metadata.uid,
                Ok(None) => return,
                Err(error) => return warn!(nodeclaim = &*name, %error, "nodeclaim not deleted, trying again"),
            };
            let preconditions = Some(Preconditions { uid, resource_version: None });
            let outcome =
                self.claims.delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await;
            match outcome {
                Ok(_) => info!(nodeclaim = &*name, "deleted nodeclaim of a static pool that shrank"),
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                Err(error) => warn!(nodeclaim = &*name, %error, "nodeclaim not deleted, trying again"),
            }
        };
        futures::stream::iter(names).for_each_concurrent(DELETES_AT_ONCE, delete).await;
    }
}

fn is_concerned(view: &ClusterView) -> bool {
    view.pool_objects.values().any(|pool| pool.spec.replicas.is_some())
}

fn is_kept(pool: &NodePool) -> bool {
    let all = pool.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    pool.is_managed() && pool.metadata.deletion_timestamp.is_none() && conditions::is_true(all, READY)
}

/// Most nodes that the pool may have.
fn limit(pool: &NodePool) -> Option<usize> {
    let limits = convert::amounts(pool.spec.limits.as_ref(), &convert::At::Root).ok()?;
    limits.contains(NODES).then(|| usize::try_from(limits.get(NODES).value_floor()).unwrap_or(0))
}

fn members(view: &ClusterView, pool: &NodePool) -> Vec<Member> {
    let name = pool.name_any();
    let now = Timestamp::now();
    let of_pool = view.nodes.values().filter(|n| n.node.pool.as_deref() == Some(&*name));
    of_pool.filter_map(|node| member(node, pool, now)).collect()
}

fn member(view: &NodeView, pool: &NodePool, now: Timestamp) -> Option<Member> {
    let presence = match view.node.state {
        _ if view.deleted => Presence::Deleted,
        NodeState::Deleting => Presence::Chosen,
        _ if !view.launched => Presence::Unlaunched,
        _ => Presence::There,
    };
    let life = &pool.spec.template.spec.expire_after;
    Some(Member {
        claim: Arc::clone(view.node.claim.as_ref()?),
        presence,
        empty: view.burden.pods == 0 && !view.burden.protected,
        protected: view.burden.protected,
        cost: i128::from(view.burden.cost) * step::life_left(life, view.created, now),
    })
}

/// What every claim of the pool asks for: the template alone, so that the provider chooses among all types it allows.
fn template(pool: &NodePool) -> Option<NewClaim> {
    let read = convert::node_pool(pool, Arc::default()).inspect_err(
        |error| warn!(nodepool = pool.name_any(), %error, "NodePool left out until it is corrected"),
    );
    let read = read.ok()?;
    let mut requirements = read.requirements;
    for (key, value) in read.labels.iter().filter(|(key, _)| labels::is_well_known(key)) {
        requirements.add(Requirement::one_of(key.as_str(), [value.as_str()]));
    }
    Some(NewClaim {
        requirements,
        instance_types: None,
        requests: Resources::new(),
        min_values_relaxed: false,
        annotations: Default::default(),
    })
}

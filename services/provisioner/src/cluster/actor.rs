//! The task that owns the cluster's state: takes in watches, publishes views, tells the batcher about pods that wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{NodeClaim, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use runtime::watch::{Change, Streamed};
use solver::Snapshot;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::pod_rows::PodRow;
use super::removal_facts::RemovalFacts;
use super::state::{Delta, State};
use super::view::{ClusterView, PodFacts};
use crate::batch::Trigger;
use crate::buffers::BufferKey;
use crate::catalog::Offer;
use crate::metrics::Metrics;

/// Views are published at least this often while something changes; whoever decides asks for a fresh one.
const TICK: Duration = Duration::from_secs(1);
/// With more changes than this, building anew is quicker than carrying them over.
const MANY_CHANGES: usize = 2_000;
const MANY_NODE_CHANGES: usize = 16;

pub(crate) enum Message {
    Node(Change<Node>),
    Claim(Change<NodeClaim>),
    Pool(Change<NodePool>),
    DaemonSet(Change<DaemonSet>),
    VolumeClaim(Change<PersistentVolumeClaim>),
    Volume(Change<PersistentVolume>),
    StorageClass(Change<StorageClass>),
    Csi(Change<CSINode>),
    Budget(Change<PodDisruptionBudget>),
    Namespace(Change<Namespace>),
    Fresh(oneshot::Sender<Arc<ClusterView>>),
    /// What holds nodes where they are.
    RemovalFacts(oneshot::Sender<RemovalFacts>),
    Pod(Streamed<Pod>),
    AboutPod {
        namespace: String,
        name: String,
        reply: oneshot::Sender<Option<PodFacts>>,
    },
    /// What a CapacityBuffer stands for.
    Buffer {
        key: BufferKey,
        pods: Vec<model::pod::Pod>,
    },
    LookAtBuffers,
    /// All pods, for metrics.
    Rows(oneshot::Sender<Vec<PodRow>>),
    Assume(Vec<Arc<NodeClaim>>, oneshot::Sender<()>),
    /// Claims that were created, and no watch has shown.
    OverdueClaims(oneshot::Sender<Vec<Arc<str>>>),
    ClaimAbsent(Arc<str>),
    LaunchFailed {
        claim: Arc<str>,
        why: Arc<str>,
    },
    Nominate {
        nodes: Vec<Arc<str>>,
        until: Timestamp,
    },
}

macro_rules! from_changes {
    ($($kind:ty => $variant:ident),* $(,)?) => {
        $(impl From<Change<$kind>> for Message {
            fn from(change: Change<$kind>) -> Self {
                Self::$variant(change)
            }
        })*
    };
}

from_changes! {
    Node => Node, NodeClaim => Claim, NodePool => Pool, DaemonSet => DaemonSet,
    PersistentVolumeClaim => VolumeClaim, PersistentVolume => Volume, StorageClass => StorageClass,
    CSINode => Csi, PodDisruptionBudget => Budget, Namespace => Namespace,
}

impl From<Streamed<Pod>> for Message {
    fn from(change: Streamed<Pod>) -> Self {
        Self::Pod(change)
    }
}

/// Kinds whose first full list must have arrived.
const KINDS: u32 = 11;

pub(super) struct Actor {
    pub(super) inbox: mpsc::Receiver<Message>,
    pub(super) latest: watch::Sender<Arc<ClusterView>>,
    pub(super) offers: watch::Receiver<Offer>,
    pub(super) triggers: mpsc::Sender<Trigger>,
    pub(super) metrics: Metrics,
    pub(super) state: State,
    /// Bits of the kinds that were listed.
    pub(super) listed: u32,
    pub(super) unsynced_since: Timestamp,
}

impl Actor {
    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut asked: Vec<oneshot::Sender<Arc<ClusterView>>> = Vec::new();
        loop {
            let mut publish = false;
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Ok(()) = self.offers.changed() => self.take_offer(),
                Some(message) = self.inbox.recv() => {
                    self.take(message, &mut asked);
                    // What came in together is published together.
                    for _ in 0..1024 {
                        let Ok(more) = self.inbox.try_recv() else { break };
                        self.take(more, &mut asked);
                    }
                }
                _ = tick.tick() => {
                    let now = Timestamp::now();
                    self.state.pass_time(now);
                    self.state.trigger_again(now);
                    self.observe(now);
                    publish = true;
                }
            }
            self.send_triggers().await;
            if publish || !asked.is_empty() {
                // One that came before the question is part of the answer.
                if self.offers.has_changed().unwrap_or(false) {
                    self.take_offer();
                }
                self.publish().await?;
                let view = Arc::clone(&self.latest.borrow());
                for reply in asked.drain(..) {
                    // Whoever does not wait any more needs no answer.
                    let _ = reply.send(Arc::clone(&view));
                }
            }
        }
    }

    fn take_offer(&mut self) {
        let offer = self.offers.borrow_and_update().clone();
        self.state.offer_changed(offer, Timestamp::now());
    }

    fn take(&mut self, message: Message, asked: &mut Vec<oneshot::Sender<Arc<ClusterView>>>) {
        let now = Timestamp::now();
        let state = &mut self.state;
        let kind = match &message {
            Message::Pod(Streamed::Listed) => Some(0),
            Message::Node(Change::Reset(_)) => Some(1),
            Message::Claim(Change::Reset(_)) => Some(2),
            Message::Pool(Change::Reset(_)) => Some(3),
            Message::DaemonSet(Change::Reset(_)) => Some(4),
            Message::VolumeClaim(Change::Reset(_)) => Some(5),
            Message::Volume(Change::Reset(_)) => Some(6),
            Message::StorageClass(Change::Reset(_)) => Some(7),
            Message::Csi(Change::Reset(_)) => Some(8),
            Message::Budget(Change::Reset(_)) => Some(9),
            Message::Namespace(Change::Reset(_)) => Some(10),
            _ => None,
        };
        if let Some(bit) = kind {
            self.listed |= 1 << bit;
            state.delta.any = true;
        }
        match message {
            Message::Pod(change) => state.pod(change, now),
            Message::Node(change) => state.node(change, now),
            Message::Claim(change) => state.claim(change, now),
            Message::Pool(change) => state.pool(change, now),
            Message::DaemonSet(change) => state.daemon_set(change),
            Message::VolumeClaim(change) => state.volume_claim(change, now),
            Message::Volume(change) => state.volume(change, now),
            Message::StorageClass(change) => state.storage_class(change, now),
            Message::Csi(change) => state.csi(change, now),
            Message::Budget(change) => state.budget(change, now),
            Message::Namespace(change) => state.namespace(change),
            Message::Fresh(reply) => asked.push(reply),
            Message::RemovalFacts(reply) => {
                let _ = reply.send(state.holding(now));
            }
            Message::AboutPod { namespace, name, reply } => {
                let _ = reply.send(state.about(&namespace, &name));
            }
            Message::Buffer { key, pods } => state.set_buffer(key, pods),
            Message::LookAtBuffers => state.look_at_buffers(),
            Message::Rows(reply) => {
                let _ = reply.send(state.rows());
            }
            Message::Assume(claims, done) => {
                claims.into_iter().for_each(|claim| state.assume(claim, now));
                let _ = done.send(());
            }
            Message::OverdueClaims(reply) => {
                let _ = reply.send(state.overdue_claims(now));
            }
            Message::ClaimAbsent(name) => state.claim_absent(&name, now),
            Message::LaunchFailed { claim, why } => {
                // What the failure taught about offerings was published before it was reported here.
                if self.offers.has_changed().unwrap_or(false) {
                    state.offer_changed(self.offers.borrow_and_update().clone(), now);
                }
                state.launch_failed(&claim, &why, now);
            }
            Message::Nominate { nodes, until } => state.nominate(&nodes, until, now),
        }
    }

    async fn send_triggers(&mut self) {
        for (uid, urgent) in std::mem::take(&mut self.state.triggers) {
            let trace = self.state.nodes.trace_of_leaving(&uid);
            // When the batcher is gone the process is ending.
            let _ = self.triggers.send(Trigger { uid, urgent, trace }).await;
        }
    }

    fn synced(&self) -> bool {
        self.listed == (1 << KINDS) - 1 && self.state.offer.version > 0
    }

    fn observe(&mut self, now: Timestamp) {
        let synced = self.synced();
        if synced {
            self.unsynced_since = now;
        }
        let unsynced = now.duration_since(self.unsynced_since).as_secs_f64().max(0.0);
        self.metrics.refused(std::mem::take(&mut self.state.refused));
        self.metrics.cluster_state(self.state.nodes.entries.len(), synced, unsynced);
    }

    /// Brings the published view up to date, if anything changed since.
    async fn publish(&mut self) -> anyhow::Result<()> {
        let old = Arc::clone(&self.latest.borrow());
        let synced = self.synced();
        // A half-filled view answers nothing, and the first full one is built anew.
        if !synced && !old.synced {
            self.state.delta = Delta { any: true, rebuild: true, ..Delta::default() };
            self.state.delta.nodes.extend(self.state.nodes.entries.keys().cloned());
            return Ok(());
        }
        let delta = std::mem::take(&mut self.state.delta);
        if !delta.any
            && !delta.rebuild
            && synced == old.synced
            && self.state.offer.catalog_version == old.catalog_version
        {
            let claims_version = self.state.claims_version;
            if claims_version > old.claims_version {
                self.latest.send_replace(Arc::new(ClusterView { claims_version, ..(*old).clone() }));
            }
            return Ok(());
        }
        let node_changes = delta
            .changes
            .iter()
            .filter(|c| matches!(c, solver::Change::NodeSet(_) | solver::Change::NodeRemoved(_)))
            .count();
        // Offerings are compiled into a snapshot: with less room in a reservation they are others.
        let held = if node_changes == 0 {
            (*old.held_reservations).clone()
        } else {
            self.state.nodes.held_reservations()
        };
        let fewer = held != *old.held_reservations;
        let anew =
            delta.rebuild || fewer || delta.changes.len() > MANY_CHANGES || node_changes > MANY_NODE_CHANGES;
        let snapshot = if anew { None } else { carried(&old.snapshot, delta.changes).await? };
        let mut usable = Arc::clone(&old.usable_pools);
        let (mut daemon_sets, mut namespaces) = (Arc::clone(&old.daemon_sets), Arc::clone(&old.namespaces));
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => {
                let input = self.state.input();
                usable = Arc::new(input.pools.clone());
                daemon_sets = Arc::new(input.daemon_sets.clone());
                namespaces = Arc::new(input.namespaces.clone());
                tokio::task::spawn_blocking(move || Snapshot::build(input)).await?
            }
        };
        let state = &self.state;
        let mut nodes = Arc::clone(&old.nodes);
        if !delta.nodes.is_empty() {
            let map = Arc::make_mut(&mut nodes);
            for name in &delta.nodes {
                match state.node_view(name) {
                    Some(view) => map.insert(Arc::clone(name), Arc::new(view)),
                    None => map.remove(name),
                };
            }
        }
        let view = ClusterView {
            version: old.version + 1,
            at: Timestamp::now(),
            synced,
            catalog_version: state.offer.catalog_version,
            claims_version: state.claims_version,
            snapshot,
            pools: if delta.nodes.is_empty() { Arc::clone(&old.pools) } else { Arc::new(state.usage()) },
            nodes,
            usable_pools: usable,
            held_reservations: Arc::new(held),
            backoff: state.launches.backoff(),
            storage: Arc::clone(&state.storage),
            pool_objects: Arc::new(state.pools.clone()),
            pending: Arc::new(state.pending()),
            leaving: Arc::new(state.leaving_pods()),
            placeholders: Arc::clone(&state.buffers.owners),
            placeholder_pods: Arc::clone(&state.buffers.all),
            daemon_sets,
            namespaces,
            bound_pods: u32::try_from(state.pods.bound).unwrap_or(u32::MAX),
        };
        self.note_unpriced(&old, &view, &delta.nodes);
        self.latest.send_replace(Arc::new(view));
        Ok(())
    }

    /// Counts, once each, nodes of ours whose price nothing in the catalogue tells: their pool's cost lacks them.
    fn note_unpriced(&self, old: &ClusterView, new: &ClusterView, changed: &BTreeSet<Arc<str>>) {
        let launched = |view: &ClusterView, name: &Arc<str>| view.nodes.get(name).is_some_and(|n| n.launched);
        for name in changed.iter().filter(|name| launched(new, name) && !launched(old, name)) {
            let pool = new.nodes.get(name).and_then(|n| n.node.pool.as_deref());
            let priced = new.snapshot.node_id(name).and_then(|id| new.snapshot.node_price(id));
            if let (Some(pool), None) = (pool, priced) {
                self.metrics.unpriced(pool);
            }
        }
    }
}

/// `None` when the changes do not fit what the snapshot was built for.
async fn carried(snapshot: &Snapshot, changes: Vec<solver::Change>) -> anyhow::Result<Option<Snapshot>> {
    if changes.is_empty() {
        return Ok(Some(snapshot.clone()));
    }
    let snapshot = snapshot.clone();
    Ok(tokio::task::spawn_blocking(move || snapshot.apply(&changes).ok()).await?)
}

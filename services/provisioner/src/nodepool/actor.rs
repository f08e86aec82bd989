//! Keeps every pool's status and hash up to date: when a pool, its class or a registration changed at once, its count when the
//! cluster changed, at most once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::conditions::Finding;
use api::{EC2NodeClass, NodePool};
use jiff::Timestamp;
use runtime::Leadership;
use runtime::watch::Change;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::health::{self, Ring};
use super::metrics::PoolMetrics;
use super::status::{self, Known};
use super::write::Writer;
use super::{Registered, hash};
use crate::cluster::ClusterHandle;
use crate::deps::Deps;

/// The reference counts every five seconds. Here a change of the cluster brings it forward.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const SOONEST: Duration = Duration::from_secs(1);

pub(crate) enum Message {
    Pools(Change<NodePool>),
    Classes(Change<EC2NodeClass>),
    /// What became of a claim whose owner is the pool with this uid.
    Registration {
        pool_uid: String,
        registered: Registered,
    },
}

impl From<Change<NodePool>> for Message {
    fn from(change: Change<NodePool>) -> Self {
        Self::Pools(change)
    }
}

impl From<Change<EC2NodeClass>> for Message {
    fn from(change: Change<EC2NodeClass>) -> Self {
        Self::Classes(change)
    }
}

struct Pool {
    object: Arc<NodePool>,
    ring: Ring,
    /// Not written yet.
    health: Option<Finding>,
}

pub(super) struct Actor {
    inbox: mpsc::Receiver<Message>,
    pools: BTreeMap<String, Pool>,
    classes: BTreeMap<String, Arc<EC2NodeClass>>,
    synced: [bool; 2],
    /// Pools to be looked at.
    due: BTreeSet<String>,
    cluster: ClusterHandle,
    writer: Writer,
    metrics: PoolMetrics,
}

impl Actor {
    pub(super) fn new(inbox: mpsc::Receiver<Message>, deps: &Deps) -> Self {
        Self {
            inbox,
            pools: BTreeMap::new(),
            classes: BTreeMap::new(),
            synced: [false; 2],
            due: BTreeSet::new(),
            cluster: deps.cluster.clone(),
            writer: Writer::new(deps.kube.clone()),
            metrics: PoolMetrics::new(&deps.metrics),
        }
    }

    pub(super) async fn run(mut self, leadership: Leadership, stop: CancellationToken) -> anyhow::Result<()> {
        let mut views = self.cluster.subscribe();
        let mut tick = interval(COUNT_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut counted, mut followed) = (Instant::now(), true);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message),
                    None => {
                        stop.cancelled().await;
                        return Ok(());
                    }
                },
                _ = tick.tick() => self.all_due(),
                changed = async { tokio::time::sleep_until(counted + SOONEST).await; views.changed().await }, if followed => {
                    followed = changed.is_ok();
                    views.mark_unchanged();
                    counted = Instant::now();
                    self.all_due();
                }
            }
            if let Some(term) = leadership.held().filter(|_| self.synced == [true; 2]) {
                let lost = term.lost();
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(()),
                    () = lost.cancelled() => self.all_due(),
                    () = self.bring_up_to_date() => {}
                }
            }
        }
    }

    fn all_due(&mut self) {
        self.due.extend(self.pools.keys().cloned());
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Pools(change) => self.take_pools(change),
            Message::Classes(change) => self.take_classes(change),
            Message::Registration { pool_uid, registered } => {
                let uid = Some(pool_uid);
                let found = self.pools.iter_mut().find(|(_, pool)| pool.object.metadata.uid == uid);
                let Some((name, pool)) = found else { return };
                let status = pool.object.status.as_ref();
                let list = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
                if let Some(finding) = health::record(&mut pool.ring, list, &registered) {
                    pool.health = Some(finding);
                    self.due.insert(name.clone());
                }
            }
        }
    }

    fn take_pools(&mut self, change: Change<NodePool>) {
        match change {
            Change::Applied(object) => self.put(object),
            Change::Deleted(object) => self.remove(object.metadata.name.as_deref().unwrap_or_default()),
            Change::Reset(objects) => {
                self.synced[0] = true;
                let listed: BTreeSet<_> =
                    objects.iter().filter_map(|pool| pool.metadata.name.clone()).collect();
                let gone: Vec<String> =
                    self.pools.keys().filter(|name| !listed.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| self.remove(name));
                objects.into_iter().for_each(|object| self.put(object));
            }
        }
    }

    fn put(&mut self, object: Arc<NodePool>) {
        let name = object.metadata.name.clone().unwrap_or_default();
        if !object.is_managed() {
            return self.remove(&name);
        }
        self.metrics.show(&object);
        self.due.insert(name.clone());
        match self.pools.get_mut(&name).filter(|pool| pool.object.metadata.uid == object.metadata.uid) {
            // Own writes are known before the watch tells of what was before them.
            Some(pool) if crate::lifecycle::is_older(&*object, &*pool.object) => {}
            Some(pool) => pool.object = object,
            None => drop(self.pools.insert(name, Pool { object, ring: Ring::default(), health: None })),
        }
    }

    fn remove(&mut self, name: &str) {
        self.pools.remove(name);
        self.due.remove(name);
        self.metrics.forget(name);
    }

    fn take_classes(&mut self, change: Change<EC2NodeClass>) {
        let name_of = |class: &EC2NodeClass| class.metadata.name.clone().unwrap_or_default();
        let changed = match change {
            Change::Applied(object) => {
                let name = name_of(&object);
                self.classes.insert(name.clone(), object);
                name
            }
            Change::Deleted(object) => {
                let name = name_of(&object);
                self.classes.remove(&name);
                name
            }
            Change::Reset(objects) => {
                self.synced[1] = true;
                self.classes = objects.into_iter().map(|object| (name_of(&object), object)).collect();
                return self.all_due();
            }
        };
        let uses = |pool: &&Pool| pool.object.spec.template.spec.node_class_ref.name == changed;
        let names = self.pools.values().filter(uses).filter_map(|pool| pool.object.metadata.name.clone());
        self.due.extend(names.collect::<Vec<_>>());
    }

    /// What fails is tried again with the next tick.
    async fn bring_up_to_date(&mut self) {
        for name in std::mem::take(&mut self.due) {
            if let Err(error) = self.one(&name).await {
                warn!(
                    nodepool = name,
                    error = format!("{error:#}"),
                    "keeping a pool up to date failed, trying again"
                );
            }
        }
    }

    async fn one(&mut self, name: &str) -> anyhow::Result<()> {
        let Some(pool) = self.pools.get_mut(name) else { return Ok(()) };
        if let Some(rehash) = hash::of_pool(&pool.object) {
            let Some(written) = self.writer.rehash(&pool.object, &rehash).await? else { return Ok(()) };
            pool.object = Arc::new(written);
        }
        let view = self.cluster.latest();
        let class = self.classes.get(&pool.object.spec.template.spec.node_class_ref.name);
        let known = Known {
            pool: &pool.object,
            class: class.map(|class| &**class),
            usage: view.synced.then(|| view.pools.get(name)),
            health: pool.health.clone(),
        };
        let Some(wanted) = status::wanted(&known, &mut pool.ring, Timestamp::now()) else {
            pool.health = None;
            return Ok(());
        };
        if let Some(written) = self.writer.status(&pool.object, &wanted).await? {
            pool.object = Arc::new(written);
            pool.health = None;
            self.metrics.show(&pool.object);
        }
        Ok(())
    }
}

//! Resolves buffers when they, their templates or, every so often, their workloads change; tells the cluster, and as the leader
//! their status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::CapacityBuffer;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use runtime::Leadership;
use runtime::watch::Change;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::resolve::{self, Model, Reference, Unresolved, Workload};
use super::status::{self, Known};
use super::{BufferKey, Placed};
use crate::cluster::ClusterHandle;
use crate::deps::{Deps, FIELD_MANAGER};

/// Workloads are not watched; their size is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

pub(super) enum Message {
    Buffers(Change<CapacityBuffer>),
    Templates(Change<PodTemplate>),
    Decided(BTreeMap<BufferKey, Placed>),
}

impl From<Change<CapacityBuffer>> for Message {
    fn from(change: Change<CapacityBuffer>) -> Self {
        Self::Buffers(change)
    }
}

impl From<Change<PodTemplate>> for Message {
    fn from(change: Change<PodTemplate>) -> Self {
        Self::Templates(change)
    }
}

struct Entry {
    object: Arc<CapacityBuffer>,
    placed: Option<Placed>,
}

pub(super) struct Actor {
    inbox: mpsc::Receiver<Message>,
    kube: Client,
    cluster: ClusterHandle,
    leadership: Leadership,
    buffers: BTreeMap<BufferKey, Entry>,
    templates: BTreeMap<BufferKey, Arc<PodTemplate>>,
    /// Both kinds were listed.
    synced: [bool; 2],
    due: BTreeSet<BufferKey>,
}

fn key_of<K: Resource>(object: &K) -> BufferKey {
    let meta = object.meta();
    (
        Arc::from(meta.namespace.as_deref().unwrap_or_default()),
        Arc::from(meta.name.as_deref().unwrap_or_default()),
    )
}

impl Actor {
    pub(super) fn new(inbox: mpsc::Receiver<Message>, deps: &Deps) -> Self {
        Self {
            inbox,
            kube: deps.kube.clone(),
            cluster: deps.cluster.clone(),
            leadership: deps.leadership.clone(),
            buffers: BTreeMap::new(),
            templates: BTreeMap::new(),
            synced: [false; 2],
            due: BTreeSet::new(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval_at(Instant::now() + LOOK_AGAIN, LOOK_AGAIN);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(message) = self.inbox.recv() => {
                    self.take(message).await;
                    while let Ok(more) = self.inbox.try_recv() {
                        self.take(more).await;
                    }
                }
                _ = tick.tick() => {
                    self.due.extend(self.buffers.keys().cloned());
                    self.cluster.look_at_buffers().await;
                }
            }
            if self.synced == [true; 2] {
                for key in std::mem::take(&mut self.due) {
                    self.visit(&key).await;
                }
            }
        }
    }

    async fn take(&mut self, message: Message) {
        match message {
            Message::Buffers(Change::Applied(object)) => self.put(object),
            Message::Buffers(Change::Deleted(object)) => self.remove(&key_of(&*object)).await,
            Message::Buffers(Change::Reset(objects)) => {
                self.synced[0] = true;
                let listed: BTreeSet<BufferKey> = objects.iter().map(|o| key_of(&**o)).collect();
                let gone: Vec<BufferKey> =
                    self.buffers.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    self.remove(&key).await;
                }
                objects.into_iter().for_each(|object| self.put(object));
            }
            Message::Templates(change) => self.templates_changed(change),
            Message::Decided(placed) => {
                // The next decision counts the nodes that this one created, and the buffer's condition with them.
                if placed.values().any(|placed| placed.created > 0) {
                    self.cluster.look_at_buffers().await;
                }
                for (key, placed) in placed {
                    if let Some(entry) = self.buffers.get_mut(&key).filter(|e| e.placed != Some(placed)) {
                        entry.placed = Some(placed);
                        self.due.insert(key);
                    }
                }
            }
        }
    }

    fn put(&mut self, object: Arc<CapacityBuffer>) {
        let key = key_of(&*object);
        let old = self.buffers.remove(&key);
        // What only our own status write changed needs no visit.
        let same = old.as_ref().is_some_and(|old| old.object.spec == object.spec);
        if !same {
            self.due.insert(key.clone());
        }
        let placed = old.filter(|_| same).and_then(|old| old.placed);
        self.buffers.insert(key, Entry { object, placed });
    }

    async fn remove(&mut self, key: &BufferKey) {
        self.buffers.remove(key);
        self.due.remove(key);
        self.cluster.set_buffer(key.clone(), Vec::new()).await;
    }

    fn templates_changed(&mut self, change: Change<PodTemplate>) {
        let mut changed = BTreeSet::new();
        match change {
            Change::Applied(object) => {
                changed.insert(key_of(&*object));
                self.templates.insert(key_of(&*object), object);
            }
            Change::Deleted(object) => {
                changed.insert(key_of(&*object));
                self.templates.remove(&key_of(&*object));
            }
            Change::Reset(objects) => {
                self.synced[1] = true;
                self.templates = objects.into_iter().map(|object| (key_of(&*object), object)).collect();
                return self.due.extend(self.buffers.keys().cloned());
            }
        }
        let uses = |(key, entry): (&BufferKey, &Entry)| {
            let named = entry.object.spec.pod_template_ref.as_ref()?;
            changed.contains(&(key.0.clone(), Arc::from(named.name.as_str()))).then(|| key.clone())
        };
        self.due.extend(self.buffers.iter().filter_map(uses).collect::<Vec<_>>());
    }

    async fn visit(&mut self, key: &BufferKey) {
        let Some(object) = self.buffers.get(key).map(|entry| Arc::clone(&entry.object)) else { return };
        let resolved = match self.model(&object).await {
            Ok(found) => found.and_then(|model| resolve::pods(&object, &model).map(|pods| (model, pods))),
            Err(error) => {
                warn!(capacitybuffer = key.1.as_ref(), %error, "workload of a buffer cannot be read, trying again");
                return;
            }
        };
        let (resolved, pods) = match resolved {
            Ok((model, pods)) => (Ok((model, pods.len())), pods),
            Err(why) => (Err(why), Vec::new()),
        };
        self.cluster.set_buffer(key.clone(), pods).await;
        let Some(entry) = self.buffers.get_mut(key) else { return };
        let resolved = resolved.as_ref().map(|(model, count)| (model, *count));
        let known = Known { buffer: &entry.object, resolved, placed: entry.placed };
        let Some(wanted) = status::wanted(&known, Timestamp::now()) else { return };
        let Some(term) = self.leadership.held() else { return };
        let api: Api<CapacityBuffer> = Api::namespaced(self.kube.clone(), &key.0);
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": object.metadata.resource_version},
            "status": wanted,
        }));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = tokio::select! {
            biased;
            () = term.lost().cancelled_owned() => return,
            written = api.patch_status(&key.1, &params, &patch) => written,
        };
        match written {
            Ok(written) => entry.object = Arc::new(written),
            // Gone, or the watch brings a newer one.
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
            Err(error) => {
                warn!(capacitybuffer = key.1.as_ref(), %error, "status of a buffer not written, trying again")
            }
        }
    }

    /// `Err`: it cannot be said now.
    async fn model(&self, buffer: &CapacityBuffer) -> Result<Result<Model, Unresolved>, kube::Error> {
        let namespace = buffer.namespace().unwrap_or_default();
        let (kind, name) = match resolve::reference(buffer) {
            Err(why) => return Ok(Err(why)),
            Ok(Reference::Template(name)) => {
                let found = self.templates.get(&(Arc::from(namespace.as_str()), Arc::from(name)));
                return Ok(match found {
                    Some(object) => Ok(Model {
                        template: object.template.clone().unwrap_or_default(),
                        replicas: None,
                        generation: object.metadata.generation,
                    }),
                    None => Err(Unresolved::TemplateNotFound(format!(
                        "there is no PodTemplate {namespace}/{name}"
                    ))),
                });
            }
            Ok(Reference::Workload { kind, name }) => (kind, name),
        };
        let found: Option<(Option<PodTemplateSpec>, Option<i32>)> = match kind {
            Workload::Deployment => {
                let found =
                    Api::<Deployment>::namespaced(self.kube.clone(), &namespace).get_opt(name).await?;
                found.and_then(|o| o.spec).map(|spec| (Some(spec.template), spec.replicas))
            }
            Workload::StatefulSet => {
                let found =
                    Api::<StatefulSet>::namespaced(self.kube.clone(), &namespace).get_opt(name).await?;
                found.and_then(|o| o.spec).map(|spec| (Some(spec.template), spec.replicas))
            }
            Workload::ReplicaSet => {
                let found =
                    Api::<ReplicaSet>::namespaced(self.kube.clone(), &namespace).get_opt(name).await?;
                found.and_then(|o| o.spec).map(|spec| (spec.template, spec.replicas))
            }
        };
        Ok(match found {
            Some((template, replicas)) => Ok(Model {
                template: template.unwrap_or_default(),
                replicas: Some(replicas.unwrap_or(1)),
                generation: None,
            }),
            None => Err(Unresolved::WorkloadNotFound(format!("there is no {kind:?} {namespace}/{name}"))),
        })
    }
}

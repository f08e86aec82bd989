//! Pods in compact form: what scheduling needs, and just enough of the rest to judge again when something else changes. Whole
//! Pod objects are kept only where volumes must be resolved again, with what they were resolved with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::convert::{self, At, PodBudget, PodContext, Specs};
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use model::duration::GoDuration;
use model::labels;
use model::pod::Pod;
use model::resources::Resources;
use rustc_hash::{FxHashMap, FxHashSet};

use super::nominations::ShortUid;
use super::pod_rows::PodDisplay;
use super::refusals::{Refusals, Said};
use super::storage::{Consulted, Storage, StorageRef, Touched};
use crate::observe::PodMetrics;

/// More CPUs and bytes than any node has, without overflowing sums of them.
const WHOLE_NODE: &str = "40T";

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Where the solver's snapshot has the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Shown {
    #[default]
    No,
    Pending,
    /// By the solver's name of the node.
    On(Arc<str>),
}

pub(super) struct Record {
    /// Its node is Kubernetes' name, not yet the solver's. Shared with views.
    pub(super) pod: Arc<Pod>,
    /// kube-scheduler found no place, and it is ours to find one.
    pub(super) waiting_since: Option<Timestamp>,
    pub(super) triggered: Option<Timestamp>,
    /// In [`convert::eviction_cost`]'s unit.
    pub(super) eviction_cost: i64,
    residue: Residue,
    /// Only for pods with volume claims.
    volumes: Option<Box<Resolved>>,
    pub(super) shown: Shown,
    pub(super) told: PodDisplay,
    /// Of a pod that waits.
    pub(super) said: Option<Said>,
    /// Of nodes that were made for it.
    pub(super) refusals: Option<Box<Refusals>>,
}

/// A pod whose volumes were resolved.
struct Resolved {
    object: Arc<core::Pod>,
    with: Vec<StorageRef>,
}

/// What decides whether a running pod may be moved, beyond what [`Pod`] holds.
#[derive(Clone, Debug, PartialEq)]
struct Residue {
    owner: Owner,
    do_not_disrupt: Option<Arc<str>>,
    start: Option<Timestamp>,
    unready: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Other,
    StatefulSet,
    DaemonSet,
    Node,
}

impl Owner {
    fn reference(self) -> Option<OwnerReference> {
        let (api_version, kind) = match self {
            Self::Other => return None,
            Self::StatefulSet => ("apps/v1", "StatefulSet"),
            Self::DaemonSet => ("apps/v1", "DaemonSet"),
            Self::Node => ("v1", "Node"),
        };
        Some(OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            ..OwnerReference::default()
        })
    }
}

impl Residue {
    fn of(pod: &core::Pod) -> Self {
        let owner = if convert::owned_by(pod, "apps/v1", "DaemonSet") {
            Owner::DaemonSet
        } else if convert::owned_by(pod, "apps/v1", "StatefulSet") {
            Owner::StatefulSet
        } else if convert::owned_by(pod, "v1", "Node") {
            Owner::Node
        } else {
            Owner::Other
        };
        let status = pod.status.as_ref();
        let annotations = pod.metadata.annotations.as_ref();
        Self {
            owner,
            do_not_disrupt: annotations
                .and_then(|a| a.get(labels::DO_NOT_DISRUPT))
                .map(|v| Arc::from(v.as_str())),
            start: status.and_then(|s| s.start_time.as_ref()).map(|t| t.0),
            unready: status
                .and_then(|s| s.conditions.as_deref())
                .unwrap_or_default()
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "False"),
        }
    }

    /// What follows from it for the pod is the same, and will be: starting and becoming ready only matter where time or a
    /// budget decides, and what a budget makes of it is in the pod.
    fn judges_like(&self, other: &Self) -> bool {
        let unprotected = self.do_not_disrupt.is_none() && other.do_not_disrupt.is_none();
        self == other || (unprotected && self.owner == other.owner)
    }

    /// When a protection for a limited time ends.
    fn protected_until(&self) -> Option<Timestamp> {
        let length: GoDuration = self.do_not_disrupt.as_deref()?.parse().ok()?;
        let nanos = Some(length.nanos()).filter(|n| *n > 0)?;
        self.start?.checked_add(jiff::SignedDuration::from_nanos(nanos)).ok()
    }
}

#[derive(Default)]
pub(super) struct Pods {
    /// Boxed: a record is ten times as large as its key, and a tree leaves a third of its slots empty.
    pub(super) records: BTreeMap<PodKey, Box<Record>>,
    by_short: FxHashMap<ShortUid, PodKey>,
    /// By Kubernetes' name of the node.
    by_node: FxHashMap<Arc<str>, FxHashSet<PodKey>>,
    /// How many are in `by_node`.
    pub(super) bound: usize,
    /// By what their volumes were resolved with.
    by_storage: FxHashMap<StorageRef, FxHashSet<PodKey>>,
    /// Pods that wait for a place.
    pub(super) waiting: BTreeSet<PodKey>,
    specs: Specs,
    names: FxHashSet<Arc<str>>,
    /// By what they read like.
    pub(super) limits: FxHashMap<String, Arc<Resources>>,
    pub(super) metrics: PodMetrics,
}

/// What an event about a pod changed.
pub(super) enum Outcome {
    Nothing,
    /// It is here, new or different.
    Changed(PodKey),
    Gone(PodKey, Box<Record>),
}

impl Pods {
    pub(super) fn new(metrics: PodMetrics) -> Self {
        Self { metrics, ..Self::default() }
    }

    pub(super) fn key(object: &core::Pod) -> PodKey {
        PodKey {
            namespace: Arc::from(object.metadata.namespace.as_deref().unwrap_or("default")),
            name: Arc::from(object.metadata.name.as_deref().unwrap_or_default()),
        }
    }

    /// The key as it is kept, so that sets of keys share names.
    pub(super) fn known(&self, key: PodKey) -> PodKey {
        self.records.get_key_value(&key).map_or(key, |(known, _)| known.clone())
    }

    pub(super) fn apply(
        &mut self,
        object: &Arc<core::Pod>,
        storage: &Storage,
        budgets: &BTreeMap<String, Vec<PodBudget>>,
        now: Timestamp,
    ) -> Result<Outcome, convert::Error> {
        let mut key = Self::key(object);
        if convert::is_terminal(object) {
            return Ok(self.remove(&key));
        }
        let (mut pod, resolved_with) = self.converted(object, storage, budgets, now)?;
        key = PodKey { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) };
        // A pod on its way out needs no new place, even if it never had one.
        let waiting = convert::is_provisionable(object) && !pod.terminating;
        let residue = Residue::of(object);
        let known = self.records.get(&key).filter(|o| o.pod.uid == pod.uid);
        let said = known.map(|o| o.said.as_ref());
        let said = if waiting { Said::of(object, said.flatten(), now) } else { None };
        let refusals = known.and_then(|o| o.refusals.clone());
        let before = known.map(|o| o.told.clone());
        let told = self.tell(object, before.as_ref(), waiting, now);
        if pod.node.is_none() && pod.rejected.is_none() {
            pod.rejected = self.waits_for_volume(&pod, &resolved_with, storage);
        }
        if let Some(refusals) = &refusals {
            refusals.apply(&mut pod, now);
        }
        let old = self.records.get(&key);
        let same_pod = old.filter(|o| o.pod.uid == pod.uid);
        let eviction_cost = convert::eviction_cost(object, pod.spec.priority);
        let volumes = has_claims(object)
            .then(|| Box::new(Resolved { object: Arc::clone(object), with: resolved_with }));
        let with = |volumes: &Option<Box<Resolved>>| volumes.as_ref().map(|v| v.with.clone());
        if same_pod.is_some_and(|o| {
            *o.pod == pod
                && o.waiting_since.is_some() == waiting
                && o.residue.judges_like(&residue)
                && o.eviction_cost == eviction_cost
                && with(&o.volumes) == with(&volumes)
        }) {
            if let Some(record) = self.records.get_mut(&key) {
                (record.told, record.residue, record.volumes) = (told, residue, volumes);
                record.said = said;
            }
            return Ok(Outcome::Nothing);
        }
        let waiting_since = waiting.then(|| same_pod.and_then(|o| o.waiting_since).unwrap_or(now));
        let triggered = same_pod.and_then(|o| o.triggered).filter(|_| waiting);
        let shown = old.map(|o| o.shown.clone()).unwrap_or_default();
        if old.is_some() {
            self.forget(&key);
        }
        if let Some(short) = ShortUid::of(&pod.uid) {
            self.by_short.insert(short, key.clone());
        }
        if let Some(node) = &pod.node {
            self.by_node.entry(Arc::clone(node)).or_default().insert(key.clone());
            self.bound += 1;
        }
        for one in volumes.iter().flat_map(|volumes| &volumes.with) {
            self.by_storage.entry(one.clone()).or_default().insert(key.clone());
        }
        if waiting {
            self.waiting.insert(key.clone());
        }
        let pod = Arc::new(pod);
        self.records.insert(
            key.clone(),
            Box::new(Record {
                pod,
                waiting_since,
                triggered,
                eviction_cost,
                residue,
                volumes,
                shown,
                told,
                said,
                refusals,
            }),
        );
        Ok(Outcome::Changed(key))
    }

    /// Drops a pod from every index but the map itself.
    fn forget(&mut self, key: &PodKey) {
        let Some(record) = self.records.get(key) else { return };
        if let Some(short) = ShortUid::of(&record.pod.uid) {
            self.by_short.remove(&short);
        }
        if let Some(node) = &record.pod.node
            && let Some(pods) = self.by_node.get_mut(node)
        {
            self.bound -= usize::from(pods.remove(key));
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
        for one in record.volumes.iter().flat_map(|volumes| &volumes.with) {
            if let Some(pods) = self.by_storage.get_mut(one) {
                pods.remove(key);
                if pods.is_empty() {
                    self.by_storage.remove(one);
                }
            }
        }
        self.waiting.remove(key);
    }

    pub(super) fn remove(&mut self, key: &PodKey) -> Outcome {
        self.forget(key);
        match self.records.remove(key) {
            Some(record) => Outcome::Gone(key.clone(), record),
            None => Outcome::Nothing,
        }
    }

    fn converted(
        &mut self,
        object: &core::Pod,
        storage: &Storage,
        budgets: &BTreeMap<String, Vec<PodBudget>>,
        now: Timestamp,
    ) -> Result<(Pod, Vec<StorageRef>), convert::Error> {
        let meta = &object.metadata;
        let empty = core::PodSpec::default();
        let written = object.spec.as_ref().unwrap_or(&empty);
        let root = At::Root;
        let spec = convert::pod_spec(
            meta.labels.as_ref(),
            written,
            object.status.as_ref(),
            &|_| None,
            &root.key("spec"),
        )
        .map_err(|invalid| invalid.of("Pod", meta.namespace.as_deref(), meta.name.as_deref()))?;
        let spec = self.specs.share(spec);
        let own = budgets.get(meta.namespace.as_deref().unwrap_or("default"));
        let consulted = Consulted::new(storage);
        let context = PodContext { storage: &consulted, budgets: own.map_or(&[], Vec::as_slice), now };
        let mut pod = convert::pod(object, spec, &context)?;
        pod.namespace = self.shared(pod.namespace);
        pod.node = pod.node.map(|node| self.shared(node));
        Ok((pod, consulted.seen()))
    }

    /// One allocation for names that many pods repeat.
    pub(super) fn shared(&mut self, name: Arc<str>) -> Arc<str> {
        match self.names.get(&name) {
            Some(known) => Arc::clone(known),
            None => {
                self.names.insert(Arc::clone(&name));
                name
            }
        }
    }

    /// Judges again whether the pod may be moved. Says whether that changed.
    pub(super) fn rejudge(
        &mut self,
        key: &PodKey,
        budgets: &BTreeMap<String, Vec<PodBudget>>,
        now: Timestamp,
    ) -> bool {
        let Some(record) = self.records.get_mut(key) else { return false };
        let stub = stub(&record.pod, &record.residue);
        let own = budgets.get(&*key.namespace).map_or(&[][..], Vec::as_slice);
        let context = PodContext { storage: &Storage::default(), budgets: own, now };
        let Ok(judged) = convert::pod(&stub, Arc::clone(&record.pod.spec), &context) else { return false };
        let changed = (record.pod.reschedulable, record.pod.do_not_disrupt)
            != (judged.reschedulable, judged.do_not_disrupt);
        if changed {
            let pod = Arc::make_mut(&mut record.pod);
            (pod.reschedulable, pod.do_not_disrupt) = (judged.reschedulable, judged.do_not_disrupt);
        }
        changed
    }

    /// Pods whose volumes were resolved with what has changed, as objects to take in again.
    pub(super) fn resolved_with(&self, touched: &Touched) -> Vec<Arc<core::Pod>> {
        let keys: BTreeSet<&PodKey> = match touched {
            Touched::Some(refs) => refs.iter().flat_map(|one| self.resolved_by(one)).collect(),
            Touched::All => self.by_storage.values().flatten().collect(),
        };
        let object = |key: &PodKey| Some(Arc::clone(&self.records.get(key)?.volumes.as_ref()?.object));
        keys.into_iter().filter_map(object).collect()
    }

    pub(super) fn resolved_by(&self, one: &StorageRef) -> impl Iterator<Item = &PodKey> {
        self.by_storage.get(one).into_iter().flatten()
    }

    pub(super) fn on_node(&self, node: &str) -> Vec<PodKey> {
        let mut all: Vec<PodKey> = self.by_node.get(node).into_iter().flatten().cloned().collect();
        all.sort_unstable();
        all
    }

    pub(super) fn by_short(&self, uid: ShortUid) -> Option<&PodKey> {
        self.by_short.get(&uid)
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&PodKey, &Record)> {
        let first = PodKey { namespace: Arc::from(namespace), name: Arc::from("") };
        let owned: Arc<str> = Arc::clone(&first.namespace);
        let all = self.records.range(first..).map(|(key, record)| (key, &**record));
        all.take_while(move |(key, _)| key.namespace == owned)
    }
}

impl Record {
    /// What forbids to take its node away now.
    pub(super) fn obstacle(&self, budgets: &[PodBudget], now: Timestamp) -> Option<convert::Obstacle> {
        let spec = &self.pod.spec;
        convert::obstacle(&stub(&self.pod, &self.residue), &spec.labels, &spec.tolerations, budgets, now)
    }

    pub(super) fn protected_until(&self) -> Option<Timestamp> {
        self.residue.protected_until()
    }

    /// What its volumes were resolved with.
    pub(super) fn resolved_with(&self) -> &[StorageRef] {
        self.volumes.as_ref().map_or(&[], |volumes| &volumes.with)
    }
}

/// As much of a running pod as can be read, where the whole cannot: it takes room on its node, whatever else it asks for, and
/// must not be moved, since nobody knows where to. Without readable requests it takes the whole node.
pub(super) fn legible(pod: &core::Pod, with_requests: bool) -> core::Pod {
    let whole = pod.spec.clone().unwrap_or_default();
    let mut containers = whole.containers;
    if !with_requests {
        let all = |name: &str| (name.to_owned(), Quantity(WHOLE_NODE.to_owned()));
        let requests = Some(["cpu", "memory"].into_iter().map(all).collect());
        let resources = Some(core::ResourceRequirements { requests, ..Default::default() });
        containers = vec![core::Container { resources, ..Default::default() }];
    }
    let spec = core::PodSpec {
        node_name: whole.node_name,
        containers,
        init_containers: whole.init_containers.filter(|_| with_requests),
        overhead: whole.overhead.filter(|_| with_requests),
        resources: whole.resources.filter(|_| with_requests),
        ..core::PodSpec::default()
    };
    let mut legible = core::Pod { spec: Some(spec), ..pod.clone() };
    if !with_requests {
        legible.status = pod.status.clone().map(|status| core::PodStatus {
            container_statuses: None,
            init_container_statuses: None,
            ..status
        });
    }
    let annotations = legible.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::DO_NOT_DISRUPT.to_owned(), labels::TRUE.to_owned());
    legible
}

fn has_claims(pod: &core::Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    volumes.into_iter().any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some())
}

/// As much of a Pod object as the rules about moving it look at.
fn stub(pod: &Pod, residue: &Residue) -> core::Pod {
    let mut stub = core::Pod::default();
    stub.metadata.namespace = Some(pod.namespace.to_string());
    stub.metadata.name = Some(pod.name.to_string());
    stub.metadata.owner_references = residue.owner.reference().map(|owner| vec![owner]);
    stub.metadata.deletion_timestamp = pod.terminating.then_some(Time(Timestamp::UNIX_EPOCH));
    stub.metadata.annotations =
        residue.do_not_disrupt.as_ref().map(|v| [(labels::DO_NOT_DISRUPT.to_owned(), v.to_string())].into());
    stub.spec =
        Some(core::PodSpec { node_name: pod.node.as_ref().map(|n| n.to_string()), ..Default::default() });
    let unready = core::PodCondition { type_: "Ready".into(), status: "False".into(), ..Default::default() };
    stub.status = Some(core::PodStatus {
        start_time: residue.start.map(Time),
        conditions: residue.unready.then(|| vec![unready]),
        ..Default::default()
    });
    stub
}

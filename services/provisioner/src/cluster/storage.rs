//! Claims, volumes and storage classes, for resolving what a pod's volumes ask of its node.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Resource, ResourceExt as _};
use runtime::watch::Change;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::state::State;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// A change copies one part in so many, as views share the rest.
const PARTS: usize = 64;

/// Something that the volumes of a pod were resolved with, whether it was there or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StorageRef {
    /// By namespace and name.
    Claim(Box<(String, String)>),
    Volume(Box<str>),
    Class(Box<str>),
    /// Whichever class is the default one.
    DefaultClass,
}

/// A map in parts that are copied one by one when they change while somebody else holds them.
#[derive(Clone)]
struct Parts<K, V>(Box<[Arc<FxHashMap<K, V>>]>);

impl<K, V> Default for Parts<K, V> {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Arc::default()).collect())
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Parts<K, V> {
    fn part(key: &K) -> usize {
        // The upper bits: the lower ones choose the place within a part.
        let hash = FxBuildHasher.hash_one(key) >> 32;
        usize::try_from(hash).unwrap_or(0) % PARTS
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.0[Self::part(key)].get(key)
    }

    fn set(&mut self, key: K, value: Option<V>) {
        let part = Arc::make_mut(&mut self.0[Self::part(&key)]);
        match value {
            Some(value) => part.insert(key, value),
            None => part.remove(&key),
        };
    }
}

#[derive(Clone, Default)]
pub(crate) struct Storage {
    claims: Parts<(String, String), Arc<PersistentVolumeClaim>>,
    volumes: Parts<String, Arc<PersistentVolume>>,
    /// Few.
    classes: BTreeMap<String, Arc<StorageClass>>,
}

/// What a change of storage concerns.
pub(super) enum Touched {
    Some(Vec<StorageRef>),
    /// A list came in anew.
    All,
}

impl Storage {
    pub(super) fn claim_changed(&mut self, change: Change<PersistentVolumeClaim>) -> Touched {
        let key = |c: &PersistentVolumeClaim| (c.namespace().unwrap_or_default(), c.name_any());
        change_parts(&mut self.claims, change, key, |key| StorageRef::Claim(Box::new(key)))
    }

    pub(super) fn volume_changed(&mut self, change: Change<PersistentVolume>) -> Touched {
        change_parts(&mut self.volumes, change, |v| v.name_any(), |name| StorageRef::Volume(name.into()))
    }

    pub(super) fn class_changed(&mut self, change: Change<StorageClass>) -> Touched {
        let name = match &change {
            Change::Applied(class) | Change::Deleted(class) => Some(class.name_any()),
            Change::Reset(_) => None,
        };
        let before = self.default_name();
        by_name(&mut self.classes, change);
        let Some(name) = name else { return Touched::All };
        let mut touched = vec![StorageRef::Class(name.as_str().into())];
        let after = self.default_name();
        if before != after || after == Some(name) {
            touched.push(StorageRef::DefaultClass);
        }
        Touched::Some(touched)
    }

    fn default_name(&self) -> Option<String> {
        api::convert::Storage::default_class(self).map(|class| class.name_any())
    }
}

impl State {
    pub(super) fn volume_claim(&mut self, change: Change<PersistentVolumeClaim>, now: Timestamp) {
        let touched = Arc::make_mut(&mut self.storage).claim_changed(change);
        self.storage_changed(&touched, now);
    }

    pub(super) fn volume(&mut self, change: Change<PersistentVolume>, now: Timestamp) {
        let touched = Arc::make_mut(&mut self.storage).volume_changed(change);
        self.storage_changed(&touched, now);
    }

    pub(super) fn storage_class(&mut self, change: Change<StorageClass>, now: Timestamp) {
        let touched = Arc::make_mut(&mut self.storage).class_changed(change);
        self.storage_changed(&touched, now);
    }

    fn storage_changed(&mut self, touched: &Touched, now: Timestamp) {
        for pod in self.pods.resolved_with(touched) {
            self.take_pod(&pod, now);
        }
    }
}

fn change_parts<O, K: Hash + Eq + Clone>(
    parts: &mut Parts<K, Arc<O>>,
    change: Change<O>,
    key: impl Fn(&O) -> K,
    touched: impl Fn(K) -> StorageRef,
) -> Touched {
    let (key, value) = match change {
        Change::Applied(object) => (key(&object), Some(object)),
        Change::Deleted(object) => (key(&object), None),
        Change::Reset(all) => {
            *parts = Parts::default();
            all.into_iter().for_each(|object| parts.set(key(&object), Some(object)));
            return Touched::All;
        }
    };
    parts.set(key.clone(), value);
    Touched::Some(vec![touched(key)])
}

/// Keeps a map of cluster-scoped objects in step.
pub(super) fn by_name<K: Resource>(map: &mut BTreeMap<String, Arc<K>>, change: Change<K>) {
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    match change {
        Change::Applied(object) => {
            map.insert(name(&object), object);
        }
        Change::Deleted(object) => {
            map.remove(&name(&object));
        }
        Change::Reset(all) => *map = all.into_iter().map(|o| (name(&o), o)).collect(),
    }
}

impl api::convert::Storage for Storage {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get(&name.to_owned()).cloned()
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(name).cloned()
    }

    /// Of several, the newest, as admission chooses.
    fn default_class(&self) -> Option<Arc<StorageClass>> {
        let is_default = |c: &&Arc<StorageClass>| {
            c.metadata.annotations.as_ref().and_then(|a| a.get(DEFAULT_CLASS)).is_some_and(|v| v == "true")
        };
        self.classes
            .values()
            .filter(is_default)
            .max_by_key(|c| c.metadata.creation_timestamp.as_ref().map(|t| t.0))
            .cloned()
    }
}

/// Remembers what was looked up: when one of these changes, the pod must be resolved again.
pub(super) struct Consulted<'a> {
    storage: &'a Storage,
    seen: RefCell<Vec<StorageRef>>,
}

impl<'a> Consulted<'a> {
    pub(super) fn new(storage: &'a Storage) -> Self {
        Self { storage, seen: RefCell::default() }
    }

    pub(super) fn seen(self) -> Vec<StorageRef> {
        self.seen.into_inner()
    }

    fn saw(&self, one: StorageRef) {
        let mut seen = self.seen.borrow_mut();
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
}

impl api::convert::Storage for Consulted<'_> {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.saw(StorageRef::Claim(Box::new((namespace.to_owned(), name.to_owned()))));
        self.storage.claim(namespace, name)
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.saw(StorageRef::Volume(name.into()));
        self.storage.volume(name)
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.saw(StorageRef::Class(name.into()));
        self.storage.class(name)
    }

    fn default_class(&self) -> Option<Arc<StorageClass>> {
        self.saw(StorageRef::DefaultClass);
        self.storage.default_class()
    }
}

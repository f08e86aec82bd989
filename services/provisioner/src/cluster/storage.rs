//! Claims, volumes and storage classes, for resolving what a pod's volumes ask of its node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Resource;
use runtime::watch::Change;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

#[derive(Clone, Default)]
pub(crate) struct Storage {
    claims: BTreeMap<(String, String), Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
}

impl Storage {
    pub(super) fn claim_changed(&mut self, change: Change<PersistentVolumeClaim>) {
        let key = |c: &PersistentVolumeClaim| {
            (c.metadata.namespace.clone().unwrap_or_default(), c.metadata.name.clone().unwrap_or_default())
        };
        match change {
            Change::Applied(claim) => {
                self.claims.insert(key(&claim), claim);
            }
            Change::Deleted(claim) => {
                self.claims.remove(&key(&claim));
            }
            Change::Reset(all) => self.claims = all.into_iter().map(|c| (key(&c), c)).collect(),
        }
    }

    pub(super) fn volume_changed(&mut self, change: Change<PersistentVolume>) {
        by_name(&mut self.volumes, change);
    }

    pub(super) fn class_changed(&mut self, change: Change<StorageClass>) {
        by_name(&mut self.classes, change);
    }
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
        self.volumes.get(name).cloned()
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(name).cloned()
    }

    /// Of several, the newest, as admission chooses.
    fn default_class(&self) -> Option<Arc<StorageClass>> {
        let marked = |c: &&Arc<StorageClass>| {
            c.metadata.annotations.as_ref().and_then(|a| a.get(DEFAULT_CLASS)).is_some_and(|v| v == "true")
        };
        self.classes
            .values()
            .filter(marked)
            .max_by_key(|c| c.metadata.creation_timestamp.as_ref().map(|t| t.0))
            .cloned()
    }
}

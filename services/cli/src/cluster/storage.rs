//! Claims, volumes and storage classes of the input, for looking up.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifest::Objects;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) struct Storage {
    claims: BTreeMap<(String, String), Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    classes: BTreeMap<String, Arc<StorageClass>>,
}

impl Storage {
    pub(super) fn new(objects: &mut Objects) -> Self {
        let name = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
        let claims = std::mem::take(&mut objects.claims).into_iter().map(|mut claim| {
            let meta = &claim.object.metadata;
            let key = (meta.namespace.clone().unwrap_or_else(|| "default".to_owned()), name(meta));
            let bound = claim.object.spec.as_ref().is_some_and(|s| s.volume_name.is_some());
            if bound && claim.object.status.is_none() {
                // A manifest that names its volume stands for a claim that is bound to it.
                claim.object.status = Some(PersistentVolumeClaimStatus {
                    phase: Some("Bound".to_owned()),
                    ..Default::default()
                });
            }
            (key, Arc::new(claim.object))
        });
        let volumes = std::mem::take(&mut objects.volumes).into_iter();
        let classes = std::mem::take(&mut objects.storage_classes).into_iter();
        Self {
            claims: claims.collect(),
            volumes: volumes.map(|v| (name(&v.object.metadata), Arc::new(v.object))).collect(),
            classes: classes.map(|c| (name(&c.object.metadata), Arc::new(c.object))).collect(),
        }
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

    fn default_class(&self) -> Option<Arc<StorageClass>> {
        let marked = |c: &&Arc<StorageClass>| {
            c.metadata.annotations.as_ref().and_then(|a| a.get(DEFAULT_CLASS)).is_some_and(|v| v == "true")
        };
        self.classes.values().find(marked).cloned()
    }
}

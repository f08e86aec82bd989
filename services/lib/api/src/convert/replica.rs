//! The pods of a workload whose volumes are its own: those of `volumeClaimTemplates` (StatefulSet) and of ephemeral volumes.
//! Controllers make their claims as the pods come; a plan for pods that do not exist yet makes them up.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
    PersistentVolumeClaimVolumeSource, Pod, Volume,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::volumes::Storage;

/// Whether each pod of this template has a claim of its own.
pub fn has_own_claims(template: &Pod, claim_templates: &[PersistentVolumeClaim]) -> bool {
    let ephemeral = |volume: &Volume| volume.ephemeral.is_some();
    !claim_templates.is_empty() || volumes(template).iter().any(ephemeral)
}

/// The pod of this name, and the claims that controllers would make for it.
pub fn replica(
    template: &Pod,
    claim_templates: &[PersistentVolumeClaim],
    name: &str,
) -> (Pod, Vec<PersistentVolumeClaim>) {
    let namespace = template.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let mut claims = Vec::new();
    let mut own = template.clone();
    own.metadata.name = Some(name.to_owned());
    for volume in volumes(template) {
        let made = volume.ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref());
        claims.extend(made.map(|made| claim(&namespace, format!("{name}-{}", volume.name), &made.spec)));
    }
    for wanted in claim_templates {
        let volume = wanted.metadata.name.clone().unwrap_or_default();
        let claim_name = format!("{volume}-{name}");
        claims.push(claim(&namespace, claim_name.clone(), &wanted.spec.clone().unwrap_or_default()));
        let all = own.spec.get_or_insert_default().volumes.get_or_insert_default();
        // The claim template takes precedence over a volume of its name (StatefulSet, volumeClaimTemplates).
        all.retain(|other| other.name != volume);
        all.push(Volume {
            name: volume,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None }),
            ..Volume::default()
        });
    }
    (own, claims)
}

fn volumes(pod: &Pod) -> &[Volume] {
    pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default()
}

fn claim(namespace: &str, name: String, spec: &PersistentVolumeClaimSpec) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name),
            ..ObjectMeta::default()
        },
        spec: Some(spec.clone()),
        status: Some(PersistentVolumeClaimStatus {
            phase: Some("Pending".to_owned()),
            ..PersistentVolumeClaimStatus::default()
        }),
    }
}

/// A storage with the claims of pods that do not exist yet. A claim that exists takes precedence: a StatefulSet uses it again.
pub struct WithClaims<'a> {
    storage: &'a dyn Storage,
    made: BTreeMap<(String, String), Arc<PersistentVolumeClaim>>,
}

impl<'a> WithClaims<'a> {
    pub fn new(storage: &'a dyn Storage, claims: Vec<PersistentVolumeClaim>) -> Self {
        let keyed = claims.into_iter().map(|claim| {
            let meta = &claim.metadata;
            let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
            (key, Arc::new(claim))
        });
        Self { storage, made: keyed.collect() }
    }
}

impl Storage for WithClaims<'_> {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        let made = || self.made.get(&(namespace.to_owned(), name.to_owned())).cloned();
        self.storage.claim(namespace, name).or_else(made)
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.storage.volume(name)
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.storage.class(name)
    }

    fn default_class(&self) -> Option<Arc<StorageClass>> {
        self.storage.default_class()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_replica_has_claims_of_its_own_names() {
        let template: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "shop"},
            "spec": {"containers": [], "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}},
            ]},
        }))
        .unwrap();
        let wanted: PersistentVolumeClaim = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "data"}, "spec": {"storageClassName": "io2"},
        }))
        .unwrap();
        assert!(
            has_own_claims(&template, &[]) && has_own_claims(&Pod::default(), std::slice::from_ref(&wanted))
        );
        assert!(!has_own_claims(&Pod::default(), &[]));
        let (pod, claims) = replica(&template, &[wanted], "db-3");
        let named: Vec<_> = claims
            .iter()
            .map(|c| {
                (c.metadata.name.as_deref().unwrap(), c.spec.as_ref().unwrap().storage_class_name.as_deref())
            })
            .collect();
        assert_eq!(named, [("db-3-cache", Some("gp3")), ("data-db-3", Some("io2"))]);
        let volumes = pod.spec.unwrap().volumes.unwrap();
        assert_eq!(volumes.len(), 2, "the claim template replaces the volume of its name");
        assert_eq!(volumes[1].persistent_volume_claim.as_ref().unwrap().claim_name, "data-db-3");
    }
}

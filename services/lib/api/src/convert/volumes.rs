//! Volumes of a pod, resolved through claim, volume and storage class to what they ask of a node.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;
use model::labels;
use model::pod::{EBS_DRIVER, Volume};
use model::requirement::Requirement;
use model::requirements::Requirements;

use super::error::{At, Invalid};
use super::node_terms;

/// The driver of EKS Auto Mode attaches volumes only to Auto Mode's own nodes.
const UNSUPPORTED_DRIVERS: [&str; 1] = ["ebs.csi.eks.amazonaws.com"];
const UNSUPPORTED_TOPOLOGY_KEYS: [&str; 1] = ["eks.amazonaws.com/compute-type"];
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// In-tree provisioners and the CSI drivers that took over from them.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS_DRIVER),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Where the objects behind a volume are looked up.
pub trait Storage {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<core::PersistentVolumeClaim>>;
    fn volume(&self, name: &str) -> Option<Arc<core::PersistentVolume>>;
    fn class(&self, name: &str) -> Option<Arc<StorageClass>>;
    /// What admission gives a claim without a class.
    fn default_class(&self) -> Option<Arc<StorageClass>>;
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimState {
    /// Usable.
    Usable(Volume),
    /// A pod that needs it cannot be scheduled; the sentence says why. What is known of it may still be used for pods
    /// that already run.
    Unusable(Option<Volume>, String),
}

/// Names of the claims that a pod uses: named ones, and those that ephemeral volumes bring.
pub(super) fn claims_of(pod_name: &str, spec: &core::PodSpec) -> Vec<String> {
    spec.volumes
        .iter()
        .flatten()
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod_name}-{}", volume.name)),
            (None, None) => None,
        })
        .collect()
}

/// Resolves one claim. `Err` is for objects that nobody can read, not for ones that are missing.
pub fn volume_of_claim(namespace: &str, name: &str, storage: &dyn Storage) -> Result<ClaimState, Invalid> {
    let key = format!("{namespace}/{name}");
    let unusable = |why: String| ClaimState::Unusable(None, why);
    let Some(claim) = storage.claim(namespace, name) else {
        return Ok(unusable(format!("persistent volume claim {key} does not exist")));
    };
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(unusable(format!("persistent volume claim {key} is being deleted")));
    }
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    if phase == Some("Lost") {
        return Ok(unusable(format!("persistent volume claim {key} has lost its volume")));
    }
    let spec = claim.spec.clone().unwrap_or_default();
    match spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
        Some(volume) => {
            let annotated =
                claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED));
            bound(&key, volume, annotated || phase == Some("Bound"), storage)
        }
        None => unbound(&key, spec.storage_class_name.as_deref(), storage),
    }
}

fn bound(key: &str, name: &str, complete: bool, storage: &dyn Storage) -> Result<ClaimState, Invalid> {
    let Some(volume) = storage.volume(name) else {
        let why = format!("persistent volume {name} of claim {key} does not exist");
        return Ok(ClaimState::Unusable(None, why));
    };
    let spec = volume.spec.clone().unwrap_or_default();
    let driver = match (&spec.csi, &spec.aws_elastic_block_store) {
        (Some(csi), _) => Some(csi.driver.as_str()),
        (None, Some(_)) => Some(EBS_DRIVER),
        (None, None) => None,
    };
    let local = spec.local.is_some() || spec.host_path.is_some();
    let terms = spec.node_affinity.as_ref().and_then(|a| a.required.as_ref());
    let at = At::Root;
    let (spec_at, list) = (at.key("spec"), "nodeSelectorTerms");
    let (affinity_at, required) = (spec_at.key("nodeAffinity"), "required");
    let required_at = affinity_at.key(required);
    let terms_at = required_at.key(list);
    let alternatives = terms
        .map(|t| t.node_selector_terms.as_slice())
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, term)| {
            let mut requirements = node_terms::requirements(term, &terms_at.index(index))?;
            if local {
                // The data of a node-local volume does not follow the pod, but its node name must not pin it either.
                requirements.remove(labels::HOSTNAME);
            }
            Ok(requirements)
        })
        .collect::<Result<Vec<_>, Invalid>>()?;
    let resolved = Volume { claim: Arc::from(key), driver: driver.map(Arc::from), alternatives };
    if volume.metadata.deletion_timestamp.is_some() {
        let why = format!("persistent volume {name} of claim {key} is being deleted");
        return Ok(ClaimState::Unusable(Some(resolved), why));
    }
    if !complete {
        let why = format!("persistent volume claim {key} is not bound to its volume {name} yet");
        return Ok(ClaimState::Unusable(Some(resolved), why));
    }
    Ok(with_supported_driver(resolved))
}

fn unbound(key: &str, class: Option<&str>, storage: &dyn Storage) -> Result<ClaimState, Invalid> {
    let found = match class {
        None => storage.default_class(),
        Some(name) => storage.class(name),
    };
    let Some(class) = found else {
        let why = match class.filter(|name| !name.is_empty()) {
            Some(name) => format!("storage class {name} of claim {key} does not exist"),
            None => format!("persistent volume claim {key} is unbound and has no storage class"),
        };
        return Ok(ClaimState::Unusable(None, why));
    };
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    let expressions = || terms.iter().flat_map(|t| t.match_label_expressions.iter().flatten());
    let alternatives = terms
        .iter()
        .map(|term| {
            let own = term.match_label_expressions.iter().flatten();
            own.map(|e| Requirement::one_of(&e.key, e.values.iter().map(String::as_str)))
                .collect::<Requirements>()
        })
        .collect();
    let driver = MIGRATED
        .iter()
        .find_map(|(in_tree, csi)| (*in_tree == class.provisioner).then_some(*csi))
        .unwrap_or(&class.provisioner);
    let resolved = Volume {
        claim: Arc::from(key),
        driver: Some(driver).filter(|d| !d.is_empty()).map(Arc::from),
        alternatives,
    };
    if matches!(class.volume_binding_mode.as_deref(), None | Some("" | "Immediate")) {
        let why = format!(
            "persistent volume claim {key} is unbound and storage class {name} binds immediately, wherever pods go: \
             use volumeBindingMode WaitForFirstConsumer"
        );
        return Ok(ClaimState::Unusable(Some(resolved), why));
    }
    if let Some(e) = expressions().find(|e| UNSUPPORTED_TOPOLOGY_KEYS.contains(&e.key.as_str())) {
        let why = format!(
            "storage class {name} of claim {key} is restricted by {}, which our nodes never have",
            e.key
        );
        return Ok(ClaimState::Unusable(Some(resolved), why));
    }
    Ok(with_supported_driver(resolved))
}

fn with_supported_driver(volume: Volume) -> ClaimState {
    match volume.driver.as_deref().filter(|driver| UNSUPPORTED_DRIVERS.contains(driver)) {
        Some(driver) => {
            let why = format!("driver {driver} of claim {} does not run on our nodes", volume.claim);
            ClaimState::Unusable(Some(volume), why)
        }
        None => ClaimState::Usable(volume),
    }
}

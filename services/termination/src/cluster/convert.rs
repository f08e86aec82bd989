//! PersistentVolumes, reduced to what removal needs; pods and budgets are converted in `residents`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;

/// A PersistentVolume: its claim, and the id by which the cloud knows it.
pub(super) struct Volume {
    pub(super) claim: Option<(Arc<str>, Arc<str>)>,
    pub(super) handle: Option<Arc<str>>,
}

impl Volume {
    pub(super) fn of(volume: &PersistentVolume) -> Self {
        let spec = volume.spec.as_ref();
        let claim = spec.and_then(|spec| spec.claim_ref.as_ref());
        let claim =
            claim.and_then(|claim| Some((claim.namespace.as_deref()?.into(), claim.name.as_deref()?.into())));
        let handle = spec.and_then(|spec| spec.csi.as_ref()).map(|csi| csi.volume_handle.as_str().into());
        Self { claim, handle }
    }
}

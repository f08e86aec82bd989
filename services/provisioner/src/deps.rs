//! What every part of the service may use: handles only, cheap to clone. A part takes what it needs from here in its `spawn`.

use std::sync::Arc;

use cloud::{Launcher, NodeClassSource};
use runtime::events::Recorder;
use runtime::{Leadership, Metrics, Settings};

use crate::catalog::CatalogHandle;
use crate::cluster::ClusterHandle;

/// Field manager of every write of this service.
pub(crate) const FIELD_MANAGER: &str = "karpenter-provisioner";

#[derive(Clone)]
pub(crate) struct Deps {
    pub(crate) kube: kube::Client,
    pub(crate) recorder: Recorder,
    pub(crate) leadership: Leadership,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Metrics,
    /// Counts what is asked of the cloud.
    pub(crate) calls: cloud_aws::CallMetrics,
    /// Name of this replica.
    pub(crate) replica: Arc<str>,
    pub(crate) cluster: ClusterHandle,
    pub(crate) catalog: CatalogHandle,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) classes: Arc<dyn NodeClassSource>,
}

//! Which kinds are watched, each once, and who is told. Objects that several parts keep are slimmed first and shared.

use std::sync::Arc;

use api::{EC2NodeClass, NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use runtime::Shell;
use runtime::watch::{Change, Index, Watch};

use crate::{catalog, cluster, lifecycle, nodeclass, nodepool, observe};

/// Mailboxes of the parts.
pub(crate) struct Told {
    pub(crate) cluster: cluster::Inbox,
    pub(crate) catalog: catalog::Inbox,
    pub(crate) classes: nodeclass::Inbox,
    pub(crate) claims: lifecycle::Inbox,
    pub(crate) pools: nodepool::Inbox,
    pub(crate) observed: observe::Conditions,
}

pub(crate) fn spawn(shell: &mut Shell, told: Told) {
    let kube = shell.kube.clone();
    let Told { cluster, catalog, classes, claims, pools, observed } = told;
    shell.watch_streamed("pods", Watch::<Pod>::all(kube.clone()), cluster.clone());
    shell.watch(
        "nodes",
        Watch::<Node>::all(kube.clone()),
        Slim { slim: slim_node, to: (cluster.clone(), claims.clone(), observed.tracker()) },
    );
    shell.watch(
        "nodeclaims",
        Watch::<NodeClaim>::all(kube.clone()),
        Slim { slim: slim_claim, to: (cluster.clone(), claims.clone(), observed.tracker()) },
    );
    shell.watch(
        "nodepools",
        Watch::<NodePool>::all(kube.clone()),
        (cluster.clone(), pools.clone(), observed.tracker()),
    );
    shell.watch(
        "ec2nodeclasses",
        Watch::<EC2NodeClass>::all(kube.clone()),
        ((catalog, classes), (claims, pools), observed.tracker()),
    );
    shell.watch("daemonsets", Watch::<DaemonSet>::all(kube.clone()), cluster.clone());
    shell.watch("persistentvolumeclaims", Watch::<PersistentVolumeClaim>::all(kube.clone()), cluster.clone());
    shell.watch("persistentvolumes", Watch::<PersistentVolume>::all(kube.clone()), cluster.clone());
    shell.watch("storageclasses", Watch::<StorageClass>::all(kube.clone()), cluster.clone());
    shell.watch("csinodes", Watch::<CSINode>::all(kube.clone()), cluster.clone());
    shell.watch("poddisruptionbudgets", Watch::<PodDisruptionBudget>::all(kube.clone()), cluster.clone());
    shell.watch("namespaces", Watch::<Namespace>::all(kube), cluster);
}

/// Takes off what nobody here reads before objects are shared.
struct Slim<K, I> {
    slim: fn(Arc<K>) -> Arc<K>,
    to: I,
}

impl<K: Send + Sync + 'static, I: Index<K>> Index<K> for Slim<K, I> {
    async fn change(&mut self, change: Change<K>) {
        let slim = match change {
            Change::Applied(object) => Change::Applied((self.slim)(object)),
            Change::Reset(objects) => Change::Reset(objects.into_iter().map(self.slim).collect()),
            deleted @ Change::Deleted(_) => deleted,
        };
        self.to.change(slim).await;
    }
}

/// A launched claim's requirements, hundreds of type names, are of no interest any more.
pub(crate) fn slim_claim(object: Arc<NodeClaim>) -> Arc<NodeClaim> {
    let launched =
        object.status.as_ref().is_some_and(|s| s.provider_id.as_ref().is_some_and(|id| !id.is_empty()));
    if !launched || (object.spec.requirements.is_empty() && object.metadata.managed_fields.is_none()) {
        return object;
    }
    let mut slim = Arc::unwrap_or_clone(object);
    slim.spec.requirements = Vec::new();
    slim.metadata.managed_fields = None;
    Arc::new(slim)
}

/// The list of images is the largest part of a Node.
pub(crate) fn slim_node(object: Arc<Node>) -> Arc<Node> {
    let large = object.status.as_ref().is_some_and(|s| s.images.is_some() || s.volumes_in_use.is_some());
    if !large && object.metadata.managed_fields.is_none() {
        return object;
    }
    let mut slim = Arc::unwrap_or_clone(object);
    slim.metadata.managed_fields = None;
    if let Some(status) = &mut slim.status {
        status.images = None;
        status.volumes_in_use = None;
        status.volumes_attached = None;
    }
    Arc::new(slim)
}

//! Which kinds are watched, each once, and who is told. Objects that several parts keep are slimmed and shared.

use api::{EC2NodeClass, NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use runtime::Shell;
use runtime::watch::Watch;

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
        Watch::<Node>::all(kube.clone()).slimmed(slim_node),
        (cluster.clone(), claims.clone(), observed.tracker()),
    );
    shell.watch(
        "nodeclaims",
        Watch::<NodeClaim>::all(kube.clone()).slimmed(slim_claim),
        (cluster.clone(), claims.clone(), observed.tracker()),
    );
    shell.watch(
        "nodepools",
        Watch::<NodePool>::all(kube.clone()),
        ((catalog.clone(), cluster.clone()), pools.clone(), observed.tracker()),
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

/// A launched claim's requirements, hundreds of type names, are of no interest any more.
pub(crate) fn slim_claim(claim: &mut NodeClaim) {
    claim.metadata.managed_fields = None;
    let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
    if id.is_some_and(|id| !id.is_empty()) {
        claim.spec.requirements = Vec::new();
    }
}

/// The list of images is the largest part of a Node.
pub(crate) fn slim_node(node: &mut Node) {
    node.metadata.managed_fields = None;
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_in_use = None;
        status.volumes_attached = None;
    }
}

//! EC2NodeClass: resolves what its selectors mean today and says so in its status and conditions; keeps its hash, its instance
//! profile and its end. It launches nothing; dry runs ask EC2 whether it would.
//!
//! ```text
//! watch ─► queue ─► reconcile ─┬─ resolve: images, subnets, security_groups, reservations,
//!                              │  placement_groups, profiles          one file a resource
//!                              ├─ validate                            dry runs
//!                              └─ status, conditions, hash, finalizer
//!                    resolved (placement group, reservations left) ─► catalogue, launch
//!                    addresses (free addresses of subnets)         ─► launch
//! ```
//!
//! The leader writes; other replicas only keep `resolved`, which no status holds.

mod addresses;
mod cache;
mod finalization;
mod hash;
mod images;
mod metadata;
mod placement_groups;
mod profile_collection;
mod profiles;
mod queue;
mod reconcile;
mod reservations;
mod resolve;
mod resolved;
mod security_groups;
mod subnets;
mod tags;
mod validate;
mod version;
mod write;

use std::sync::Arc;

use cloud::{Launcher, NodeClassSource};
use runtime::events::Recorder;
use runtime::{Leadership, Settings, Shell};
use tokio::sync::mpsc;

use crate::launch::{ClusterFacts, Templates};
use queue::Queue;
pub(crate) use queue::Told;
use reconcile::Visit;

pub use addresses::{Addresses, Chosen};
pub use resolved::{ByClass, Resolved, ResolvedClasses};
pub use tags::forbidden_tag;
pub use validate::TypesOf;
pub use version::Version;

const FIELD_MANAGER: &str = "karpenter-provisioner";

/// What the part needs from outside.
pub struct Parts {
    pub source: Arc<dyn NodeClassSource>,
    pub launcher: Arc<dyn Launcher>,
    pub cluster: Arc<ClusterFacts>,
    pub templates: Arc<Templates>,
    pub addresses: Addresses,
    pub resolved: ResolvedClasses,
    pub types: TypesOf,
    pub recorder: Recorder,
    pub leadership: Leadership,
    pub settings: Arc<Settings>,
}

/// Feeds the queue: EC2NodeClasses must be watched.
pub(crate) type Inbox = mpsc::Sender<Told>;

/// Starts resolving.
pub(crate) fn spawn(shell: &mut Shell, parts: Parts) -> Inbox {
    let settings = &parts.settings;
    let source = || Arc::clone(&parts.source);
    let kube = shell.kube.clone();
    let reserved_capacity = settings.feature_gates.reserved_capacity;
    let eks = settings.eks_control_plane.then(|| settings.cluster_name.clone());
    let visit = Arc::new(Visit {
        versions: version::Versions::new(kube.clone(), source(), eks),
        images: images::Images::new(source(), settings.ami_refresh_interval),
        subnets: subnets::Subnets::new(source(), parts.addresses, settings.subnet_refresh_interval),
        groups: security_groups::SecurityGroups::new(source()),
        profiles: profiles::Profiles::new(source(), &settings.cluster_name),
        reservations: reservations::Reservations::new(source()),
        placement: placement_groups::PlacementGroups::new(source()),
        validation: validate::Validation::new(
            kube.clone(),
            source(),
            parts.launcher,
            Arc::clone(&parts.cluster),
            Arc::clone(&parts.templates),
            parts.types,
            !settings.disable_dry_run,
            reserved_capacity,
        ),
        kube: kube.clone(),
        recorder: parts.recorder,
        cluster: parts.cluster,
        resolved: parts.resolved,
        templates: parts.templates,
        reserved_capacity,
        isolated_vpc: settings.isolated_vpc,
        told: Default::default(),
    });
    let (queue, mailbox) = Queue::new(Arc::clone(&visit), parts.leadership.clone());
    let stop = shell.stop();
    shell.process.spawn("nodeclass", queue.run(stop.clone()));
    if !settings.isolated_vpc {
        shell.process.spawn("instance-profiles", profile_collection::run(visit, parts.leadership, stop));
    }
    mailbox
}

//! A node as scheduling sees it: the merge of a Node object and its NodeClaim, from launch to deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::{CapacityType, LabelMap};
use crate::resources::Resources;
use crate::taint::Taint;

/// Capacity that exists: running, or launched and on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The claim's name until the node has registered, then the node's.
    pub name: Arc<str>,
    /// Name of its NodeClaim. `Some` makes it ours (managed).
    pub claim: Option<Arc<str>>,
    /// Value of `karpenter.sh/nodepool`, if any.
    pub pool: Option<Arc<str>>,
    /// The claim's until registration, then the node's. The hostname label may be missing; the name stands in for it.
    pub labels: LabelMap,
    /// All taints present, see [`Node::scheduling_taints`]. The claim's until registration.
    pub taints: Vec<Taint>,
    /// Startup taints of the claim: expected to go away, hence ignored until the node is initialised.
    pub startup_taints: Vec<Taint>,
    /// What pods may use, before anything is subtracted. While uninitialised, zero or absent quantities of the Node are
    /// filled from the claim.
    pub allocatable: Resources,
    /// Counts against the pool's limits.
    pub capacity: Resources,
    pub state: NodeState,
    /// A Node object exists (an unregistered claim has none). Topology domains are taken only from those that do.
    pub registered: bool,
    /// `karpenter.sh/initialized`; true for nodes that are not ours.
    pub initialized: bool,
    /// Pods were promised to it recently.
    pub nominated: bool,
    /// Within `consolidateAfter` of its last pod event: consolidation must not move pods here.
    pub settling: bool,
    /// Attach limits by CSI driver (CSINode `allocatable.count`); a driver that is not listed is not limited.
    pub csi_limits: BTreeMap<Arc<str>, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// Accepts pods.
    Ready,
    /// Launched, not yet registered or not yet ready: capacity to count on, but not to consolidate onto.
    InFlight,
    /// Being deleted: accepts nothing, its reschedulable pods need new places, and it does not count against limits.
    Deleting,
}

/// What names a price in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriceKey<'a> {
    pub instance_type: &'a str,
    pub zone: &'a str,
    pub capacity_type: CapacityType,
    pub reservation: Option<&'a str>,
}

impl Node {
    /// Ours, with a NodeClaim.
    pub fn managed(&self) -> bool {
        self.claim.is_some()
    }

    /// The hostname label, or the name while there is none.
    pub fn hostname(&self) -> &str {
        self.labels.get(crate::labels::HOSTNAME).map_or(&*self.name, String::as_str)
    }

    /// Taints that count for scheduling: while a node of ours is not initialised, startup taints and those that every
    /// node carries for a moment after boot are expected to go away.
    pub fn scheduling_taints(&self) -> impl Iterator<Item = &Taint> {
        let booting = self.managed() && !self.initialized;
        self.taints.iter().filter(move |taint| {
            let startup = || self.startup_taints.iter().any(|s| s.is_same_as(taint));
            !(booting && (taint.is_ephemeral() || startup()))
        })
    }

    /// `None` where a label is missing: such a node has no known price.
    pub fn price_key(&self) -> Option<PriceKey<'_>> {
        let label = |key: &str| self.labels.get(key).map(String::as_str);
        Some(PriceKey {
            instance_type: label(crate::labels::INSTANCE_TYPE)?,
            zone: label(crate::labels::ZONE)?,
            capacity_type: CapacityType::parse(label(crate::labels::CAPACITY_TYPE)?)?,
            reservation: label(crate::labels::CAPACITY_RESERVATION_ID),
        })
    }
}

//! A volume of a pod, resolved to what it asks of the node.

use std::sync::Arc;

use crate::requirements::Requirements;

/// The CSI driver of Amazon EBS.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// One PersistentVolumeClaim of a pod. Only volumes that constrain scheduling (topology, or a CSI driver with limits) need
/// to be listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// `namespace/name` of the claim. Pods that share a claim use one attachment of a node.
    pub claim: Arc<str>,
    /// CSI driver whose attach limit counts it, in-tree names already translated. `None`: not tracked.
    pub driver: Option<Arc<str>>,
    /// Where it can be attached: OR-ed alternatives (terms of the volume's node affinity, or of the class's allowed
    /// topologies). Empty: anywhere.
    pub alternatives: Vec<Requirements>,
}

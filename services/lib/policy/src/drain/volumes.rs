//! Which VolumeAttachments a drained node still has to lose before its instance may go.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::pod::Pod;

/// A VolumeAttachment of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    pub name: Arc<str>,
    /// Absent for inline volumes, which nobody waits for.
    pub volume: Option<Arc<str>>,
    /// Namespace and name of the PersistentVolumeClaim that the volume is bound to, where known.
    pub claim: Option<(Arc<str>, Arc<str>)>,
    /// The volume at the cloud, for people: `vol-…`, else the PersistentVolume's name.
    pub shown: Arc<str>,
}

/// Those that must go: not inline, and not held by a pod that stays on the node whatever we do.
pub fn awaited<'a>(attachments: &'a [Attachment], pods: &[Arc<Pod>], now: Timestamp) -> Vec<&'a Attachment> {
    if attachments.is_empty() {
        return Vec::new();
    }
    let staying: BTreeSet<(&str, &str)> = pods
        .iter()
        .filter(|pod| !pod.is_drainable(now))
        .flat_map(|pod| pod.volume_claims.iter().map(|claim| (&*pod.namespace, &**claim)))
        .collect();
    let held = |attachment: &Attachment| {
        attachment.claim.as_ref().is_some_and(|(namespace, name)| staying.contains(&(&**namespace, &**name)))
    };
    attachments.iter().filter(|attachment| attachment.volume.is_some() && !held(attachment)).collect()
}

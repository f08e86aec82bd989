//! VolumeAttachments by node, and what their PersistentVolumes say of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use policy::drain::volumes::Attachment;
use runtime::watch::Change;

use super::convert;

/// Node and volume; inline volumes have no name.
type AttachedTo = (Arc<str>, Option<Arc<str>>);

#[derive(Default)]
pub(super) struct Volumes {
    attachments: HashMap<Arc<str>, AttachedTo>,
    by_node: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// PersistentVolume to its claim and how people know it.
    known: HashMap<Arc<str>, convert::Volume>,
}

impl Volumes {
    pub(super) fn attached_to(&self, node: &str) -> Vec<Attachment> {
        let names = self.by_node.get(node).into_iter().flatten();
        names.filter_map(|name| Some(self.attachment(name, self.attachments.get(name)?))).collect()
    }

    fn attachment(&self, name: &Arc<str>, (_, volume): &AttachedTo) -> Attachment {
        let known = volume.as_ref().and_then(|volume| self.known.get(volume));
        Attachment {
            name: name.clone(),
            volume: volume.clone(),
            claim: known.and_then(|known| known.claim.clone()),
            shown: known
                .and_then(|known| known.handle.clone())
                .or_else(|| volume.clone())
                .unwrap_or_else(|| name.clone()),
        }
    }

    /// The nodes that gained or lost an attachment.
    pub(super) fn attachment_change(&mut self, change: Change<VolumeAttachment>) -> BTreeSet<Arc<str>> {
        let mut nodes = BTreeSet::new();
        match change {
            Change::Applied(attachment) => self.attach(&attachment, &mut nodes),
            Change::Deleted(attachment) => {
                if let Some(name) = attachment.metadata.name.as_deref() {
                    self.detach(name, &mut nodes);
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.attachments.keys().cloned().collect();
                for attachment in &all {
                    if let Some(name) = attachment.metadata.name.as_deref() {
                        gone.remove(name);
                    }
                    self.attach(attachment, &mut nodes);
                }
                for name in gone {
                    self.detach(&name, &mut nodes);
                }
            }
        }
        nodes
    }

    fn attach(&mut self, attachment: &VolumeAttachment, nodes: &mut BTreeSet<Arc<str>>) {
        let Some(name) = attachment.metadata.name.as_deref() else { return };
        let (name, node): (Arc<str>, Arc<str>) = (name.into(), attachment.spec.node_name.as_str().into());
        let volume = attachment.spec.source.persistent_volume_name.as_deref().map(Arc::from);
        self.by_node.entry(node.clone()).or_default().insert(name.clone());
        self.attachments.insert(name, (node.clone(), volume));
        nodes.insert(node);
    }

    fn detach(&mut self, name: &str, nodes: &mut BTreeSet<Arc<str>>) {
        let Some((node, _)) = self.attachments.remove(name) else { return };
        if let Some(own) = self.by_node.get_mut(&node) {
            own.remove(name);
            if own.is_empty() {
                self.by_node.remove(&node);
            }
        }
        nodes.insert(node);
    }

    pub(super) fn volume_change(&mut self, change: Change<PersistentVolume>) {
        match change {
            Change::Applied(volume) => self.know(&volume),
            Change::Deleted(volume) => {
                if let Some(name) = volume.metadata.name.as_deref() {
                    self.known.remove(name);
                }
            }
            Change::Reset(all) => {
                self.known.clear();
                all.iter().for_each(|volume| self.know(volume));
            }
        }
    }

    fn know(&mut self, volume: &PersistentVolume) {
        if let Some(name) = volume.metadata.name.as_deref() {
            self.known.insert(name.into(), convert::Volume::of(volume));
        }
    }
}

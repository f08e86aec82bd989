//! What the service knows of the cluster: nodes, claims, pods, budgets and volume attachments, reduced to what removal
//! needs, with the indexes that its questions need. One owner, no I/O: watches and answered writes are fed in, and every
//! change says whose removal may be affected by it.

mod claim;
mod convert;
mod node;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::NodeClaim;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use policy::drain;
use policy::drain::pdb::Pdb;
use policy::drain::volumes::Attachment;
use runtime::watch::Change;

pub(crate) use claim::{Claim, DRAINED, INSTANCE_TERMINATING, VOLUMES_DETACHED};
pub(crate) use node::{EXCLUDE_LABEL, EXCLUDE_VALUE, NodeState};

/// Whose removal a change may affect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Node(Arc<str>),
    Claim(Arc<str>),
}

/// A change of one kind, from a watch or from the answer to a write.
#[derive(Debug)]
pub(crate) enum Fact {
    Node(Change<Node>),
    Claim(Change<NodeClaim>),
    Pod(Change<Pod>),
    Pdb(Change<PodDisruptionBudget>),
    Attachment(Change<VolumeAttachment>),
    Volume(Change<PersistentVolume>),
}

/// Node and volume; inline volumes have no name.
type AttachedTo = (Arc<str>, Option<Arc<str>>);

#[derive(Default)]
pub(crate) struct World {
    nodes: HashMap<Arc<str>, Arc<NodeState>>,
    claims: HashMap<Arc<str>, Arc<Claim>>,
    nodes_by_provider: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    claims_by_provider: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// By uid, with the node it is on.
    pods: HashMap<Arc<str>, (Arc<str>, Arc<drain::Pod>)>,
    /// Node to uid to pod.
    pods_by_node: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<drain::Pod>>>,
    /// Namespace to name to budget.
    pdbs: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<Pdb>>>,
    /// Moves when a budget came, went or changed what it covers.
    pdb_coverage: u64,
    /// Attachment name to node and volume.
    attachments: HashMap<Arc<str>, AttachedTo>,
    attachments_by_node: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// PersistentVolume to its claim and how people know it.
    volumes: HashMap<Arc<str>, convert::Volume>,
    labels: residents::Labels,
}

impl World {
    pub(crate) fn apply(&mut self, fact: Fact, touched: &mut BTreeSet<Key>) {
        match fact {
            Fact::Node(change) => self.node_change(change, touched),
            Fact::Claim(change) => self.claim_change(change, touched),
            Fact::Pod(change) => self.pod_change(change, touched),
            Fact::Pdb(change) => self.pdb_change(change),
            Fact::Attachment(change) => self.attachment_change(change, touched),
            Fact::Volume(change) => self.volume_change(change),
        }
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Arc<NodeState>> {
        self.nodes.get(name)
    }

    pub(crate) fn claim(&self, name: &str) -> Option<&Arc<Claim>> {
        self.claims.get(name)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<NodeState>> {
        self.nodes.values()
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.values()
    }

    /// By name. An empty provider id matches nothing.
    pub(crate) fn nodes_with(&self, provider_id: &str) -> Vec<Arc<NodeState>> {
        let names = self.nodes_by_provider.get(provider_id).into_iter().flatten();
        names.filter_map(|name| self.nodes.get(name)).cloned().collect()
    }

    pub(crate) fn claims_with(&self, provider_id: &str) -> Vec<Arc<Claim>> {
        let names = self.claims_by_provider.get(provider_id).into_iter().flatten();
        names.filter_map(|name| self.claims.get(name)).cloned().collect()
    }

    /// The one claim of a node; several are as good as none.
    pub(crate) fn claim_of(&self, node: &NodeState) -> Option<Arc<Claim>> {
        let mut found = self.claims_with(node.provider_id.as_deref()?);
        if found.len() == 1 { found.pop() } else { None }
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<drain::Pod>> {
        self.pods_by_node.get(node).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn pdbs_in(&self, namespace: &str) -> Vec<Arc<Pdb>> {
        self.pdbs.get(namespace).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn pdb(&self, namespace: &str, name: &str) -> Option<&Arc<Pdb>> {
        self.pdbs.get(namespace)?.get(name)
    }

    /// The one budget that covers a pod. None, when several do: those are refused whatever they allow.
    pub(crate) fn budget_of(&self, pod: &drain::Pod) -> Option<Arc<Pdb>> {
        let all = self.pdbs.get(&pod.namespace)?;
        let mut covering = all.values().filter(|pdb| pdb.selects(pod));
        let first = covering.next()?;
        covering.next().is_none().then(|| Arc::clone(first))
    }

    pub(crate) fn pdb_coverage(&self) -> u64 {
        self.pdb_coverage
    }

    pub(crate) fn attachments_of(&self, node: &str) -> Vec<Attachment> {
        let names = self.attachments_by_node.get(node).into_iter().flatten();
        names.filter_map(|name| Some(self.attachment(name, self.attachments.get(name)?))).collect()
    }

    fn attachment(&self, name: &Arc<str>, (_, volume): &AttachedTo) -> Attachment {
        let known = volume.as_ref().and_then(|volume| self.volumes.get(volume));
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

    /// Everything that shares a provider id.
    fn touch_provider(&self, provider_id: Option<&str>, touched: &mut BTreeSet<Key>) {
        let Some(id) = provider_id else { return };
        touched.extend(self.nodes_by_provider.get(id).into_iter().flatten().cloned().map(Key::Node));
        touched.extend(self.claims_by_provider.get(id).into_iter().flatten().cloned().map(Key::Claim));
    }

    fn node_change(&mut self, change: Change<Node>, touched: &mut BTreeSet<Key>) {
        match change {
            Change::Applied(node) => {
                let Some(state) = NodeState::of(&node) else { return };
                if self.nodes.get(&state.name).is_some_and(|old| old.is_newer_than(&state)) {
                    return;
                }
                self.put_node(state, touched);
            }
            Change::Deleted(node) => {
                if let Some(name) = node.metadata.name.as_deref() {
                    self.drop_node(name, node.metadata.uid.as_deref(), touched);
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.nodes.keys().cloned().collect();
                for state in all.iter().filter_map(|node| NodeState::of(node)) {
                    gone.remove(&state.name);
                    self.put_node(state, touched);
                }
                for name in gone {
                    self.drop_node(&name, None, touched);
                }
            }
        }
    }

    fn put_node(&mut self, state: NodeState, touched: &mut BTreeSet<Key>) {
        let old = self.nodes.get(&state.name).and_then(|old| old.provider_id.clone());
        if old != state.provider_id {
            remove_from(&mut self.nodes_by_provider, old.as_ref(), &state.name);
            if let Some(id) = &state.provider_id {
                self.nodes_by_provider.entry(id.clone()).or_default().insert(state.name.clone());
            }
        }
        touched.insert(Key::Node(state.name.clone()));
        self.touch_provider(state.provider_id.as_deref(), touched);
        self.nodes.insert(state.name.clone(), Arc::new(state));
    }

    /// `uid`: only this one, not a namesake that came meanwhile.
    fn drop_node(&mut self, name: &str, uid: Option<&str>, touched: &mut BTreeSet<Key>) {
        let other = |node: &Arc<NodeState>| uid.is_some_and(|uid| *node.uid != *uid);
        if self.nodes.get(name).is_none_or(other) {
            return;
        }
        let Some(node) = self.nodes.remove(name) else { return };
        self.touch_provider(node.provider_id.as_deref(), touched);
        touched.insert(Key::Node(node.name.clone()));
        remove_from(&mut self.nodes_by_provider, node.provider_id.as_ref(), &node.name);
    }

    fn claim_change(&mut self, change: Change<NodeClaim>, touched: &mut BTreeSet<Key>) {
        match change {
            Change::Applied(claim) => {
                let Some(state) = Claim::of(&claim) else { return };
                if self.claims.get(&state.name).is_some_and(|old| old.is_newer_than(&state)) {
                    return;
                }
                self.put_claim(state, touched);
            }
            Change::Deleted(claim) => {
                if let Some(name) = claim.metadata.name.as_deref() {
                    self.drop_claim(name, claim.metadata.uid.as_deref(), touched);
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.claims.keys().cloned().collect();
                for state in all.iter().filter_map(|claim| Claim::of(claim)) {
                    gone.remove(&state.name);
                    self.put_claim(state, touched);
                }
                for name in gone {
                    self.drop_claim(&name, None, touched);
                }
            }
        }
    }

    fn put_claim(&mut self, state: Claim, touched: &mut BTreeSet<Key>) {
        let old = self.claims.get(&state.name).and_then(|old| old.provider_id.clone());
        if old != state.provider_id {
            remove_from(&mut self.claims_by_provider, old.as_ref(), &state.name);
            if let Some(id) = &state.provider_id {
                self.claims_by_provider.entry(id.clone()).or_default().insert(state.name.clone());
            }
        }
        touched.insert(Key::Claim(state.name.clone()));
        self.touch_provider(state.provider_id.as_deref(), touched);
        self.claims.insert(state.name.clone(), Arc::new(state));
    }

    fn drop_claim(&mut self, name: &str, uid: Option<&str>, touched: &mut BTreeSet<Key>) {
        let other = |claim: &Arc<Claim>| uid.is_some_and(|uid| *claim.uid != *uid);
        if self.claims.get(name).is_none_or(other) {
            return;
        }
        let Some(claim) = self.claims.remove(name) else { return };
        self.touch_provider(claim.provider_id.as_deref(), touched);
        touched.insert(Key::Claim(claim.name.clone()));
        remove_from(&mut self.claims_by_provider, claim.provider_id.as_ref(), &claim.name);
    }

    fn pod_change(&mut self, change: Change<Pod>, touched: &mut BTreeSet<Key>) {
        match change {
            Change::Applied(pod) => self.put_pod(&pod, touched),
            Change::Deleted(pod) => {
                if let Some(uid) = pod.metadata.uid.as_deref() {
                    self.drop_pod(uid, touched);
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.pods.keys().cloned().collect();
                for pod in &all {
                    if let Some(uid) = pod.metadata.uid.as_deref() {
                        gone.remove(uid);
                    }
                    self.put_pod(pod, touched);
                }
                for uid in gone {
                    self.drop_pod(&uid, touched);
                }
                self.labels.forget_unused();
            }
        }
    }

    /// Pods without a node hold none up and are not kept.
    fn put_pod(&mut self, pod: &Pod, touched: &mut BTreeSet<Key>) {
        let Some((node, state)) = residents::pod(pod, &mut self.labels) else { return };
        touched.insert(Key::Node(node.clone()));
        let state = Arc::new(state);
        self.pods_by_node.entry(node.clone()).or_default().insert(state.uid.clone(), Arc::clone(&state));
        self.pods.insert(state.uid.clone(), (node, state));
    }

    fn drop_pod(&mut self, uid: &str, touched: &mut BTreeSet<Key>) {
        let Some((node, _)) = self.pods.remove(uid) else { return };
        if let Some(pods) = self.pods_by_node.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.pods_by_node.remove(&node);
            }
        }
        touched.insert(Key::Node(node));
    }

    fn pdb_change(&mut self, change: Change<PodDisruptionBudget>) {
        match change {
            Change::Applied(pdb) => {
                if let Some(pdb) = residents::pdb(&pdb) {
                    self.put_pdb(pdb);
                }
            }
            Change::Deleted(pdb) => {
                self.pdb_coverage += 1;
                let (namespace, name) = (pdb.metadata.namespace.as_deref(), pdb.metadata.name.as_deref());
                if let (Some(namespace), Some(name)) = (namespace, name)
                    && let Some(own) = self.pdbs.get_mut(namespace)
                {
                    own.remove(name);
                }
            }
            Change::Reset(all) => {
                self.pdb_coverage += 1;
                self.pdbs.clear();
                all.iter().filter_map(|pdb| residents::pdb(pdb)).for_each(|pdb| self.put_pdb(pdb));
            }
        }
    }

    fn put_pdb(&mut self, pdb: Pdb) {
        let own = self.pdbs.entry(pdb.namespace.clone()).or_default();
        if own.get(&pdb.name).is_none_or(|old| old.selector != pdb.selector) {
            self.pdb_coverage += 1;
        }
        own.insert(pdb.name.clone(), Arc::new(pdb));
    }

    fn attachment_change(&mut self, change: Change<VolumeAttachment>, touched: &mut BTreeSet<Key>) {
        match change {
            Change::Applied(attachment) => self.put_attachment(&attachment, touched),
            Change::Deleted(attachment) => {
                if let Some(name) = attachment.metadata.name.as_deref() {
                    self.drop_attachment(name, touched);
                }
            }
            Change::Reset(all) => {
                let mut gone: BTreeSet<Arc<str>> = self.attachments.keys().cloned().collect();
                for attachment in &all {
                    if let Some(name) = attachment.metadata.name.as_deref() {
                        gone.remove(name);
                    }
                    self.put_attachment(attachment, touched);
                }
                for name in gone {
                    self.drop_attachment(&name, touched);
                }
            }
        }
    }

    fn put_attachment(&mut self, attachment: &VolumeAttachment, touched: &mut BTreeSet<Key>) {
        let Some(name) = attachment.metadata.name.as_deref() else { return };
        let (name, node): (Arc<str>, Arc<str>) = (name.into(), attachment.spec.node_name.as_str().into());
        let volume = attachment.spec.source.persistent_volume_name.as_deref().map(Arc::from);
        touched.insert(Key::Node(node.clone()));
        self.attachments_by_node.entry(node.clone()).or_default().insert(name.clone());
        self.attachments.insert(name, (node, volume));
    }

    fn drop_attachment(&mut self, name: &str, touched: &mut BTreeSet<Key>) {
        let Some((node, _)) = self.attachments.remove(name) else { return };
        if let Some(own) = self.attachments_by_node.get_mut(&node) {
            own.remove(name);
            if own.is_empty() {
                self.attachments_by_node.remove(&node);
            }
        }
        touched.insert(Key::Node(node));
    }

    fn volume_change(&mut self, change: Change<PersistentVolume>) {
        match change {
            Change::Applied(volume) => self.put_volume(&volume),
            Change::Deleted(volume) => {
                if let Some(name) = volume.metadata.name.as_deref() {
                    self.volumes.remove(name);
                }
            }
            Change::Reset(all) => {
                self.volumes.clear();
                all.iter().for_each(|volume| self.put_volume(volume));
            }
        }
    }

    fn put_volume(&mut self, volume: &PersistentVolume) {
        if let Some(name) = volume.metadata.name.as_deref() {
            self.volumes.insert(name.into(), convert::Volume::of(volume));
        }
    }
}

fn remove_from(index: &mut HashMap<Arc<str>, BTreeSet<Arc<str>>>, key: Option<&Arc<str>>, name: &str) {
    let Some(key) = key else { return };
    if let Some(names) = index.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            index.remove(key);
        }
    }
}

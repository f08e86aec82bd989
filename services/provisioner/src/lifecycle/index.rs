//! Claims, Nodes and EC2NodeClasses as this replica knows them, and which claim a Node belongs to. Own writes are taken in at
//! once, so that the next decision sees them; an older event that arrives later does not undo them.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{EC2NodeClass, NodeClaim};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use runtime::watch::Change;
use rustc_hash::FxHashMap;

use super::decision::{self, Memory};
use crate::watches::{slim_claim, slim_node};

pub(super) type Name = Arc<str>;

pub(super) struct Claim {
    pub(super) object: Arc<NodeClaim>,
    pub(super) memory: Memory,
}

#[derive(Default)]
pub(super) struct Index {
    claims: FxHashMap<Name, Claim>,
    nodes: FxHashMap<Name, Arc<Node>>,
    classes: FxHashMap<Name, Arc<EC2NodeClass>>,
    claims_by_id: FxHashMap<String, BTreeSet<Name>>,
    nodes_by_id: FxHashMap<String, BTreeSet<Name>>,
    synced: [bool; 3],
}

impl Index {
    /// Every kind has been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.synced == [true; 3]
    }

    pub(super) fn claim(&self, name: &str) -> Option<&Claim> {
        self.claims.get(name)
    }

    pub(super) fn memory(&mut self, name: &str) -> Option<&mut Memory> {
        self.claims.get_mut(name).map(|claim| &mut claim.memory)
    }

    pub(super) fn class(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        self.classes.get(name).cloned()
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.claims.keys().cloned().collect()
    }

    /// All Nodes with the claim's provider id.
    pub(super) fn nodes_of(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        let names = decision::provider_id(claim).and_then(|id| self.nodes_by_id.get(id));
        names.into_iter().flatten().filter_map(|name| self.nodes.get(name).cloned()).collect()
    }

    /// The claims that the change is about.
    pub(super) fn claims_changed(&mut self, change: Change<NodeClaim>) -> Vec<Name> {
        match change {
            Change::Applied(object) => self.put_claim(object).into_iter().collect(),
            Change::Deleted(object) => {
                self.remove_claim(&name_of(&*object));
                Vec::new()
            }
            Change::Reset(objects) => {
                self.synced[0] = true;
                let listed: BTreeSet<Name> = objects.iter().map(|object| name_of(&**object)).collect();
                let gone: Vec<Name> = self.claims.keys().filter(|n| !listed.contains(*n)).cloned().collect();
                gone.iter().for_each(|name| self.remove_claim(name));
                for object in objects {
                    self.put_claim(object);
                }
                self.names()
            }
        }
    }

    /// The claims that the change is about.
    pub(super) fn nodes_changed(&mut self, change: Change<Node>) -> Vec<Name> {
        match change {
            Change::Applied(object) => self.put_node(object),
            Change::Deleted(object) => self.remove_node(&name_of(&*object)),
            Change::Reset(objects) => {
                self.synced[1] = true;
                let listed: BTreeSet<Name> = objects.iter().map(|object| name_of(&**object)).collect();
                let gone: Vec<Name> = self.nodes.keys().filter(|n| !listed.contains(*n)).cloned().collect();
                gone.iter().for_each(|name| drop(self.remove_node(name)));
                for object in objects {
                    self.put_node(object);
                }
                self.names()
            }
        }
    }

    /// Claims whose launch had failed and may succeed now.
    pub(super) fn classes_changed(&mut self, change: Change<EC2NodeClass>) -> Vec<Name> {
        let changed = match change {
            Change::Applied(object) => {
                let name = name_of(&*object);
                self.classes.insert(name.clone(), object);
                Some(name)
            }
            Change::Deleted(object) => {
                let name = name_of(&*object);
                self.classes.remove(&name);
                Some(name)
            }
            Change::Reset(objects) => {
                self.synced[2] = true;
                self.classes = objects.into_iter().map(|object| (name_of(&*object), object)).collect();
                None
            }
        };
        let mut nudged = Vec::new();
        for (name, claim) in &mut self.claims {
            let concerned =
                changed.as_deref().is_none_or(|class| claim.object.spec.node_class_ref.name == class);
            if concerned && claim.memory.launch_after.take().is_some() {
                nudged.push(name.clone());
            }
        }
        nudged
    }

    /// As read or written by ourselves. A claim that is gone does not come back by it.
    pub(super) fn claim_written(&mut self, mut object: NodeClaim) {
        let Some(own) = self.claims.get(&*name_of(&object)) else { return };
        // The very version that is known is shared with others: a copy of it would only take room.
        let newer = own.object.metadata.resource_version != object.metadata.resource_version;
        if newer && same_object(&*own.object, &object) {
            slim_claim(&mut object);
            self.put_claim(Arc::new(object));
        }
    }

    pub(super) fn node_written(&mut self, mut object: Node) {
        let known = self.nodes.get(&*name_of(&object)).is_some_and(|own| same_object(&**own, &object));
        if known {
            slim_node(&mut object);
            self.put_node(Arc::new(object));
        }
    }

    /// We deleted it. Until the watch says so too, nothing more is done with it.
    pub(super) fn claim_deleted(&mut self, name: &str, now: Timestamp) {
        if let Some(claim) = self.claims.get_mut(name) {
            Arc::make_mut(&mut claim.object).metadata.deletion_timestamp.get_or_insert(Time(now));
        }
    }

    fn remove_claim(&mut self, name: &str) {
        if let Some(old) = self.claims.remove(name) {
            unlink(&mut self.claims_by_id, decision::provider_id(&old.object), name);
        }
    }

    fn put_claim(&mut self, object: Arc<NodeClaim>) -> Option<Name> {
        let name = name_of(&*object);
        let old = self.claims.get(&name);
        if old.is_some_and(|old| is_older(&*object, &*old.object)) {
            return None;
        }
        let memory = old.filter(|old| same_object(&*old.object, &*object)).map(|old| old.memory.clone());
        let old_id = old.and_then(|old| decision::provider_id(&old.object)).map(str::to_owned);
        let id = decision::provider_id(&object).map(str::to_owned);
        if old_id != id {
            unlink(&mut self.claims_by_id, old_id.as_deref(), &name);
            if let Some(id) = id {
                self.claims_by_id.entry(id).or_default().insert(name.clone());
            }
        }
        let claim = Claim { object, memory: memory.unwrap_or_default() };
        self.claims.insert(name.clone(), claim);
        Some(name)
    }

    fn put_node(&mut self, object: Arc<Node>) -> Vec<Name> {
        let name = name_of(&*object);
        let old = self.nodes.get(&name);
        if old.is_some_and(|old| is_older(&*object, &**old)) {
            return Vec::new();
        }
        let old_id = old.and_then(|old| id_of(old)).map(str::to_owned);
        let id = id_of(&object).map(str::to_owned);
        let mut concerned = Vec::new();
        if old_id != id {
            unlink(&mut self.nodes_by_id, old_id.as_deref(), &name);
            if let Some(id) = &id {
                self.nodes_by_id.entry(id.clone()).or_default().insert(name.clone());
            }
            concerned.extend(self.owners(old_id.as_deref()));
        }
        self.nodes.insert(name, object);
        concerned.extend(self.owners(id.as_deref()));
        concerned
    }

    fn remove_node(&mut self, name: &str) -> Vec<Name> {
        let Some(old) = self.nodes.remove(name) else { return Vec::new() };
        let id = id_of(&old);
        unlink(&mut self.nodes_by_id, id, name);
        self.owners(id)
    }

    fn owners(&self, id: Option<&str>) -> Vec<Name> {
        id.and_then(|id| self.claims_by_id.get(id)).into_iter().flatten().cloned().collect()
    }
}

fn unlink(by_id: &mut FxHashMap<String, BTreeSet<Name>>, id: Option<&str>, name: &str) {
    let Some(id) = id else { return };
    if let Some(names) = by_id.get_mut(id) {
        names.remove(name);
        if names.is_empty() {
            by_id.remove(id);
        }
    }
}

fn id_of(node: &Node) -> Option<&str> {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty())
}

pub(super) fn name_of<K: Resource>(object: &K) -> Name {
    Arc::from(object.meta().name.as_deref().unwrap_or_default())
}

fn same_object<K: Resource>(a: &K, b: &K) -> bool {
    a.meta().uid == b.meta().uid
}

/// Versions count up, and may be compared since Kubernetes 1.35; any that is no number is taken as new.
pub(crate) fn is_older<K: Resource>(new: &K, known: &K) -> bool {
    let version = |object: &K| object.meta().resource_version.as_deref().and_then(|v| v.parse::<u64>().ok());
    same_object(new, known) && version(new).zip(version(known)).is_some_and(|(new, known)| new < known)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;

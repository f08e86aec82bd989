//! Nodes and claims, joined by provider id into what the solver knows as one node from launch to deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::convert::{self, NodeFacts};
use api::{NodeClaim, conditions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSINode;
use model::catalog::InstanceType;
use model::labels;
use model::node::{Node, NodeState};
use model::pod::Pod;
use model::taint::Taint;
use policy::drain::Deadline;
use rustc_hash::FxHashMap;

use super::excerpt::leaves;
use super::in_flight;
use crate::catalog::Offer;

/// A node as the solver knows it, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Shared with views.
    pub(super) node: Arc<Node>,
    /// Kubernetes' name, once there is a Node.
    pub(super) object: Option<Arc<str>>,
    pub(super) provider_id: Option<Arc<str>>,
    pub(super) launched: bool,
    /// The claim is being deleted, or the Node where there is no claim.
    pub(super) deleted: bool,
    /// Of the Node.
    pub(super) created: Option<Timestamp>,
    /// Its pods will soon be deleted, whatever protects them.
    pub(super) forced: bool,
}

impl Entry {
    /// Whether this pod of it needs another place because the node goes.
    pub(super) fn moves(&self, pod: &Pod) -> bool {
        self.node.state == NodeState::Deleting && leaves(pod, self.forced)
    }
}

#[derive(Default)]
pub(super) struct Nodes {
    objects: BTreeMap<Arc<str>, Arc<core::Node>>,
    pub(super) claims: BTreeMap<Arc<str>, Arc<NodeClaim>>,
    node_of: FxHashMap<String, Arc<str>>,
    claim_of: FxHashMap<String, Arc<str>>,
    csi: BTreeMap<String, Arc<CSINode>>,
    /// By the solver's name.
    pub(super) entries: BTreeMap<Arc<str>, Entry>,
    /// Solver's name by Kubernetes' name, and by claim.
    named: FxHashMap<Arc<str>, Arc<str>>,
    named_by_claim: FxHashMap<Arc<str>, Arc<str>>,
    /// In memory only: pods were just sent there.
    nominated: FxHashMap<Arc<str>, Timestamp>,
}

/// What became of the solver's node.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) removed: Vec<Arc<str>>,
    pub(super) set: Option<Arc<str>>,
    /// It appeared, changed its name, or began or ceased to be on its way out: its pods must be looked at again.
    pub(super) pods_too: bool,
    /// Its deadline came near, or is off: what that means to its pods changed.
    pub(super) forced_too: bool,
    /// When facts about it change by themselves.
    pub(super) due: Option<Timestamp>,
}

/// What nodes are judged with.
pub(super) struct Surroundings<'a> {
    pub(super) offer: &'a Offer,
    /// `consolidateAfter` by NodePool, where it is not zero.
    pub(super) settling: &'a BTreeMap<String, SignedDuration>,
    pub(super) now: Timestamp,
}

pub(super) fn provider_of_claim(claim: &NodeClaim) -> Option<&str> {
    claim.status.as_ref().and_then(|s| s.provider_id.as_deref()).filter(|id| !id.is_empty())
}

fn provider_of_node(node: &core::Node) -> Option<&str> {
    node.spec.as_ref().and_then(|s| s.provider_id.as_deref()).filter(|id| !id.is_empty())
}

impl Nodes {
    pub(super) fn set_object(&mut self, node: Arc<core::Node>) -> Arc<str> {
        let name: Arc<str> = Arc::from(node.metadata.name.as_deref().unwrap_or_default());
        self.drop_object(&name);
        if let Some(id) = provider_of_node(&node) {
            self.node_of.insert(id.to_owned(), Arc::clone(&name));
        }
        self.objects.insert(Arc::clone(&name), node);
        name
    }

    pub(super) fn drop_object(&mut self, name: &str) {
        if let Some(old) = self.objects.remove(name)
            && let Some(id) = provider_of_node(&old)
            && self.node_of.get(id).is_some_and(|n| **n == *name)
        {
            self.node_of.remove(id);
        }
    }

    pub(super) fn set_claim(&mut self, claim: Arc<NodeClaim>) -> Arc<str> {
        let name: Arc<str> = Arc::from(claim.metadata.name.as_deref().unwrap_or_default());
        self.drop_claim(&name);
        if let Some(id) = provider_of_claim(&claim) {
            self.claim_of.insert(id.to_owned(), Arc::clone(&name));
        }
        self.claims.insert(Arc::clone(&name), claim);
        name
    }

    pub(super) fn drop_claim(&mut self, name: &str) -> Option<Arc<NodeClaim>> {
        let old = self.claims.remove(name)?;
        if let Some(id) = provider_of_claim(&old)
            && self.claim_of.get(id).is_some_and(|n| **n == *name)
        {
            self.claim_of.remove(id);
        }
        Some(old)
    }

    pub(super) fn set_csi(&mut self, csi: Arc<CSINode>) {
        self.csi.insert(csi.metadata.name.clone().unwrap_or_default(), csi);
    }

    pub(super) fn drop_csi(&mut self, name: &str) {
        self.csi.remove(name);
    }

    /// How many claims are to be launched into each reservation and are not yet.
    pub(super) fn held_reservations(&self) -> BTreeMap<String, u32> {
        let mut held = BTreeMap::new();
        for entry in self.entries.values().filter(|e| !e.launched && !e.deleted) {
            let claim = entry.node.claim.as_ref().and_then(|name| self.claims.get(name));
            let wanted = claim.into_iter().flat_map(|c| &c.spec.requirements);
            for requirement in wanted.filter(|r| r.key == labels::CAPACITY_RESERVATION_ID) {
                if let [only] = requirement.values() {
                    *held.entry(only.clone()).or_default() += 1;
                }
            }
        }
        held
    }

    pub(super) fn object_names(&self) -> Vec<Arc<str>> {
        self.objects.keys().cloned().collect()
    }

    pub(super) fn claim_names(&self) -> Vec<Arc<str>> {
        self.claims.keys().cloned().collect()
    }

    pub(super) fn nominate(&mut self, node: &Arc<str>, until: Timestamp) {
        let known = self.nominated.entry(Arc::clone(node)).or_insert(until);
        *known = (*known).max(until);
    }

    /// The solver's name of a Kubernetes Node.
    pub(super) fn of_object(&self, name: &str) -> Option<&Arc<str>> {
        self.named.get(name)
    }

    /// The solver's name of a claim's node.
    pub(super) fn of_claim(&self, claim: &str) -> Option<&Arc<str>> {
        self.named_by_claim.get(claim)
    }

    /// The claim that belongs to a Node object, if any.
    pub(super) fn claim_of_object(&self, name: &str) -> Option<Arc<str>> {
        let object = self.objects.get(name)?;
        self.claim_of.get(provider_of_node(object)?).cloned()
    }

    pub(super) fn object_of_claim(&self, name: &str) -> Option<Arc<str>> {
        let claim = self.claims.get(name)?;
        self.node_of.get(provider_of_claim(claim)?).cloned()
    }

    /// Joins anew what belongs to this Node or claim, and says what changed for the solver.
    pub(super) fn refresh(
        &mut self,
        object: Option<&str>,
        claim: Option<&str>,
        around: &Surroundings<'_>,
    ) -> Moved {
        let object_name = object
            .and_then(|name| self.objects.get_key_value(name).map(|(k, _)| Arc::clone(k)))
            .or_else(|| claim.and_then(|name| self.object_of_claim(name)));
        let claim_name = claim
            .and_then(|name| self.claims.get_key_value(name).map(|(k, _)| Arc::clone(k)))
            .or_else(|| object.and_then(|name| self.claim_of_object(name)));
        let (entry, due) = match self.join(object_name.as_ref(), claim_name.as_ref(), around) {
            Some((entry, due)) => (Some(entry), due),
            None => (None, None),
        };
        let mut moved = Moved { due, ..Moved::default() };
        let mut before: Vec<Arc<str>> = Vec::new();
        for (map, key) in [
            (&self.named, object.map(Arc::from).or_else(|| object_name.clone())),
            (&self.named_by_claim, claim.map(Arc::from).or_else(|| claim_name.clone())),
        ] {
            before.extend(key.and_then(|k: Arc<str>| map.get(&k).cloned()));
        }
        before.sort_unstable();
        before.dedup();
        for old in before.iter().filter(|old| entry.as_ref().is_none_or(|e| e.node.name != **old)) {
            self.forget(old);
            moved.removed.push(Arc::clone(old));
            moved.pods_too = true;
        }
        // What does not belong to it any more must not lead to it.
        if let Some(name) =
            object.filter(|name| entry.as_ref().and_then(|e| e.object.as_deref()) != Some(*name))
        {
            self.named.remove(name);
        }
        let own = |e: &Entry| e.node.claim.clone();
        if let Some(name) = claim.filter(|name| entry.as_ref().and_then(own).as_deref() != Some(*name)) {
            self.named_by_claim.remove(name);
        }
        if let Some(entry) = entry {
            let name = Arc::clone(&entry.node.name);
            let old = self.entries.get(&name);
            if old != Some(&entry) {
                let deleting = |e: &Entry| e.node.state == NodeState::Deleting;
                moved.forced_too |= old.is_some_and(|o| o.forced != entry.forced);
                moved.pods_too |= moved.forced_too
                    || old.is_none_or(|o| deleting(o) != deleting(&entry) || o.object != entry.object);
                if let Some(object) = &entry.object {
                    self.named.insert(Arc::clone(object), Arc::clone(&name));
                }
                if let Some(claim) = &entry.node.claim {
                    self.named_by_claim.insert(Arc::clone(claim), Arc::clone(&name));
                }
                self.entries.insert(Arc::clone(&name), entry);
                moved.set = Some(name);
            }
        }
        moved
    }

    /// Since when a Node is ready, if it is; a Node that does not say since when has always been.
    pub(super) fn ready_since(&self, name: &str) -> Option<Timestamp> {
        let status = self.objects.get(name)?.status.as_ref()?;
        let is_ready = |c: &&core::NodeCondition| c.type_ == "Ready" && c.status == "True";
        let ready = status.conditions.iter().flatten().find(is_ready)?;
        Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
    }

    /// Context of the trace of a node on its way out, by the solver's name.
    pub(super) fn trace_of_leaving(&self, name: &str) -> Option<Arc<str>> {
        let entry = self.entries.get(name).filter(|e| e.node.state == NodeState::Deleting)?;
        let claim = self.claims.get(entry.node.claim.as_ref()?)?;
        let trace = claim.metadata.annotations.as_ref()?.get(labels::TRACEPARENT)?;
        Some(Arc::from(trace.as_str()))
    }

    /// Of the Node that the solver knows by this name.
    pub(super) fn annotation(&self, name: &str, key: &str) -> Option<&str> {
        let object = self.objects.get(self.entries.get(name)?.object.as_ref()?)?;
        object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn forget(&mut self, name: &Arc<str>) {
        let Some(entry) = self.entries.remove(name) else { return };
        if let Some(object) = &entry.object
            && self.named.get(object) == Some(name)
        {
            self.named.remove(object);
        }
        if let Some(claim) = &entry.node.claim
            && self.named_by_claim.get(claim) == Some(name)
        {
            self.named_by_claim.remove(claim);
        }
    }

    fn join(
        &self,
        object_name: Option<&Arc<str>>,
        claim_name: Option<&Arc<str>>,
        around: &Surroundings<'_>,
    ) -> Option<(Entry, Option<Timestamp>)> {
        let object = object_name.and_then(|name| self.objects.get(name)).map(|o| &**o);
        let claim = claim_name.and_then(|name| self.claims.get(name)).map(|c| &**c);
        // A Node of ours whose provider id is still to come would be counted beside its claim.
        let label = |key: &str| object.and_then(|o| o.metadata.labels.as_ref()).and_then(|l| l.get(key));
        if claim.is_none() && label(labels::NODEPOOL).is_some() && object.and_then(provider_of_node).is_none()
        {
            return None;
        }
        let (facts, due) = self.facts(object, claim, around);
        let launched = claim.is_none_or(|c| provider_of_claim(c).is_some());
        let csi = object_name.and_then(|name| self.csi.get(&**name)).map(|c| &**c);
        let types = |claim: &NodeClaim| {
            let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
            let class = in_flight::class_of(claim)?;
            around.offer.types_for(&class, pool.map_or("", String::as_str)).map(|types| types.as_slice())
        };
        let node = if launched {
            let mut node = convert::node(object, claim, csi, facts)
                .inspect_err(|error| tracing::warn!(%error, "node left out until it is corrected"))
                .ok()
                .flatten()?;
            if let (Some(claim), false) = (claim, node.initialized) {
                let name = node.labels.get(labels::INSTANCE_TYPE);
                let mut known = types(claim).unwrap_or_default().iter();
                let own: Vec<&InstanceType> =
                    known.find(|kind| name.is_some_and(|name| **name == *kind.name)).into_iter().collect();
                in_flight::limit_volumes(&mut node, &own);
            }
            node
        } else {
            let claim = claim?;
            in_flight::node(claim, types(claim), facts)?
        };
        let near = claim.and_then(deadline_is_near_at);
        let due = near.filter(|at| *at > around.now).into_iter().chain(due).min();
        let provider = claim.and_then(provider_of_claim).or_else(|| object.and_then(provider_of_node));
        let entry = Entry {
            node: Arc::new(node),
            object: object_name.cloned().filter(|_| object.is_some()),
            provider_id: provider.map(Arc::from),
            launched,
            deleted: match claim {
                Some(claim) => claim.metadata.deletion_timestamp.is_some(),
                None => object.is_some_and(|o| o.metadata.deletion_timestamp.is_some()),
            },
            created: object.and_then(|o| o.metadata.creation_timestamp.as_ref()).map(|t| t.0),
            forced: near.is_some_and(|at| at <= around.now),
        };
        Some((entry, due))
    }

    fn facts(
        &self,
        object: Option<&core::Node>,
        claim: Option<&NodeClaim>,
        around: &Surroundings<'_>,
    ) -> (NodeFacts, Option<Timestamp>) {
        let taints =
            object.and_then(|o| o.spec.as_ref()).and_then(|s| s.taints.as_deref()).unwrap_or_default();
        let disrupted = Taint::disrupted();
        // A tainted node counts as going only when its claim says why: by then its replacements exist, and its pods are
        // theirs. Earlier, we would make nodes for the same pods.
        let reason = |c: &NodeClaim| {
            let all = c.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
            conditions::is_true(all, "DisruptionReason")
        };
        let chosen = claim.is_some_and(reason)
            && taints.iter().any(|t| t.key == disrupted.key && t.effect == disrupted.effect.as_str());
        let name = |meta: &kube::core::ObjectMeta| meta.name.clone().unwrap_or_default();
        let nominated = [object.map(|o| name(&o.metadata)), claim.map(|c| name(&c.metadata))]
            .into_iter()
            .flatten()
            .filter_map(|name| self.nominated.get(name.as_str()).copied())
            .max()
            .filter(|until| *until > around.now);
        let settles = claim.and_then(|c| settled_at(c, around.settling)).filter(|until| *until > around.now);
        let facts = NodeFacts {
            marked_for_deletion: chosen,
            nominated: nominated.is_some(),
            settling: settles.is_some(),
        };
        (facts, [nominated, settles].into_iter().flatten().min())
    }
}

/// Pods that a budget or an annotation holds on a node that goes get another place this long before the deadline at which
/// they are deleted all the same. A spot instance has two minutes left, so its pods do at once; more than that lets a node
/// boot in time where the deadline is far.
const DEADLINE_IS_NEAR: SignedDuration = SignedDuration::from_mins(5);

/// From when on the claim's pods are about to be deleted whatever protects them; `None` where nothing forces them out.
fn deadline_is_near_at(claim: &NodeClaim) -> Option<Timestamp> {
    claim.metadata.deletion_timestamp.as_ref()?;
    let annotation = claim.metadata.annotations.as_ref()?.get(labels::TERMINATION_TIMESTAMP);
    let deadline = Deadline::parse(annotation.map(String::as_str)).at()?;
    Some(deadline.checked_sub(DEADLINE_IS_NEAR).unwrap_or(Timestamp::MIN))
}

/// When consolidation may move pods to the node again.
fn settled_at(claim: &NodeClaim, settling: &BTreeMap<String, SignedDuration>) -> Option<Timestamp> {
    let pool = claim.metadata.labels.as_ref()?.get(labels::NODEPOOL)?;
    let after = settling.get(pool)?;
    let status = claim.status.as_ref()?;
    let all = status.conditions.as_deref().unwrap_or_default();
    let initialized =
        conditions::find(all, "Initialized").filter(|c| c.status == conditions::ConditionStatus::True)?;
    let last = status.last_pod_event_time.as_ref().map_or(initialized.last_transition_time.0, |t| t.0);
    last.checked_add(*after).ok()
}

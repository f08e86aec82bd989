//! All that the cluster actor owns: takes in one change at a time and keeps count of what it means to the solver's snapshot.
//! No clock and no I/O: `now` is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::convert::{self, PodBudget};
use api::{NodeClaim, NodePool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::CSINode;
use model::catalog::LabelMap;
use runtime::watch::{Change, Streamed};
use rustc_hash::{FxHashMap, FxHashSet};
use tracing::warn;

use super::buffers::Buffers;
use super::launches::Launches;
use super::nodes::{Nodes, Surroundings};
use super::nominations::{self, Nominations};
use super::pods::{Outcome, PodKey, Pods, Shown, legible};
use super::pools::{self, Daemons, key_of_set};
use super::storage::{Storage, by_name};
use crate::catalog::Offer;

/// Something that changes by itself when its time comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Nomination(Arc<str>),
    /// Of a claim: pods may be left that do not fit its node any more.
    Settled(Arc<str>),
    /// A claim's or a Node's settling or nomination.
    Node(Arc<str>),
    Protection(PodKey),
    Assumed(Arc<str>),
    /// A pod that kube-scheduler refused on several nodes may get another.
    Refusal(PodKey),
    /// Launches that failed may be tried again.
    Backoff,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) pods: Pods,
    pub(super) nodes: Nodes,
    pub(super) storage: Arc<Storage>,
    pub(super) budgets: BTreeMap<String, Vec<PodBudget>>,
    pub(super) daemons: Daemons,
    pub(super) pools: BTreeMap<String, Arc<NodePool>>,
    pub(super) settling: BTreeMap<String, SignedDuration>,
    pub(super) namespaces: BTreeMap<String, LabelMap>,
    pub(super) nominations: Nominations,
    pub(super) buffers: Buffers,
    pub(super) launches: Launches,
    /// How long room is kept on a node that has just become ready.
    pub(super) window: SignedDuration,
    /// Highest resourceVersion of a NodeClaim that the watch has shown.
    pub(super) claims_version: u64,
    /// Claims that we made and no watch has shown yet.
    pub(super) assumed: FxHashMap<Arc<str>, Timestamp>,
    /// Those of them that it is time to look up.
    pub(super) overdue: Vec<Arc<str>>,
    pub(super) offer: Offer,
    pub(super) due: BTreeSet<(Timestamp, Due)>,
    /// By the solver's name of a node: pods shown there.
    pub(super) on: FxHashMap<Arc<str>, BTreeSet<PodKey>>,
    /// Nodes on their way out: when their pods were last decided about.
    pub(super) leaving: FxHashMap<Arc<str>, Timestamp>,
    /// While pods are listed: those that the list has shown so far.
    pub(super) listing: Option<FxHashSet<PodKey>>,
    pub(super) delta: Delta,
    /// How often kube-scheduler refused a pod on a node that was made for it.
    pub(super) refused: u64,
    /// Pods that wait and should be decided about; `true`: at once.
    pub(super) triggers: Vec<(Arc<str>, bool)>,
}

/// When pods that lost their nomination are decided about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    AtOnce,
    /// With the next batch.
    Soon,
    /// The end of the pause triggers them.
    AfterBackoff,
}

/// Changes that the solver's snapshot has to take over.
#[derive(Default)]
pub(super) struct Delta {
    pub(super) changes: Vec<solver::Change>,
    /// Pools, daemons or the catalogue changed: changes are not enough.
    pub(super) rebuild: bool,
    /// Names of nodes whose view is stale.
    pub(super) nodes: BTreeSet<Arc<str>>,
    /// Anything at all.
    pub(super) any: bool,
}

impl State {
    pub(super) fn node_changed(&mut self, object: Option<&str>, claim: Option<&str>, now: Timestamp) {
        let around = Surroundings { offer: &self.offer, settling: &self.settling, now };
        let moved = self.nodes.refresh(object, claim, &around);
        if let Some(due) = moved.due {
            let name: Arc<str> = Arc::from(claim.or(object).unwrap_or_default());
            self.due.insert((due, Due::Node(name)));
        }
        let mut affected: Vec<PodKey> = Vec::new();
        for name in &moved.removed {
            self.delta.push(solver::Change::NodeRemoved(Arc::clone(name)));
            self.delta.nodes.insert(Arc::clone(name));
            for key in self.on.remove(name).unwrap_or_default() {
                if let Some(record) = self.pods.records.get_mut(&key) {
                    record.shown = Shown::No;
                }
                affected.push(key);
            }
        }
        if let Some(name) = &moved.set
            && let Some(entry) = self.nodes.entries.get(name)
        {
            self.delta.push(solver::Change::NodeSet((*entry.node).clone()));
            self.delta.nodes.insert(Arc::clone(name));
            if moved.pods_too {
                affected.extend(entry.object.iter().flat_map(|object| self.pods.on_node(object)));
                let nominated = entry.node.claim.iter().flat_map(|claim| self.nominations.of(claim));
                affected.extend(nominated.filter_map(|uid| self.pods.by_short(*uid)).cloned());
            }
        }
        affected.sort_unstable();
        affected.dedup();
        for key in affected {
            if moved.forced_too {
                // Also where it stays: what the deadline means to it is part of what is shown.
                self.pod_outcome(Outcome::Changed(key));
            } else {
                self.show(&key);
            }
        }
        if let Some(name) = moved.set.as_ref().filter(|_| moved.forced_too) {
            self.leaving.remove(name);
        }
        if let Some(name) = moved.set.filter(|_| moved.pods_too) {
            self.trigger_leaving(&name, now);
        }
    }

    pub(super) fn take_pod(&mut self, pod: &Arc<core::Pod>, now: Timestamp) {
        let key = Pods::key(pod);
        let mut shared = self.pods.exclusive_claims(&key, &self.storage);
        self.take_pod_alone(pod, now);
        shared.extend(self.pods.exclusive_claims(&key, &self.storage));
        self.judge_sharers(shared, &key, now);
    }

    fn drop_pod(&mut self, key: &PodKey, now: Timestamp) {
        let shared = self.pods.exclusive_claims(key, &self.storage);
        let outcome = self.pods.remove(key);
        self.pod_outcome(outcome);
        self.judge_sharers(shared, key, now);
    }

    /// Without a look at others that use the same volumes.
    pub(super) fn take_pod_alone(&mut self, pod: &Arc<core::Pod>, now: Timestamp) {
        if self.daemons.saw(pod) {
            self.delta.rebuild = true;
        }
        match self.pods.apply(pod, &self.storage, &self.budgets, now) {
            Ok(outcome) => self.pod_outcome(outcome),
            Err(error) => {
                let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                let mut read_in_part = || {
                    [true, false].into_iter().find_map(|with_requests| {
                        let part = Arc::new(legible(pod, with_requests));
                        self.pods.apply(&part, &self.storage, &self.budgets, now).ok()
                    })
                };
                let outcome = if is_bound { read_in_part() } else { None };
                warn!(%error, takes_room = outcome.is_some(), "pod cannot be read until it is corrected");
                let outcome = outcome.unwrap_or_else(|| self.pods.remove(&Pods::key(pod)));
                self.pod_outcome(outcome);
            }
        }
    }

    pub(super) fn pod(&mut self, change: Streamed<core::Pod>, now: Timestamp) {
        match change {
            Streamed::Listing => self.listing = Some(FxHashSet::default()),
            Streamed::Applied(pod) => {
                let key = self.listing.is_some().then(|| Pods::key(&pod));
                self.take_pod(&pod, now);
                if let (Some(seen), Some(key)) = (&mut self.listing, key) {
                    seen.insert(self.pods.known(key));
                }
            }
            Streamed::Deleted(pod) => {
                self.drop_pod(&Pods::key(&pod), now);
            }
            Streamed::Listed => {
                let seen = self.listing.take().unwrap_or_default();
                let gone: Vec<PodKey> =
                    self.pods.records.keys().filter(|k| !seen.contains(*k)).cloned().collect();
                for key in gone {
                    self.drop_pod(&key, now);
                }
            }
        }
    }

    pub(super) fn node(&mut self, change: Change<core::Node>, now: Timestamp) {
        match change {
            Change::Applied(node) => {
                let before = self.nodes.claim_of_object(node.metadata.name.as_deref().unwrap_or_default());
                let name = self.nodes.set_object(node);
                self.node_changed(Some(&name), None, now);
                if before.is_some() && before != self.nodes.claim_of_object(&name) {
                    self.node_changed(None, before.as_deref(), now);
                }
            }
            Change::Deleted(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                let claim = self.nodes.claim_of_object(&name);
                self.nodes.drop_object(&name);
                self.node_changed(Some(&name), claim.as_deref(), now);
            }
            Change::Reset(all) => {
                let known: BTreeSet<String> = all.iter().filter_map(|n| n.metadata.name.clone()).collect();
                self.delta.rebuild = true;
                for name in self.nodes.object_names().into_iter().filter(|n| !known.contains(&**n)) {
                    let claim = self.nodes.claim_of_object(&name);
                    self.nodes.drop_object(&name);
                    self.node_changed(Some(&name), claim.as_deref(), now);
                }
                for node in all {
                    let name = self.nodes.set_object(node);
                    self.node_changed(Some(&name), None, now);
                }
            }
        }
    }

    pub(super) fn claim(&mut self, change: Change<NodeClaim>, now: Timestamp) {
        self.claims_version = self.claims_version.max(newest(&change));
        match change {
            Change::Applied(claim) => self.take_claim(claim, now),
            Change::Deleted(claim) => {
                let name: Arc<str> = Arc::from(claim.metadata.name.as_deref().unwrap_or_default());
                self.drop_claim(&name, now);
            }
            Change::Reset(all) => {
                let known: BTreeSet<String> = all.iter().filter_map(|c| c.metadata.name.clone()).collect();
                for name in self.nodes.claim_names() {
                    // A list may be older than what we made since.
                    if !known.contains(&*name) && !self.assumed.contains_key(&name) {
                        self.drop_claim(&name, now);
                    }
                }
                for claim in all {
                    self.take_claim(claim, now);
                }
            }
        }
    }

    fn take_claim(&mut self, claim: Arc<NodeClaim>, now: Timestamp) {
        if !claim.spec.node_class_ref.is_supported() {
            return;
        }
        let name: Arc<str> = Arc::from(claim.metadata.name.as_deref().unwrap_or_default());
        self.assumed.remove(&name);
        self.keep_claim(&name, claim, now);
    }

    pub(super) fn keep_claim(&mut self, name: &Arc<str>, claim: Arc<NodeClaim>, now: Timestamp) {
        let until = nominations::until(&claim, self.window);
        let object = self.nodes.object_of_claim(name);
        let touched = match until {
            Some(until) if until <= now => self.end_nomination(name, now),
            due => {
                if let Some(due) = due {
                    self.due.insert((due, Due::Nomination(Arc::clone(name))));
                    let settled = nominations::settled(&claim).unwrap_or(due);
                    self.due.insert((settled, Due::Settled(Arc::clone(name))));
                }
                self.nominations.set(name, &claim)
            }
        };
        self.follow_launch(name, &claim, now);
        self.nodes.set_claim(claim);
        self.node_changed(None, Some(name), now);
        if object.is_some() && object != self.nodes.object_of_claim(name) {
            self.node_changed(object.as_deref(), None, now);
        }
        self.free_pods(&touched, self.after_failure(name));
    }

    /// When pods of a NodeClaim that comes to nothing are decided about again.
    fn after_failure(&self, claim: &str) -> Retry {
        if self.launches.has_failed(claim) { Retry::AfterBackoff } else { Retry::AtOnce }
    }

    pub(super) fn drop_claim(&mut self, name: &Arc<str>, now: Timestamp) {
        self.assumed.remove(name);
        let object = self.nodes.object_of_claim(name);
        let touched = self.nominations.drop(name);
        if self.nodes.drop_claim(name).is_none() {
            self.launches.forget(name);
            return;
        }
        self.node_changed(object.as_deref(), Some(name), now);
        self.free_pods(&touched, self.after_failure(name));
        self.launches.forget(name);
    }

    /// Pods whose nomination changed are shown where they belong now; those without one are to be decided about.
    pub(super) fn free_pods(&mut self, pods: &[nominations::ShortUid], retry: Retry) {
        for uid in pods {
            let Some(key) = self.pods.by_short(*uid).cloned() else { continue };
            self.show(&key);
            if let Some(record) = self.pods.records.get(&key).filter(|r| r.shown == Shown::Pending) {
                match retry {
                    Retry::AtOnce => self.triggers.push((Arc::clone(&record.pod.uid), true)),
                    Retry::Soon => self.triggers.push((Arc::clone(&record.pod.uid), false)),
                    Retry::AfterBackoff => {}
                }
            }
        }
    }

    pub(super) fn nominate(&mut self, nodes: &[Arc<str>], until: Timestamp, now: Timestamp) {
        for name in nodes {
            let Some(entry) = self.nodes.entries.get(name) else { continue };
            let (object, claim) = (entry.object.clone(), entry.node.claim.clone());
            let Some(known_as) = claim.clone().or_else(|| object.clone()) else { continue };
            self.nodes.nominate(&known_as, until);
            self.node_changed(object.as_deref(), claim.as_deref(), now);
        }
    }

    pub(super) fn csi(&mut self, change: Change<CSINode>, now: Timestamp) {
        let name = |c: &CSINode| c.metadata.name.clone().unwrap_or_default();
        let touched: Vec<String> = match change {
            Change::Applied(csi) => {
                let name = name(&csi);
                self.nodes.set_csi(csi);
                vec![name]
            }
            Change::Deleted(csi) => {
                self.nodes.drop_csi(&name(&csi));
                vec![name(&csi)]
            }
            Change::Reset(all) => {
                let names = all.iter().map(|c| name(c)).collect();
                all.into_iter().for_each(|csi| self.nodes.set_csi(csi));
                names
            }
        };
        for name in touched {
            self.node_changed(Some(&name), None, now);
        }
    }

    pub(super) fn daemon_set(&mut self, change: Change<DaemonSet>) {
        let changed = match change {
            Change::Applied(set) => self.daemons.set(set),
            Change::Deleted(set) => self.daemons.remove(&key_of_set(&set)),
            Change::Reset(all) => {
                let known: BTreeSet<_> = all.iter().map(|s| key_of_set(s)).collect();
                let mut changed = false;
                for key in self.daemons.keys().iter().filter(|k| !known.contains(*k)) {
                    changed |= self.daemons.remove(key);
                }
                for set in all {
                    changed |= self.daemons.set(set);
                }
                changed
            }
        };
        self.delta.rebuild |= changed;
    }

    pub(super) fn pool(&mut self, change: Change<NodePool>, now: Timestamp) {
        let before = self.pools.clone();
        by_name(&mut self.pools, change);
        let matters = |p: &NodePool| (p.metadata.uid.clone(), p.metadata.generation, pools::is_ready(p));
        let same = before.len() == self.pools.len()
            && before.iter().zip(&self.pools).all(|((a, x), (b, y))| a == b && matters(x) == matters(y));
        if same {
            return;
        }
        let changed = |name: &&String| {
            before.get(*name).map(|p| matters(p)) != self.pools.get(*name).map(|p| matters(p))
        };
        for name in before.keys().chain(self.pools.keys()).filter(changed) {
            self.launches.forget_pool(name);
        }
        self.delta.rebuild = true;
        self.retry_waiting();
        let settling = pools::settling(&self.pools);
        if settling != self.settling {
            self.settling = settling;
            for claim in self.nodes.claim_names() {
                self.node_changed(None, Some(&claim), now);
            }
        }
    }

    pub(super) fn namespace(&mut self, change: Change<Namespace>) {
        let entry = |n: &Namespace| {
            (n.metadata.name.clone().unwrap_or_default(), n.metadata.labels.clone().unwrap_or_default())
        };
        match change {
            Change::Applied(one) => {
                let (name, labels) = entry(&one);
                self.delta.rebuild |= self.namespaces.insert(name, labels.clone()).as_ref() != Some(&labels);
            }
            Change::Deleted(one) => {
                self.delta.rebuild |= self.namespaces.remove(&entry(&one).0).is_some();
            }
            Change::Reset(all) => {
                self.namespaces = all.iter().map(|n| entry(n)).collect();
                self.delta.rebuild = true;
            }
        }
    }

    pub(super) fn budget(&mut self, change: Change<PodDisruptionBudget>, now: Timestamp) {
        let read = |object: &PodDisruptionBudget| {
            convert::budget(object)
                .inspect_err(|error| warn!(%error, "PodDisruptionBudget left out until it is corrected"))
                .ok()
        };
        let mut namespaces = BTreeSet::new();
        let mut put =
            |budgets: &mut BTreeMap<String, Vec<PodBudget>>, object: &PodDisruptionBudget, keep: bool| {
                let meta = &object.metadata;
                let namespace = meta.namespace.clone().unwrap_or_default();
                let of = budgets.entry(namespace.clone()).or_default();
                let name = meta.name.as_deref().unwrap_or_default();
                let old = of.iter().position(|b| &*b.name == name).map(|at| of.remove(at));
                let new = keep.then(|| read(object)).flatten();
                // Only these decide about moving; allowed disruptions change all the time.
                let rule = |b: &PodBudget| (b.selector.clone(), b.forbids_all, b.lets_unready_go);
                if old.as_ref().map(rule) != new.as_ref().map(rule) {
                    namespaces.insert(namespace);
                }
                of.extend(new);
            };
        match change {
            Change::Applied(one) => put(&mut self.budgets, &one, true),
            Change::Deleted(one) => put(&mut self.budgets, &one, false),
            Change::Reset(all) => {
                let before = std::mem::take(&mut self.budgets);
                all.iter().for_each(|one| put(&mut self.budgets, one, true));
                namespaces.extend(before.into_keys());
            }
        }
        for namespace in namespaces {
            let keys: Vec<PodKey> = self.pods.in_namespace(&namespace).map(|(key, _)| key.clone()).collect();
            keys.iter().for_each(|key| self.rejudge(key, now));
        }
    }

    pub(super) fn rejudge(&mut self, key: &PodKey, now: Timestamp) {
        if self.pods.rejudge(key, &self.budgets, now) {
            self.pod_outcome(Outcome::Changed(key.clone()));
        }
    }

    pub(super) fn offer_changed(&mut self, offer: Offer, now: Timestamp) {
        self.offer = offer;
        self.delta.rebuild = true;
        // What their types offer stands in for what their nodes will report.
        let starting: Vec<Arc<str>> = self
            .nodes
            .entries
            .values()
            .filter(|e| !e.launched || !e.node.initialized)
            .filter_map(|e| e.node.claim.clone())
            .collect();
        for claim in starting {
            self.node_changed(None, Some(&claim), now);
        }
        self.retry_waiting();
    }
}

impl Delta {
    pub(super) fn push(&mut self, change: solver::Change) {
        self.any = true;
        if !self.rebuild {
            self.changes.push(change);
        }
    }
}

/// The highest resourceVersion of a change; versions of one kind can be ordered.
fn newest(change: &Change<NodeClaim>) -> u64 {
    let objects = match change {
        Change::Applied(claim) | Change::Deleted(claim) => std::slice::from_ref(claim),
        Change::Reset(all) => all.as_slice(),
    };
    let versions =
        objects.iter().filter_map(|claim| claim.metadata.resource_version.as_deref()?.parse().ok());
    versions.max().unwrap_or(0)
}

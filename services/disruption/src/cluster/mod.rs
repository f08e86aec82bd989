//! What the service knows of the cluster: nodes, claims, pods, disruption budgets of both kinds, pools and classes, reduced
//! to what decisions need, with the indexes that their questions need. One owner, no I/O: watches and answered writes are
//! fed in, and every change says which claims it may concern.

mod claim;
mod node;
mod pod;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::{EC2NodeClass, NodeClaim, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use policy::candidate::{Pdbs, Resident};
use policy::drain::pdb::Pdb;
use runtime::watch::{Change, Streamed, Versioned as _};

pub(crate) use claim::{CONSOLIDATABLE, Claim, DISRUPTION_REASON, DRIFTED};
pub(crate) use node::{NodeState, is_disrupted};

pub(crate) use pod::PodState;

use crate::drift::{ClassFacts, PoolFacts};

/// A change of one kind, from a watch or from the answer to a write.
#[derive(Debug)]
pub(crate) enum Fact {
    Node(Change<Node>),
    Claim(Change<NodeClaim>),
    Pod(Streamed<Pod>),
    Pdb(Change<PodDisruptionBudget>),
    Pool(Change<NodePool>),
    Class(Change<EC2NodeClass>),
}

runtime::changes_as!(Fact: Node(Node), Claim(NodeClaim), Pdb(PodDisruptionBudget), Pool(NodePool), Class(EC2NodeClass));

impl From<Streamed<Pod>> for Fact {
    fn from(change: Streamed<Pod>) -> Self {
        Self::Pod(change)
    }
}

/// The answer to a write, as the watch would tell it.
pub(crate) fn applied<K>(object: K) -> Fact
where
    Fact: From<Change<K>>,
{
    Change::Applied(Arc::new(object)).into()
}

impl Fact {
    /// The kind, and whether this is all of it.
    pub(crate) fn kind(&self) -> (&'static str, bool) {
        match self {
            Self::Node(change) => ("Node", change.is_whole()),
            Self::Claim(change) => ("NodeClaim", change.is_whole()),
            Self::Pod(change) => ("Pod", matches!(change, Streamed::Listed)),
            Self::Pdb(change) => ("PodDisruptionBudget", change.is_whole()),
            Self::Pool(change) => ("NodePool", change.is_whole()),
            Self::Class(change) => ("EC2NodeClass", change.is_whole()),
        }
    }
}

/// What changes touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Claims whose conditions must be looked at again.
    pub(crate) claims: BTreeSet<Arc<str>>,
    /// Whether anything changed that a decision could turn on.
    pub(crate) decisions: bool,
}

#[derive(Default)]
pub(crate) struct ClusterState {
    nodes: HashMap<Arc<str>, Arc<NodeState>>,
    claims: HashMap<Arc<str>, Arc<Claim>>,
    nodes_by_provider: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    claims_by_provider: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Claims that were made for a command, and claims that a command removes.
    claims_by_command: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Claims that were made for a command, by pool and in the order of their creation.
    replacements_by_pool: HashMap<Arc<str>, BTreeSet<(Timestamp, Arc<str>)>>,
    /// By uid, with the node it is on.
    pods: HashMap<Arc<str>, (Arc<str>, Arc<PodState>)>,
    pods_by_node: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<PodState>>>,
    /// While a full list comes in: what was not in it so far, and is gone if it never comes.
    unlisted: HashSet<Arc<str>>,
    /// When a pod that counts last came, went or ended on a node, as far as pods that are gone can tell.
    departures: HashMap<Arc<str>, Timestamp>,
    /// Namespace to name to budget.
    pdbs: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<Pdb>>>,
    pools: BTreeMap<Arc<str>, Arc<NodePool>>,
    pool_facts: HashMap<Arc<str>, PoolFacts>,
    class_facts: HashMap<Arc<str>, ClassFacts>,
    labels: residents::Labels,
    freed: u64,
}

impl ClusterState {
    pub(crate) fn apply(&mut self, fact: Fact, touched: &mut Touched) {
        match fact {
            Fact::Node(change) => self.node_change(change, touched),
            Fact::Claim(change) => self.claim_change(change, touched),
            Fact::Pod(change) => self.pod_change(change, touched),
            Fact::Pdb(change) => self.pdb_change(change, touched),
            Fact::Pool(change) => self.pool_change(change, touched),
            Fact::Class(change) => self.class_change(change, touched),
        }
    }

    /// Moves whenever room came free, or may be used that could not: only then can a what-if that failed succeed.
    pub(crate) fn freed(&self) -> u64 {
        self.freed
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

    /// Of the newest NodeClaim, also where only the answer to a write of ours tells of it.
    pub(crate) fn claims_version(&self) -> u64 {
        self.claims.values().filter_map(|claim| claim.resource_version.parse().ok()).max().unwrap_or(0)
    }

    pub(crate) fn pool(&self, name: &str) -> Option<&Arc<NodePool>> {
        self.pools.get(name)
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<NodePool>)> {
        self.pools.iter()
    }

    pub(crate) fn pool_facts(&self, name: &str) -> Option<&PoolFacts> {
        self.pool_facts.get(name)
    }

    pub(crate) fn class_facts(&self, name: &str) -> Option<&ClassFacts> {
        self.class_facts.get(name)
    }

    fn one<'a, T>(
        by: &HashMap<Arc<str>, BTreeSet<Arc<str>>>,
        all: &'a HashMap<Arc<str>, Arc<T>>,
        provider_id: Option<&str>,
    ) -> Option<&'a Arc<T>> {
        let names = by.get(provider_id?)?;
        (names.len() == 1).then(|| names.first().and_then(|name| all.get(name))).flatten()
    }

    /// The one claim of a node; several are as good as none.
    pub(crate) fn claim_of(&self, node: &NodeState) -> Option<&Arc<Claim>> {
        Self::one(&self.claims_by_provider, &self.claims, node.provider_id.as_deref())
    }

    /// The one node of a claim.
    pub(crate) fn node_of(&self, claim: &Claim) -> Option<&Arc<NodeState>> {
        Self::one(&self.nodes_by_provider, &self.nodes, claim.provider_id.as_deref())
    }

    /// All claims that say that this is their instance, where there is more than one.
    pub(crate) fn conflicting_claims(&self, node: &NodeState) -> Vec<Arc<str>> {
        let claims = node.provider_id.as_ref().and_then(|id| self.claims_by_provider.get(id));
        claims.filter(|claims| claims.len() > 1).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<PodState>> {
        self.pods_by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// All PodDisruptionBudgets, as candidates are judged by them.
    pub(crate) fn pdbs(&self) -> Pdbs {
        self.pdbs.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// When a pod that counts last came to a node, went or ended.
    pub(crate) fn last_pod_event(&self, node: &str) -> Option<Timestamp> {
        let there = self.pods_on(node).filter_map(|pod| pod.touched).max();
        there.max(self.departures.get(node).copied())
    }

    /// The pod as read from the API just now.
    pub(crate) fn read_pod(&mut self, pod: &Pod) -> Option<Arc<Resident>> {
        PodState::of(pod, &mut self.labels).map(|(_, state)| state.resident)
    }

    fn touch_provider(&self, provider_id: Option<&str>, touched: &mut Touched) {
        let Some(id) = provider_id else { return };
        touched.claims.extend(self.claims_by_provider.get(id).into_iter().flatten().cloned());
    }

    fn touch_node(&self, name: &str, touched: &mut Touched) {
        if let Some(node) = self.nodes.get(name) {
            self.touch_provider(node.provider_id.as_deref(), touched);
        }
    }

    fn node_change(&mut self, change: Change<Node>, touched: &mut Touched) {
        match change {
            Change::Applied(node) => {
                if let Some(state) = NodeState::of(&node) {
                    self.put_node(state, touched);
                }
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

    fn put_node(&mut self, state: NodeState, touched: &mut Touched) {
        let old = self.nodes.get(&state.name);
        if old.is_some_and(|old| old.is_newer_than(&state)) {
            return;
        }
        // Heartbeats change nothing but the version.
        let same = old.is_some_and(|old| {
            **old == NodeState { resource_version: old.resource_version.clone(), ..state.clone() }
        });
        let old_provider = old.and_then(|old| old.provider_id.clone());
        if old_provider != state.provider_id {
            remove_from(&mut self.nodes_by_provider, old_provider.as_ref(), &state.name);
            if let Some(id) = &state.provider_id {
                self.nodes_by_provider.entry(id.clone()).or_default().insert(state.name.clone());
            }
        }
        if !same {
            self.freed += 1;
            touched.decisions = true;
            self.touch_provider(state.provider_id.as_deref(), touched);
        }
        self.nodes.insert(state.name.clone(), Arc::new(state));
    }

    /// `uid`: only this one, not a namesake that came meanwhile.
    fn drop_node(&mut self, name: &str, uid: Option<&str>, touched: &mut Touched) {
        let other = |node: &Arc<NodeState>| uid.is_some_and(|uid| *node.uid != *uid);
        if self.nodes.get(name).is_none_or(other) {
            return;
        }
        let Some(node) = self.nodes.remove(name) else { return };
        touched.decisions = true;
        self.touch_provider(node.provider_id.as_deref(), touched);
        remove_from(&mut self.nodes_by_provider, node.provider_id.as_ref(), &node.name);
        self.departures.remove(name);
    }

    fn claim_change(&mut self, change: Change<NodeClaim>, touched: &mut Touched) {
        match change {
            Change::Applied(claim) => {
                if let Some(state) = Claim::of(&claim) {
                    self.put_claim(state, touched);
                }
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

    fn put_claim(&mut self, state: Claim, touched: &mut Touched) {
        let old = self.claims.get(&state.name);
        if old.is_some_and(|old| old.is_newer_than(&state)) {
            return;
        }
        let old = old.and_then(|old| old.provider_id.clone());
        if old != state.provider_id {
            remove_from(&mut self.claims_by_provider, old.as_ref(), &state.name);
            if let Some(id) = &state.provider_id {
                self.claims_by_provider.entry(id.clone()).or_default().insert(state.name.clone());
            }
        }
        let old = self.claims.get(&state.name).and_then(|old| old.command());
        if old != state.command() {
            remove_from(&mut self.claims_by_command, old.as_ref(), &state.name);
            if let Some(id) = state.command() {
                self.claims_by_command.entry(id).or_default().insert(state.name.clone());
            }
        }
        if let Some(old) = self.claims.get(&state.name) {
            remove_from(&mut self.replacements_by_pool, Some(&old.pool), &(old.created, old.name.clone()));
        }
        if state.made_for.is_some() {
            let of_pool = self.replacements_by_pool.entry(state.pool.clone()).or_default();
            of_pool.insert((state.created, state.name.clone()));
        }
        let open = |claim: &Claim| (claim.is_consolidatable(), claim.is_initialized(), claim.deleting);
        if self.claims.get(&state.name).is_none_or(|old| open(old) != open(&state)) {
            self.freed += 1;
        }
        touched.decisions = true;
        touched.claims.insert(state.name.clone());
        self.claims.insert(state.name.clone(), Arc::new(state));
    }

    fn drop_claim(&mut self, name: &str, uid: Option<&str>, touched: &mut Touched) {
        let other = |claim: &Arc<Claim>| uid.is_some_and(|uid| *claim.uid != *uid);
        if self.claims.get(name).is_none_or(other) {
            return;
        }
        let Some(claim) = self.claims.remove(name) else { return };
        touched.decisions = true;
        touched.claims.insert(claim.name.clone());
        remove_from(&mut self.claims_by_provider, claim.provider_id.as_ref(), &claim.name);
        remove_from(&mut self.claims_by_command, claim.command().as_ref(), &claim.name);
        remove_from(&mut self.replacements_by_pool, Some(&claim.pool), &(claim.created, claim.name.clone()));
    }

    /// When the youngest claim of a pool was made that was made for a command.
    pub(crate) fn last_replacement(&self, pool: &str) -> Option<Timestamp> {
        self.replacements_by_pool.get(pool)?.last().map(|(created, _)| *created)
    }

    /// Claims that a command removes or that were made for it.
    pub(crate) fn claims_of(&self, command: &str) -> impl Iterator<Item = &Arc<Claim>> {
        let names = self.claims_by_command.get(command).into_iter().flatten();
        names.filter_map(|name| self.claims.get(name))
    }

    /// Ids of all commands that any claim tells of.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Arc<str>> {
        self.claims_by_command.keys()
    }

    fn pod_change(&mut self, change: Streamed<Pod>, touched: &mut Touched) {
        match change {
            Streamed::Listing => self.unlisted = self.pods.keys().cloned().collect(),
            Streamed::Applied(pod) => {
                if let Some(uid) = pod.metadata.uid.as_deref() {
                    self.unlisted.remove(uid);
                }
                self.put_pod(&pod, touched);
            }
            Streamed::Deleted(pod) => {
                if let Some(uid) = pod.metadata.uid.as_deref() {
                    self.drop_pod(uid, touched);
                }
            }
            Streamed::Listed => {
                for uid in std::mem::take(&mut self.unlisted) {
                    self.drop_pod(&uid, touched);
                }
                self.labels.forget_unused();
            }
        }
    }

    fn put_pod(&mut self, pod: &Pod, touched: &mut Touched) {
        let Some((node, state)) = PodState::of(pod, &mut self.labels) else { return };
        let uid = state.resident.pod.uid.clone();
        if self.pods.get(&uid).is_some_and(|(at, old)| *at == node && **old == state) {
            return;
        }
        let ends = |pod: &PodState| !pod.resident.pod.is_active();
        if ends(&state) && self.pods.get(&uid).is_some_and(|(_, old)| !ends(old)) {
            self.freed += 1;
        }
        let state = Arc::new(state);
        self.pods.insert(uid.clone(), (node.clone(), Arc::clone(&state)));
        self.touch_node(&node, touched);
        touched.decisions = true;
        self.pods_by_node.entry(node).or_default().insert(uid, state);
    }

    fn drop_pod(&mut self, uid: &str, touched: &mut Touched) {
        let Some((node, state)) = self.pods.remove(uid) else { return };
        self.freed += 1;
        if let Some(there) = self.pods_by_node.get_mut(&node) {
            there.remove(uid);
            if there.is_empty() {
                self.pods_by_node.remove(&node);
            }
        }
        // The time of its last event stays with the node, for as long as there is one.
        if let Some(at) = state.touched.filter(|_| self.nodes.contains_key(&node)) {
            let last = self.departures.entry(node.clone()).or_insert(at);
            *last = (*last).max(at);
        }
        touched.decisions = true;
        self.touch_node(&node, touched);
    }

    fn pdb_change(&mut self, change: Change<PodDisruptionBudget>, touched: &mut Touched) {
        touched.decisions = true;
        match change {
            Change::Applied(pdb) => {
                if let Some(pdb) = residents::pdb(&pdb) {
                    self.put_pdb(pdb);
                }
            }
            Change::Deleted(pdb) => {
                let (namespace, name) = (pdb.metadata.namespace.as_deref(), pdb.metadata.name.as_deref());
                if let Some((namespace, name)) = namespace.zip(name)
                    && let Some(there) = self.pdbs.get_mut(namespace)
                {
                    there.remove(name);
                }
            }
            Change::Reset(all) => {
                self.pdbs.clear();
                all.iter().filter_map(|pdb| residents::pdb(pdb)).for_each(|pdb| self.put_pdb(pdb));
            }
        }
    }

    fn put_pdb(&mut self, pdb: Pdb) {
        self.pdbs.entry(pdb.namespace.clone()).or_default().insert(pdb.name.clone(), Arc::new(pdb));
    }

    fn pool_change(&mut self, change: Change<NodePool>, touched: &mut Touched) {
        let name = |pool: &NodePool| -> Arc<str> { pool.metadata.name.as_deref().unwrap_or_default().into() };
        match change {
            Change::Applied(pool) => {
                let name = name(&pool);
                let old = self.pools.get(&name);
                if old.is_some_and(|old| old.is_newer_than(&pool)) {
                    return;
                }
                // Its status is counted anew every few seconds.
                let same = old.is_some_and(|old| {
                    old.metadata.generation == pool.metadata.generation
                        && old.metadata.annotations == pool.metadata.annotations
                        && old.metadata.deletion_timestamp == pool.metadata.deletion_timestamp
                });
                if !same {
                    self.pool_facts.insert(Arc::clone(&name), PoolFacts::of(&pool));
                    self.touch_claims(touched, |claim| claim.pool == name);
                }
                self.pools.insert(name, pool);
            }
            Change::Deleted(pool) => {
                let name = name(&pool);
                self.pools.remove(&name);
                self.pool_facts.remove(&name);
                self.touch_claims(touched, |claim| claim.pool == name);
            }
            Change::Reset(all) => {
                let newest = |listed: Arc<NodePool>| {
                    let known = self.pools.get(&name(&listed)).filter(|known| known.is_newer_than(&listed));
                    known.map_or(listed, Arc::clone)
                };
                let all: Vec<Arc<NodePool>> = all.into_iter().map(newest).collect();
                self.pool_facts = all.iter().map(|pool| (name(pool), PoolFacts::of(pool))).collect();
                self.pools = all.into_iter().map(|pool| (name(&pool), pool)).collect();
                self.touch_claims(touched, |_| true);
            }
        }
    }

    fn class_change(&mut self, change: Change<EC2NodeClass>, touched: &mut Touched) {
        let name =
            |class: &EC2NodeClass| -> Arc<str> { class.metadata.name.as_deref().unwrap_or_default().into() };
        match change {
            Change::Applied(class) => {
                let name = name(&class);
                self.touch_claims(touched, |claim| claim.class == name);
                self.class_facts.insert(name, ClassFacts::of(&class));
            }
            Change::Deleted(class) => {
                let name = name(&class);
                self.class_facts.remove(&name);
                self.touch_claims(touched, |claim| claim.class == name);
            }
            Change::Reset(all) => {
                self.class_facts = all.iter().map(|class| (name(class), ClassFacts::of(class))).collect();
                self.touch_claims(touched, |_| true);
            }
        }
    }

    fn touch_claims(&mut self, touched: &mut Touched, which: impl Fn(&Claim) -> bool) {
        self.freed += 1;
        touched.decisions = true;
        touched
            .claims
            .extend(self.claims.values().filter(|claim| which(claim)).map(|claim| claim.name.clone()));
    }
}

fn remove_from<T: Ord>(index: &mut HashMap<Arc<str>, BTreeSet<T>>, key: Option<&Arc<str>>, value: &T) {
    let Some(key) = key else { return };
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

//! Which pods wait to be evicted, when each may be asked for again, and how many are asked for at once. The rules are
//! `policy::drain::pace`; this keeps their memory, in queues, so that a round costs what it admits and not what waits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use policy::drain::Pod;
use policy::drain::pace::{self, Candidate, Gate};
use policy::drain::pdb::Pdb;
use policy::drain::pod::{Phase, Rank};
use policy::drain::time::plus;

use crate::cluster::ClusterState;
use crate::writes::Evicted;

/// After a yes: if the pod is still there unharmed by then, the yes was lost somewhere.
const AFTER_SUCCESS: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

/// Namespace and name.
type BudgetName = (Arc<str>, Arc<str>);
/// Pods that are not on their way, by the time from which each may be asked for, their rank and uid.
type Turn = (Timestamp, Rank, Arc<str>);
type Queue = BTreeSet<Turn>;

#[derive(Default)]
pub(crate) struct Evictions {
    waiting: HashMap<Arc<str>, Entry>,
    by_node: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Of no budget, or of several.
    free: Queue,
    budgets: BTreeMap<BudgetName, Budget>,
    /// The state of the cluster state's budgets that the queues were made for.
    coverage: u64,
    in_flight: usize,
}

struct Entry {
    pod: Arc<Pod>,
    node: Arc<str>,
    budget: Option<BudgetName>,
    failures: u32,
    not_before: Timestamp,
    in_flight: bool,
    /// It was asked for as one that its budget counts.
    counted: bool,
    /// The budget as it was when it refused this pod.
    refused_by: Option<Arc<Pdb>>,
    last_words: Option<String>,
}

#[derive(Default)]
struct Budget {
    queue: Queue,
    /// Unready or not started: the budget may ignore them, so they never queue behind pods that it refuses.
    unready: Queue,
    in_flight: u32,
    probe_at: Option<Timestamp>,
    failures: u32,
}

impl Evictions {
    /// The pods of a node that are to leave now, in place of those said before.
    pub(crate) fn want(
        &mut self,
        cluster: &ClusterState,
        node: &Arc<str>,
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) {
        let wanted: BTreeSet<Arc<str>> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let before = self.by_node.remove(node).unwrap_or_default();
        for uid in before.difference(&wanted) {
            // One on its way is accounted for when its answer comes.
            if self.waiting.get(uid).is_some_and(|entry| !entry.in_flight) {
                self.dequeue(uid);
                self.waiting.remove(uid);
            }
        }
        for pod in pods {
            if self.waiting.contains_key(&pod.uid) {
                self.replace(pod);
                continue;
            }
            let entry = Entry {
                budget: budget_of(cluster, pod),
                pod: Arc::clone(pod),
                node: node.clone(),
                failures: 0,
                not_before: now,
                in_flight: false,
                counted: false,
                refused_by: None,
                last_words: None,
            };
            self.waiting.insert(pod.uid.clone(), entry);
            self.enqueue(&pod.uid);
        }
        if !wanted.is_empty() {
            self.by_node.insert(node.clone(), wanted);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The pod as it is now; what changed may put it into another queue.
    fn replace(&mut self, pod: &Arc<Pod>) {
        let is_queued = self.waiting.get(&pod.uid).is_some_and(|entry| !entry.in_flight);
        if is_queued {
            self.dequeue(&pod.uid);
        }
        if let Some(entry) = self.waiting.get_mut(&pod.uid) {
            entry.pod = Arc::clone(pod);
        }
        if is_queued {
            self.enqueue(&pod.uid);
        }
    }

    fn queue_of(&mut self, uid: &Arc<str>) -> Option<(&mut Queue, Turn)> {
        let entry = self.waiting.get(uid)?;
        let queue = match &entry.budget {
            None => &mut self.free,
            Some(name) => {
                let budget = self.budgets.entry(name.clone()).or_default();
                if is_unready(&entry.pod) { &mut budget.unready } else { &mut budget.queue }
            }
        };
        Some((queue, (entry.not_before, entry.pod.rank(), uid.clone())))
    }

    fn enqueue(&mut self, uid: &Arc<str>) {
        if let Some((queue, turn)) = self.queue_of(uid) {
            queue.insert(turn);
        }
    }

    fn dequeue(&mut self, uid: &Arc<str>) {
        if let Some((queue, turn)) = self.queue_of(uid) {
            queue.remove(&turn);
        }
    }

    /// A budget came, went or changed what it covers: everybody is queued anew.
    fn follow_coverage(&mut self, cluster: &ClusterState) {
        if self.coverage == cluster.pdb_coverage() {
            return;
        }
        self.coverage = cluster.pdb_coverage();
        self.free.clear();
        for budget in self.budgets.values_mut() {
            budget.queue.clear();
            budget.unready.clear();
        }
        let idle: Vec<Arc<str>> = self
            .waiting
            .iter_mut()
            .filter(|(_, entry)| !entry.in_flight)
            .map(|(uid, entry)| {
                entry.budget = budget_of(cluster, &entry.pod);
                uid.clone()
            })
            .collect();
        idle.iter().for_each(|uid| self.enqueue(uid));
    }

    /// Takes up to `most` pods (those on their way included) to be asked for now.
    pub(crate) fn admit(&mut self, cluster: &ClusterState, now: Timestamp, most: usize) -> Vec<Arc<Pod>> {
        self.follow_coverage(cluster);
        self.budgets.retain(|_, budget| budget.is_of_use(now));
        let slots = most.saturating_sub(self.in_flight);
        if slots == 0 || self.waiting.is_empty() {
            return Vec::new();
        }
        let round = self.round(cluster, now, slots);
        let mut pods = Vec::with_capacity(slots);
        for index in pace::admit(&round.candidates, &round.gates, now, slots) {
            let uid = &round.uids[index];
            self.dequeue(uid);
            let Some(entry) = self.waiting.get_mut(uid) else { continue };
            entry.in_flight = true;
            entry.counted = round.candidates[index].gate.is_some();
            self.in_flight += 1;
            pods.push(Arc::clone(&entry.pod));
            let counted = entry.budget.as_ref().filter(|_| entry.counted);
            if let Some(budget) = counted.and_then(|name| self.budgets.get_mut(name)) {
                budget.in_flight += 1;
            }
        }
        pods
    }

    pub(crate) fn next_turn(&self, cluster: &ClusterState, now: Timestamp, most: usize) -> Option<Timestamp> {
        if self.waiting.is_empty() || self.in_flight >= most {
            return None;
        }
        let round = self.round(cluster, now, 1);
        pace::next_turn(&round.candidates, &round.gates, now)
    }

    /// Those who could be asked for: as many of each queue as it could let go, its first ones.
    fn round(&self, cluster: &ClusterState, now: Timestamp, slots: usize) -> Round {
        let mut round = Round::default();
        for (not_before, rank, uid) in self.free.iter().take(slots) {
            round.push(uid, Candidate { not_before: *not_before, rank: *rank, gate: None });
        }
        for ((namespace, name), budget) in &self.budgets {
            let Some(pdb) = cluster.pdb(namespace, name) else { continue };
            let gate = Gate {
                allowed: u32::try_from(pdb.allowed).unwrap_or(0),
                in_flight: budget.in_flight,
                probe_at: budget.probe_at.unwrap_or(now),
            };
            let room = usize::try_from(gate.allowed.saturating_sub(gate.in_flight)).unwrap_or(slots);
            let unready = budget.unready.iter().take(slots);
            for (not_before, rank, uid) in unready.chain(budget.queue.iter().take(room.clamp(1, slots))) {
                let Some(entry) = self.waiting.get(uid) else { continue };
                let ignored = pdb.ignores(&entry.pod);
                // A budget that changed since it refused is worth asking at once.
                let changed = entry.refused_by.as_ref().is_some_and(|refused| !Arc::ptr_eq(pdb, refused));
                let not_before = if changed && (ignored || pdb.allowed > 0) { now } else { *not_before };
                let gate = (!ignored).then_some(round.gates.len());
                round.push(uid, Candidate { not_before, rank: *rank, gate });
            }
            round.gates.push(gate);
        }
        round
    }

    /// `jitter`: any number.
    pub(crate) fn answered(
        &mut self,
        pod: &Pod,
        answer: &Evicted,
        cluster: &ClusterState,
        now: Timestamp,
        jitter: u32,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(entry) = self.waiting.get_mut(&pod.uid) else { return };
        entry.in_flight = false;
        let name = entry.budget.clone().filter(|_| entry.counted);
        let mut budget = name.as_ref().and_then(|name| self.budgets.get_mut(name));
        if let Some(budget) = &mut budget {
            budget.in_flight = budget.in_flight.saturating_sub(1);
        }
        match answer {
            Evicted::Yes => {
                (entry.failures, entry.last_words) = (0, None);
                entry.not_before = plus(now, AFTER_SUCCESS);
                if let Some(budget) = budget {
                    (budget.failures, budget.probe_at) = (0, None);
                }
            }
            Evicted::NotThere { .. } => entry.not_before = plus(now, AFTER_SUCCESS),
            Evicted::Refused { words, .. } => {
                entry.failures += 1;
                entry.not_before = plus(now, pace::backoff(entry.failures, jitter));
                entry.last_words = Some(words.clone());
                entry.refused_by =
                    entry.budget.as_ref().and_then(|(namespace, name)| cluster.pdb(namespace, name).cloned());
                if let Some(budget) = budget {
                    budget.failures += 1;
                    budget.probe_at = Some(plus(now, pace::backoff(budget.failures, jitter)));
                }
            }
            Evicted::Failed { error, .. } => {
                entry.failures += 1;
                entry.not_before = plus(now, pace::backoff(entry.failures, jitter));
                entry.last_words = Some(format!("eviction failed: {error}"));
            }
        }
        let wanted = self.by_node.get(&entry.node).is_some_and(|wanted| wanted.contains(&pod.uid));
        if wanted {
            // Its budget may be another one by now.
            entry.budget = budget_of(cluster, &entry.pod);
            self.enqueue(&pod.uid.clone());
        } else {
            self.waiting.remove(&pod.uid);
        }
    }

    /// What the eviction API said last about a pod.
    pub(crate) fn last_words(&self, uid: &str) -> Option<&str> {
        self.waiting.get(uid)?.last_words.as_deref()
    }

    pub(crate) fn node_of(&self, uid: &str) -> Option<Arc<str>> {
        self.waiting.get(uid).map(|entry| entry.node.clone())
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Three columns of one table: `uids` belong to `candidates`, these refer to `gates`.
#[derive(Default)]
struct Round {
    candidates: Vec<Candidate>,
    uids: Vec<Arc<str>>,
    gates: Vec<Gate>,
}

impl Round {
    fn push(&mut self, uid: &Arc<str>, candidate: Candidate) {
        self.uids.push(uid.clone());
        self.candidates.push(candidate);
    }
}

/// A budget may ignore it.
fn is_unready(pod: &Pod) -> bool {
    pod.unhealthy || pod.phase != Phase::Running
}

impl Budget {
    fn is_of_use(&self, now: Timestamp) -> bool {
        !self.queue.is_empty()
            || !self.unready.is_empty()
            || self.in_flight > 0
            || self.probe_at.is_some_and(|at| at > now)
    }
}

fn budget_of(cluster: &ClusterState, pod: &Pod) -> Option<BudgetName> {
    cluster.budget_of(pod).map(|pdb| (pdb.namespace.clone(), pdb.name.clone()))
}

#[cfg(test)]
#[path = "evictions_tests.rs"]
mod tests;

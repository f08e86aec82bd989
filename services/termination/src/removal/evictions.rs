//! Which pods wait to be evicted, when each may be asked for again, and how many are asked for at once. The rules are
//! `policy::drain::pace`; this keeps their memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use policy::drain::Pod;
use policy::drain::pace::{self, Candidate, Gate};
use policy::drain::pdb::Pdb;
use policy::drain::time::plus;

use crate::world::World;
use crate::writes::Evicted;

/// After a yes: if the pod is still there unharmed by then, the yes was lost somewhere.
const AFTER_SUCCESS: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);

type BudgetName = (Arc<str>, Arc<str>);

#[derive(Default)]
pub(crate) struct Evictions {
    waiting: HashMap<Arc<str>, Entry>,
    by_node: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    budgets: HashMap<BudgetName, Budget>,
    in_flight: usize,
}

struct Entry {
    pod: Arc<Pod>,
    node: Arc<str>,
    budget: Option<BudgetName>,
    /// The state of the world's budgets that `budget` was found in.
    coverage: u64,
    failures: u32,
    not_before: Timestamp,
    in_flight: bool,
    /// The budget as it was when it refused this pod.
    refused_by: Option<Arc<Pdb>>,
    last_words: Option<String>,
}

#[derive(Default)]
struct Budget {
    in_flight: u32,
    probe_at: Option<Timestamp>,
    failures: u32,
}

impl Evictions {
    /// The pods of a node that are to leave now, in place of those said before.
    pub(crate) fn want(&mut self, node: &Arc<str>, pods: &[Arc<Pod>], now: Timestamp) {
        let wanted: BTreeSet<Arc<str>> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let before = self.by_node.insert(node.clone(), wanted.clone()).unwrap_or_default();
        for uid in before.difference(&wanted) {
            self.remove(uid);
        }
        for pod in pods {
            let entry = self.waiting.entry(pod.uid.clone()).or_insert_with(|| Entry {
                pod: Arc::clone(pod),
                node: node.clone(),
                budget: None,
                coverage: u64::MAX,
                failures: 0,
                not_before: now,
                in_flight: false,
                refused_by: None,
                last_words: None,
            });
            entry.pod = Arc::clone(pod);
        }
        if wanted.is_empty() {
            self.by_node.remove(node);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn remove(&mut self, uid: &str) {
        // One on its way is accounted for when its answer comes.
        if self.waiting.get(uid).is_some_and(|entry| !entry.in_flight) {
            self.waiting.remove(uid);
        }
    }

    /// Takes up to `most` pods (those on their way included) to be asked for now.
    pub(crate) fn admit(&mut self, world: &World, now: Timestamp, most: usize) -> Vec<Arc<Pod>> {
        let slots = most.saturating_sub(self.in_flight);
        if slots == 0 || self.waiting.is_empty() {
            return Vec::new();
        }
        let (candidates, gates, uids, names) = self.candidates(world, now);
        let admitted = pace::admit(&candidates, &gates, now, slots);
        let mut pods = Vec::with_capacity(admitted.len());
        for index in admitted {
            if let Some(budget) = candidates[index].gate.and_then(|gate| self.budgets.get_mut(&names[gate])) {
                budget.in_flight += 1;
            }
            if let Some(entry) = self.waiting.get_mut(&uids[index]) {
                entry.in_flight = true;
                self.in_flight += 1;
                pods.push(Arc::clone(&entry.pod));
            }
        }
        pods
    }

    pub(crate) fn next_turn(&mut self, world: &World, now: Timestamp, most: usize) -> Option<Timestamp> {
        if self.waiting.is_empty() || self.in_flight >= most {
            return None;
        }
        let (candidates, gates, ..) = self.candidates(world, now);
        pace::next_turn(&candidates, &gates, now)
    }

    #[allow(clippy::type_complexity, reason = "four columns of one table, used in two places below")]
    fn candidates(
        &mut self,
        world: &World,
        now: Timestamp,
    ) -> (Vec<Candidate>, Vec<Gate>, Vec<Arc<str>>, Vec<BudgetName>) {
        let (mut candidates, mut uids) = (Vec::new(), Vec::new());
        let (mut gates, mut names, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        let coverage = world.pdb_coverage();
        for (uid, entry) in self.waiting.iter_mut().filter(|(_, entry)| !entry.in_flight) {
            if entry.coverage != coverage {
                let found = world.budget_of(&entry.pod);
                entry.budget = found.map(|pdb| (pdb.namespace.clone(), pdb.name.clone()));
                entry.coverage = coverage;
            }
            let pdb = entry.budget.as_ref().and_then(|(namespace, name)| world.pdb(namespace, name));
            let mut not_before = entry.not_before;
            // A budget that changed since it refused is worth asking at once.
            if let (Some(pdb), Some(refused)) = (pdb, &entry.refused_by)
                && pdb.allowed > 0
                && !Arc::ptr_eq(pdb, refused)
            {
                not_before = now;
            }
            let gate = entry.budget.as_ref().zip(pdb).map(|(name, pdb)| {
                *numbers.entry(name.clone()).or_insert_with(|| {
                    let budget = self.budgets.entry(name.clone()).or_default();
                    gates.push(Gate {
                        allowed: u32::try_from(pdb.allowed).unwrap_or(0),
                        in_flight: budget.in_flight,
                        probe_at: budget.probe_at.unwrap_or(now),
                    });
                    names.push(name.clone());
                    gates.len() - 1
                })
            });
            candidates.push(Candidate { not_before, gate });
            uids.push(uid.clone());
        }
        (candidates, gates, uids, names)
    }

    /// `jitter`: any number.
    pub(crate) fn answered(
        &mut self,
        pod: &Pod,
        answer: &Evicted,
        world: &World,
        now: Timestamp,
        jitter: u32,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let Some(entry) = self.waiting.get_mut(&pod.uid) else { return };
        entry.in_flight = false;
        let budget = entry.budget.clone();
        if let Some(budget) = budget.as_ref().and_then(|name| self.budgets.get_mut(name)) {
            budget.in_flight = budget.in_flight.saturating_sub(1);
        }
        match answer {
            Evicted::Yes => {
                (entry.failures, entry.last_words) = (0, None);
                entry.not_before = plus(now, AFTER_SUCCESS);
                if let Some(budget) = budget.as_ref().and_then(|name| self.budgets.get_mut(name)) {
                    (budget.failures, budget.probe_at) = (0, None);
                }
            }
            Evicted::NotThere { .. } => entry.not_before = plus(now, AFTER_SUCCESS),
            Evicted::Refused { words, .. } => {
                entry.failures += 1;
                entry.not_before = plus(now, pace::backoff(entry.failures, jitter));
                entry.last_words = Some(words.clone());
                if let Some(name) = &budget {
                    entry.refused_by = world.pdb(&name.0, &name.1).cloned();
                    let budget = self.budgets.entry(name.clone()).or_default();
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
        // Nobody wants it any more.
        if !self.by_node.get(&entry.node).is_some_and(|wanted| wanted.contains(&pod.uid)) {
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

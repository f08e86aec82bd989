//! The merged picture of all services' streams, and what each event changes in it. Pure: time comes with the event.
//!
//! A change is a patch of the same shape: what a map names is new, and what it maps to nothing is gone. A stream that begins
//! anew (another replica) replaces its part, and only the differences are passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::shown::{
    Bound, Budget, Candidate, Decision, Drain, Node, Pending, Sample, ServiceState, Unavailable,
};
use super::{command, drain, interruption, launches};

/// Decisions that are kept: those of a busy day. The oldest that have ended are dropped first.
const MOST_DECISIONS: usize = 2000;
/// Samples that are kept; older ones are thinned out.
const MOST_SAMPLES: usize = 2000;

/// How the keys of decisions begin.
const COMMAND: &str = "command/";
const REMOVAL: &str = "removal/";

pub(crate) type Changes<T> = BTreeMap<String, Option<Arc<T>>>;
pub(crate) type All<T> = BTreeMap<String, Arc<T>>;

/// One step of the provisioner's stream.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterStep {
    pub(super) full: bool,
    pub(super) more: bool,
    pub(super) at: i64,
    pub(super) nodes: Vec<(String, Node)>,
    pub(super) removed_nodes: Vec<String>,
    /// By UID.
    pub(super) pending: Vec<(String, Pending)>,
    pub(super) removed_pending: Vec<String>,
}

/// One step of disruption's stream of candidates.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidatesStep {
    pub(super) full: bool,
    pub(super) different: Vec<(String, Candidate)>,
    pub(super) removed: Vec<String>,
    pub(super) budgets: Vec<Budget>,
}

pub(super) enum Event {
    Cluster(ClusterStep),
    /// Commands as a stream of them begins. `all`: whoever tells them leads, so that there are no others.
    Commands {
        told: Vec<proto::disruption::v1::Command>,
        all: bool,
    },
    Command(proto::disruption::v1::Command),
    /// Drains as a stream of them begins.
    Drains {
        told: Vec<proto::termination::v1::Drain>,
        all: bool,
    },
    Drain(proto::termination::v1::Drain),
    Candidates(CandidatesStep),
    Unavailable(Vec<Unavailable>, Vec<String>),
    Interruptions(Vec<proto::interruptionwatcher::v1::InterruptionEvent>),
    Bound(Bound),
    Service(&'static str, ServiceState),
}

#[derive(Clone, Default)]
pub(crate) struct Picture {
    pub(crate) nodes: All<Node>,
    pub(crate) pending: All<Pending>,
    pub(crate) decisions: All<Decision>,
    pub(crate) drains: All<Drain>,
    candidates: All<Candidate>,
    budgets: Vec<Budget>,
    unavailable: Vec<Unavailable>,
    shifted: Vec<String>,
    bound: Option<Bound>,
    pub(crate) services: All<ServiceState>,
    pub(crate) history: Vec<Sample>,
    /// Steps of a picture that is not complete.
    steps: Vec<ClusterStep>,
    pub(crate) seen: bool,
    with_candidates: bool,
}

/// What changed. Parts that are absent did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Patch {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) full: bool,
    /// When a full picture was taken, in seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) nodes: Changes<Node>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: Changes<Pending>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) decisions: Changes<Decision>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) drains: Changes<Drain>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) candidates: Changes<Candidate>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) services: Changes<ServiceState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budgets: Option<Vec<Budget>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unavailable: Option<Vec<Unavailable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shifted: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<Bound>,
    /// To add at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) history: Vec<Sample>,
}

impl Patch {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Puts a value into both the picture and the patch, if it is news.
pub(super) fn set<T: PartialEq>(all: &mut All<T>, changes: &mut Changes<T>, key: String, value: T) {
    if all.get(&key).is_some_and(|known| **known == value) {
        return;
    }
    let value = Arc::new(value);
    all.insert(key.clone(), Arc::clone(&value));
    changes.insert(key, Some(value));
}

pub(super) fn unset<T>(all: &mut All<T>, changes: &mut Changes<T>, key: &str) {
    if all.remove(key).is_some() {
        changes.insert(key.to_owned(), None);
    }
}

/// Replaces a whole part.
fn replace<T: PartialEq>(all: &mut All<T>, changes: &mut Changes<T>, now: Vec<(String, T)>) {
    let kept: BTreeSet<&String> = now.iter().map(|(key, _)| key).collect();
    let gone: Vec<String> = all.keys().filter(|key| !kept.contains(key)).cloned().collect();
    for key in gone {
        unset(all, changes, &key);
    }
    for (key, value) in now {
        set(all, changes, key, value);
    }
}

impl Picture {
    /// Everything, for somebody who has nothing yet.
    pub(super) fn full(&self) -> Patch {
        fn all<T>(part: &All<T>) -> Changes<T> {
            part.iter().map(|(key, value)| (key.clone(), Some(Arc::clone(value)))).collect()
        }
        Patch {
            full: true,
            at: None,
            nodes: all(&self.nodes),
            pending: all(&self.pending),
            decisions: all(&self.decisions),
            drains: all(&self.drains),
            candidates: all(&self.candidates),
            services: all(&self.services),
            budgets: Some(self.budgets.clone()),
            unavailable: Some(self.unavailable.clone()),
            shifted: Some(self.shifted.clone()),
            bound: self.bound.clone(),
            history: self.history.clone(),
        }
    }

    /// Every service has answered once.
    pub(super) fn is_complete(&self) -> bool {
        self.seen && self.with_candidates && self.services.values().all(|service| service.state == "live")
    }

    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Services that are not live, in a line.
    pub(super) fn troubles(&self) -> String {
        let lost = self.services.iter().filter(|(_, service)| service.state != "live");
        lost.map(|(name, service)| format!("{name}: {} {}", service.state, service.detail))
            .collect::<Vec<_>>()
            .join("; ")
    }

    pub(super) fn take(&mut self, event: Event, now: i64) -> Patch {
        let mut patch = Patch::default();
        match event {
            Event::Cluster(step) => self.cluster(step, &mut patch),
            Event::Commands { told, all } => {
                let keys: BTreeSet<String> =
                    told.into_iter().map(|reply| self.command(reply, now, &mut patch)).collect();
                if all {
                    self.close(COMMAND, &keys, "given up", now, &mut patch);
                }
            }
            Event::Command(reply) => drop(self.command(reply, now, &mut patch)),
            Event::Drains { told, all } => {
                let names: BTreeSet<String> = told.iter().map(drain::key).collect();
                let gone: Vec<String> =
                    self.drains.keys().filter(|name| !names.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| unset(&mut self.drains, &mut patch.drains, name));
                told.into_iter().for_each(|reply| self.drain(reply, now, &mut patch));
                if all {
                    let keys = names.iter().map(|name| format!("{REMOVAL}{name}")).collect();
                    self.close(REMOVAL, &keys, "gone", now, &mut patch);
                }
            }
            Event::Drain(reply) => self.drain(reply, now, &mut patch),
            Event::Candidates(step) => self.candidates(step, &mut patch),
            Event::Unavailable(unavailable, shifted) => {
                if self.unavailable != unavailable {
                    self.unavailable.clone_from(&unavailable);
                    patch.unavailable = Some(unavailable);
                }
                if self.shifted != shifted {
                    self.shifted.clone_from(&shifted);
                    patch.shifted = Some(shifted);
                }
            }
            Event::Interruptions(events) => {
                for (key, decision) in interruption::decisions(events, &self.nodes, &self.decisions) {
                    self.decide(key, decision, &mut patch);
                }
            }
            Event::Bound(bound) => {
                patch.bound = Some(bound.clone());
                self.bound = Some(bound);
            }
            Event::Service(name, mut state) => {
                // A service that is lost is so since it was lost, however often it was asked in vain since.
                if let Some(known) = self.services.get(name).filter(|known| known.state == state.state) {
                    state.since = known.since;
                }
                set(&mut self.services, &mut patch.services, name.to_owned(), state);
            }
        }
        patch
    }

    /// A picture in several steps counts when its last one is there.
    fn cluster(&mut self, step: ClusterStep, patch: &mut Patch) {
        if step.full {
            self.steps.clear();
        }
        let (complete, at) = (!step.more, step.at);
        self.steps.push(step);
        if !complete {
            return;
        }
        let steps = std::mem::take(&mut self.steps);
        let before = self.nodes.clone();
        if steps.first().is_some_and(|first| first.full) {
            let (mut nodes, mut pending) = (Vec::new(), Vec::new());
            for step in steps {
                nodes.extend(step.nodes);
                pending.extend(step.pending);
            }
            replace(&mut self.nodes, &mut patch.nodes, nodes);
            replace(&mut self.pending, &mut patch.pending, pending);
        } else {
            for step in steps {
                step.removed_nodes.iter().for_each(|name| unset(&mut self.nodes, &mut patch.nodes, name));
                step.removed_pending.iter().for_each(|uid| unset(&mut self.pending, &mut patch.pending, uid));
                step.nodes.into_iter().for_each(|(k, v)| set(&mut self.nodes, &mut patch.nodes, k, v));
                step.pending.into_iter().for_each(|(k, v)| set(&mut self.pending, &mut patch.pending, k, v));
            }
        }
        // What was there at the first look was not launched before our eyes.
        if std::mem::replace(&mut self.seen, true) {
            for (key, decision) in launches::of(&before, &self.nodes, &patch.nodes, &self.decisions, at) {
                self.decide(key, decision, patch);
            }
        }
        self.sample(at, patch);
    }

    fn command(&mut self, reply: proto::disruption::v1::Command, now: i64, patch: &mut Patch) -> String {
        let key = format!("{COMMAND}{}", reply.id);
        let known = self.decisions.get(&key);
        let decision = command::decision(reply, known.map(|known| &**known), now);
        self.decide(key.clone(), decision, patch);
        key
    }

    fn candidates(&mut self, step: CandidatesStep, patch: &mut Patch) {
        self.with_candidates = true;
        if step.full {
            replace(&mut self.candidates, &mut patch.candidates, step.different);
        } else {
            step.removed.iter().for_each(|name| unset(&mut self.candidates, &mut patch.candidates, name));
            let different = step.different.into_iter();
            different.for_each(|(name, own)| set(&mut self.candidates, &mut patch.candidates, name, own));
        }
        if self.budgets != step.budgets {
            self.budgets.clone_from(&step.budgets);
            patch.budgets = Some(step.budgets);
        }
    }

    /// What the replica that leads now does not know does not go on: it ended while another led or nobody was connected.
    fn close(&mut self, kind: &str, known: &BTreeSet<String>, phase: &str, now: i64, patch: &mut Patch) {
        let open = self.decisions.iter().filter(|(key, own)| key.starts_with(kind) && !own.ended);
        let over: Vec<(String, Arc<Decision>)> = open
            .filter(|(key, _)| !known.contains(*key))
            .map(|(key, own)| (key.clone(), Arc::clone(own)))
            .collect();
        for (key, own) in over {
            let mut own = (*own).clone();
            let nodes_are_gone =
                kind == COMMAND && !own.remove.iter().any(|node| self.nodes.contains_key(node));
            let phase = if nodes_are_gone && !own.remove.is_empty() { "nodes gone" } else { phase };
            (own.phase, own.ended) = (phase.to_owned(), true);
            own.detail = "the replica that leads now does not know of it".to_owned();
            own.step(now, format!("{phase}: {}", own.detail));
            self.decide(key, own, patch);
        }
    }

    fn drain(&mut self, reply: proto::termination::v1::Drain, now: i64, patch: &mut Patch) {
        let name = drain::key(&reply);
        let key = format!("{REMOVAL}{name}");
        let decision = drain::decision(&reply, self.decisions.get(&key).map(|known| &**known), now);
        if decision.ended {
            unset(&mut self.drains, &mut patch.drains, &name);
        } else {
            set(&mut self.drains, &mut patch.drains, name, drain::shown(reply));
        }
        self.decide(key, decision, patch);
    }

    fn decide(&mut self, key: String, decision: Decision, patch: &mut Patch) {
        set(&mut self.decisions, &mut patch.decisions, key, decision);
        while self.decisions.len() > MOST_DECISIONS {
            let oldest = self.decisions.iter().min_by_key(|(_, each)| (!each.ended, each.at));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            unset(&mut self.decisions, &mut patch.decisions, &key);
        }
    }

    fn sample(&mut self, at: i64, patch: &mut Patch) {
        let mut by: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let mut sample = Sample {
            at,
            pending: u32::try_from(self.pending.len()).unwrap_or(u32::MAX),
            ..Sample::default()
        };
        for node in self.nodes.values().filter(|node| node.is_ours()) {
            *by.entry((&node.pool, &node.cap)).or_default() += node.price;
            sample.waste += node.waste();
            sample.nodes += 1;
            sample.pods += u32::try_from(node.pods.len()).unwrap_or(u32::MAX);
        }
        sample.by = by.into_iter().map(|((pool, cap), sum)| (pool.to_owned(), cap.to_owned(), sum)).collect();
        let same = |last: &Sample| last.by == sample.by && last.nodes == sample.nodes;
        if self.history.last().is_some_and(same) {
            return;
        }
        if self.history.len() >= MOST_SAMPLES {
            let mut count = 0;
            self.history.retain(|_| {
                count += 1;
                count % 2 == 0 || count > MOST_SAMPLES / 2
            });
        }
        self.history.push(sample.clone());
        patch.history.push(sample);
    }
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;

//! What changes by itself as time passes: nominations end, nodes settle, pods lose their protection, and pods without a place are
//! decided about again.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::node::NodeState;
use model::pod::Pod;
use model::quantity::Quantity;
use model::resources::PODS;

use super::nodes::Entry;
use super::nominations::{self, ShortUid};
use super::pods::{PodKey, Shown};
use super::state::{Due, Retry, State};

/// As often as the reference looks again at pods that it found a place for but that were not bound.
const AGAIN: SignedDuration = SignedDuration::from_secs(10);

impl State {
    /// What may help pods without a place has changed.
    pub(super) fn retry_waiting(&mut self) {
        let waiting = self.pods.waiting.iter().filter_map(|key| self.pods.records.get(key));
        let waiting = waiting.filter(|r| r.shown == Shown::Pending);
        let again: Vec<_> = waiting.map(|r| (Arc::clone(&r.pod.uid), false)).collect();
        self.triggers.extend(again);
    }

    /// Does what has come due.
    pub(super) fn pass_time(&mut self, now: Timestamp) {
        while let Some((_, due)) = self.due.first().filter(|(at, _)| *at <= now).cloned() {
            self.due.pop_first();
            match due {
                Due::Nomination(claim) => {
                    let over = self.nodes.claims.get(&claim).and_then(|c| nominations::until(c, self.window));
                    if over.is_some_and(|until| until <= now) {
                        let touched = self.end_nomination(&claim, now);
                        self.free_pods(&touched, Retry::Soon);
                    }
                }
                Due::Settled(claim) => self.free_left_over(&claim),
                Due::Node(name) => {
                    if self.nodes.claims.contains_key(&name) {
                        self.node_changed(None, Some(&name), now);
                    } else {
                        self.node_changed(Some(&name), None, now);
                    }
                }
                Due::Protection(key) => self.rejudge(&key, now),
                Due::Refusal(key) => self.try_again(&key, now),
                Due::Backoff => {
                    self.launches.forget_old(now);
                    self.retry_waiting();
                }
                Due::Assumed(name) => {
                    if self.assumed.get(&name).is_some_and(|until| *until <= now) {
                        self.overdue.push(name);
                    }
                }
            }
        }
    }

    /// The scheduler put others where these pods were to go: they are decided about again, at once.
    fn free_left_over(&mut self, claim: &Arc<str>) {
        let Some(entry) = self.nodes.of_claim(claim).and_then(|name| self.nodes.entries.get(name)) else {
            return;
        };
        let keys = self.on.get(&entry.node.name).into_iter().flatten();
        let (here, meant): (Vec<&Pod>, Vec<&Pod>) = keys
            .filter_map(|key| self.pods.records.get(key))
            .map(|record| &*record.pod)
            .partition(|pod| pod.node.is_some());
        let taken = |pod: &Pod| pod.spec.requests.clone().with(PODS, Quantity::from_units(1));
        let mut room = entry.node.allocatable.clone();
        here.into_iter().for_each(|pod| room.sub_all(&taken(pod)));
        let mut left_over = Vec::new();
        for pod in meant {
            let wanted = taken(pod);
            if wanted.fits(&room) {
                room.sub_all(&wanted);
            } else {
                left_over.extend(ShortUid::of(&pod.uid));
            }
        }
        left_over.iter().for_each(|pod| self.nominations.release(*pod, claim));
        self.free_pods(&left_over, Retry::Soon);
    }

    /// A node begins to go: its pods are planned for at once, while it drains.
    pub(super) fn trigger_leaving(&mut self, name: &Arc<str>, now: Timestamp) {
        let Some(entry) = self.nodes.entries.get(name) else { return };
        if !self.leaving.contains_key(name) && self.has_pods_to_move(entry) {
            self.leaving.insert(Arc::clone(name), now);
            self.triggers.push((Arc::clone(name), false));
        }
    }

    fn has_pods_to_move(&self, entry: &Entry) -> bool {
        let moves = |key: &PodKey| self.pods.records.get(key).is_some_and(|r| entry.moves(&r.pod));
        entry.node.state == NodeState::Deleting
            && self.on.get(&entry.node.name).is_some_and(|pods| pods.iter().any(moves))
    }

    /// Pods that wait, and nodes on their way out whose pods need a place, are decided about every so often.
    pub(super) fn trigger_again(&mut self, now: Timestamp) {
        let late = |at: Option<Timestamp>| at.is_none_or(|at| now.duration_since(at) >= AGAIN);
        let waiting: Vec<PodKey> = self.pods.waiting.iter().cloned().collect();
        for key in waiting {
            let Some(record) = self.pods.records.get_mut(&key) else { continue };
            if record.shown == Shown::Pending && late(record.triggered) {
                record.triggered = Some(now);
                self.triggers.push((Arc::clone(&record.pod.uid), false));
            }
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|name, _| self.nodes.entries.contains_key(name));
        for (name, entry) in &self.nodes.entries {
            if late(leaving.get(name).copied()) && self.has_pods_to_move(entry) {
                leaving.insert(Arc::clone(name), now);
                self.triggers.push((Arc::clone(&entry.node.name), false));
            }
        }
        self.leaving = leaving;
    }
}

//! Where each pod belongs in the solver's snapshot, and the changes that bring it there.

use std::sync::Arc;

use model::node::NodeState;

use super::excerpt::shown;
use super::pods::{Outcome, PodKey, Shown};
use super::state::{Due, State};

impl State {
    /// Where the pod belongs in the snapshot.
    pub(super) fn place_of(&self, key: &PodKey) -> Shown {
        let Some(record) = self.pods.records.get(key) else { return Shown::No };
        let nominated = || {
            let claim = self.nominations.claim_for(&record.pod.uid)?;
            let name = self.nodes.of_claim(claim)?;
            let entry = self.nodes.entries.get(name)?;
            (entry.node.state != NodeState::Deleting).then(|| Shown::On(Arc::clone(name)))
        };
        match &record.pod.node {
            Some(node) => {
                let Some(name) = self.nodes.of_object(node) else { return Shown::No };
                let moves = self.nodes.entries.get(name).is_some_and(|e| e.moves(&record.pod));
                moves.then(nominated).flatten().unwrap_or_else(|| Shown::On(Arc::clone(name)))
            }
            None if record.waiting_since.is_some() => nominated().unwrap_or(Shown::Pending),
            None => Shown::No,
        }
    }

    /// Moves the pod in the snapshot to where it belongs, if it is elsewhere.
    pub(super) fn show(&mut self, key: &PodKey) {
        let place = self.place_of(key);
        let Some(record) = self.pods.records.get(key) else { return };
        if record.shown == place {
            return;
        }
        let old = record.shown.clone();
        self.hide(key, old);
        self.put(key, place);
    }

    pub(super) fn hide(&mut self, key: &PodKey, shown: Shown) {
        let node = match shown {
            Shown::No => return,
            Shown::Pending => None,
            Shown::On(node) => {
                if let Some(pods) = self.on.get_mut(&node) {
                    pods.remove(key);
                }
                self.delta.nodes.insert(Arc::clone(&node));
                Some(node)
            }
        };
        let (namespace, name) = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        self.delta.push(solver::Change::PodRemoved { namespace, name, node });
    }

    pub(super) fn put(&mut self, key: &PodKey, place: Shown) {
        let Some(record) = self.pods.records.get_mut(key) else { return };
        let node = match &place {
            Shown::No => None,
            Shown::Pending => Some(None),
            Shown::On(node) => Some(Some(Arc::clone(node))),
        };
        record.shown = place;
        let Some(node) = node else { return };
        let forced = node.as_ref().and_then(|name| self.nodes.entries.get(name)).is_some_and(|e| e.forced);
        let pod = shown(&record.pod, node.as_ref(), forced);
        if let Some(node) = node {
            self.on.entry(Arc::clone(&node)).or_default().insert(key.clone());
            self.delta.nodes.insert(node);
        }
        self.delta.push(solver::Change::PodAdded(pod));
    }

    pub(super) fn pod_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Nothing => {}
            Outcome::Gone(key, record) => {
                self.hide(&key, record.shown);
                self.delta.any = true;
            }
            Outcome::Changed(key) => {
                let old = self.pods.records.get(&key).map(|r| r.shown.clone()).unwrap_or_default();
                self.hide(&key, old);
                let place = self.place_of(&key);
                if let Some(record) = self.pods.records.get(&key) {
                    if record.waiting_since.is_some() && record.triggered.is_none() && place == Shown::Pending
                    {
                        self.triggers.push((Arc::clone(&record.pod.uid), false));
                    }
                    if let Some(until) = record.protected_until() {
                        self.due.insert((until, Due::Protection(key.clone())));
                    }
                }
                self.put(&key, place);
                self.delta.any = true;
            }
        }
    }
}

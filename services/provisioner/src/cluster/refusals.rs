//! Where kube-scheduler and this planner disagree: a pod that it refuses on a node which was made for the pod, has room for it and
//! is ready. That node is left out for the pod from then on, so that it is planned differently; a pod that is refused again and
//! again gets no further node before a growing pause is over.
//!
//! The scheduler writes the condition PodScheduled only when its words change, and the time on it is that of the first refusal.
//! So what it said counts from when this process saw it change, and a pod is believed to be refused when that was after the node
//! became ready and the pod still waits at the end of the time in which the node's room is kept for it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use model::labels;
use model::node::NodeState;
use model::pod::{Pod, PodSpec};
use model::quantity::Quantity;
use model::requirement::{Operator, Requirement};
use model::resources::PODS;
use model::taint::first_untolerated;

use super::nominations::ShortUid;
use super::pods::{Outcome, PodKey};
use super::state::{Due, State};

/// After the second refusal; it doubles with each.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_mins(5);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// What kube-scheduler said last about a pod that waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    message: Arc<str>,
    /// When it was seen to say so.
    at: Timestamp,
}

impl Said {
    /// `before` is what was known of the same pod.
    pub(super) fn of(pod: &core::Pod, before: Option<&Self>, now: Timestamp) -> Option<Self> {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
        let condition = conditions.unwrap_or_default().iter().find(|c| {
            c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable")
        })?;
        let message = condition.message.as_deref().unwrap_or_default();
        Some(match before {
            Some(before) if *before.message == *message => before.clone(),
            Some(_) => Self { message: Arc::from(message), at: now },
            // Of a pod that is new here it is not known how often it was said.
            None => {
                let since =
                    condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
                Self { message: Arc::from(message), at: since.min(now) }
            }
        })
    }
}

/// Nodes that were made for a pod and that kube-scheduler refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Refusals {
    /// Values of their hostname labels.
    hostnames: Vec<String>,
    /// The last one, in kube-scheduler's words.
    last: Arc<str>,
    /// No further node is made before.
    until: Option<Timestamp>,
}

impl Refusals {
    fn add(&mut self, hostname: String, message: &Arc<str>, now: Timestamp) {
        let again = u32::try_from(self.hostnames.len()).unwrap_or(u32::MAX);
        self.hostnames.push(hostname);
        self.last = Arc::clone(message);
        self.until = again.checked_sub(1).and_then(|doublings| {
            let factor = 1_i32.checked_shl(doublings.min(8)).unwrap_or(i32::MAX);
            now.checked_add(FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)).ok()
        });
    }

    /// The pod as it is to be planned.
    pub(super) fn apply(&self, pod: &mut Pod, now: Timestamp) {
        let not_there = Requirement::new(labels::HOSTNAME, Operator::NotIn, self.hostnames.clone(), None);
        let mut spec: PodSpec = (*pod.spec).clone();
        if spec.required_node_affinity.is_empty() {
            spec.required_node_affinity.push(Default::default());
        }
        spec.required_node_affinity.iter_mut().for_each(|term| term.add(not_there.clone()));
        pod.spec = Arc::new(spec);
        if self.until.is_some_and(|until| now < until) && pod.node.is_none() {
            pod.rejected.get_or_insert_with(|| self.explained());
        }
    }

    pub(super) fn explained(&self) -> String {
        let node = self.hostnames.last().map_or("", String::as_str);
        let then = match self.until {
            None => "it is planned elsewhere".to_owned(),
            Some(until) => {
                let (count, until) = (self.hostnames.len(), until.strftime("%H:%M:%SZ"));
                format!("that is {count} nodes in a row, so no further one is made for it before {until}")
            }
        };
        format!(
            "kube-scheduler refuses it on node {node}, which was made for it, has room and is ready: {then} ({})",
            self.last
        )
    }
}

/// Whether a rule of the pod counts the other pod: kube-scheduler may have put a replica on the node that was meant for its twin, and
/// what spreads them keeps the twin off it now.
fn keeps_apart(pod: &Pod, other: &Pod) -> bool {
    let spec = &pod.spec;
    let spreads = spec.topology_spread.iter().map(|constraint| &constraint.selector);
    let mut rules = spreads.chain(spec.anti_affinity.iter().map(|term| &term.selector));
    rules.any(|rule| rule.as_ref().is_some_and(|selector| selector.matches(&other.spec.labels)))
}

impl State {
    /// Pods for which the claim kept room until now and that kube-scheduler refuses on its node.
    fn refused_on(&self, claim: &str) -> Vec<PodKey> {
        let Some(entry) = self.nodes.of_claim(claim).and_then(|name| self.nodes.entries.get(name)) else {
            return Vec::new();
        };
        let Some(ready) = entry.object.as_ref().and_then(|object| self.nodes.ready_since(object)) else {
            return Vec::new();
        };
        if entry.node.state == NodeState::Deleting {
            return Vec::new();
        }
        let taken = |pod: &Pod| pod.spec.requests.clone().with(PODS, Quantity::from_units(1));
        let records = || {
            let keys = self.on.get(&entry.node.name).into_iter().flatten();
            keys.filter_map(|key| Some((key, self.pods.records.get(key)?)))
        };
        let mut room = entry.node.allocatable.clone();
        records().filter(|(_, r)| r.pod.node.is_some()).for_each(|(_, r)| room.sub_all(&taken(&r.pod)));
        let nominated = self.nominations.of(claim);
        let is_stranger = |pod: &Pod| ShortUid::of(&pod.uid).is_none_or(|uid| !nominated.contains(&uid));
        let strangers = records().map(|(_, r)| &r.pod).filter(|pod| pod.node.is_some() && is_stranger(pod));
        let refused = |record: &super::pods::Record| {
            record.pod.node.is_none()
                && record.said.as_ref().is_some_and(|said| said.at >= ready)
                && taken(&record.pod).fits(&room)
                && !strangers.clone().any(|stranger| keeps_apart(&record.pod, stranger))
                && first_untolerated(&entry.node.taints, &record.pod.spec.tolerations).is_none()
        };
        records().filter(|(_, record)| refused(record)).map(|(key, _)| key.clone()).collect()
    }

    /// The claim keeps no room any more. Returns pods whose situation may have changed.
    pub(super) fn end_nomination(&mut self, claim: &Arc<str>, now: Timestamp) -> Vec<ShortUid> {
        let refused = self.refused_on(claim);
        self.refuse(claim, refused, now);
        self.nominations.drop(claim)
    }

    /// Leaves the claim's node out for these pods.
    fn refuse(&mut self, claim: &str, pods: Vec<PodKey>, now: Timestamp) {
        let Some(entry) = self.nodes.of_claim(claim).and_then(|name| self.nodes.entries.get(name)) else {
            return;
        };
        let label = entry.node.labels.get(labels::HOSTNAME);
        let hostname = label.map_or_else(|| entry.node.name.to_string(), Clone::clone);
        for key in pods {
            let Some(record) = self.pods.records.get_mut(&key) else { continue };
            let message =
                record.said.as_ref().map_or_else(|| Arc::from(""), |said| Arc::clone(&said.message));
            let refusals = record.refusals.get_or_insert_default();
            refusals.add(hostname.clone(), &message, now);
            if let Some(until) = refusals.until {
                self.due.insert((until, Due::Refusal(key.clone())));
            }
            let refusals = refusals.clone();
            refusals.apply(Arc::make_mut(&mut record.pod), now);
            self.refused += 1;
            self.pod_outcome(Outcome::Changed(key));
        }
    }

    /// The pause of a pod that was refused again and again is over.
    pub(super) fn try_again(&mut self, key: &PodKey, now: Timestamp) {
        let Some(record) = self.pods.records.get_mut(key) else { return };
        let Some(refusals) = &record.refusals else { return };
        let over = refusals.until.is_none_or(|until| until <= now);
        if !over || record.pod.rejected != Some(refusals.explained()) {
            return;
        }
        Arc::make_mut(&mut record.pod).rejected = None;
        record.triggered = None;
        self.pod_outcome(Outcome::Changed(key.clone()));
    }
}

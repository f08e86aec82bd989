//! Pods on their way out: rounds of evictions as [`super::evictions`] admits them, deletions for a deadline, and what is told
//! about each.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::drain::Pod;
use policy::drain::leaving::Leaving;
use policy::drain::pdb;
use policy::drain::time::plus;
use tracing::{Instrument as _, info, warn};

use super::{Actor, Done};
use crate::cluster::{Claim, Key, NodeState};
use crate::metrics::{Code, Reason};
use crate::writes::{Error, Evicted};

/// Between two rounds of evictions, so that a flood of answers is not a flood of rounds.
const ROUND: SignedDuration = SignedDuration::from_millis(20);
/// So many of the pods that hold a node up are named in its event.
const NAMED: usize = 3;

impl Actor {
    /// Asks the evictable ones to leave and deletes those that the deadline does not spare.
    pub(super) fn pods_leave(
        &mut self,
        node: &Arc<NodeState>,
        claim: Option<&Claim>,
        plan: &Leaving,
        now: Timestamp,
    ) {
        let key = Key::Node(node.name.clone());
        let pods = self.cluster.pods_on(&node.name);
        if let Some(work) = self.work.get_mut(&key) {
            work.pods.extend(pods.iter().filter(|pod| pod.is_awaited(now)).map(|pod| pod.uid.clone()));
        }
        self.evictions.want(&self.cluster, &node.name, &plan.evict, now);
        if !plan.evict.is_empty() {
            self.next_round.get_or_insert(now);
        }
        let deadline = claim.and_then(|claim| claim.deadline.at());
        if self.may_tell(&key, "pods", now) {
            self.events.pods_waiting(node, plan.awaited, &self.obstacles(&pods, deadline, now));
        }
        for (pod, grace) in &plan.delete {
            self.delete_pod(node, pod, *grace, deadline);
        }
    }

    /// What holds up the first few pods that cannot just be asked.
    fn obstacles(&self, pods: &[Arc<Pod>], deadline: Option<Timestamp>, now: Timestamp) -> Vec<String> {
        let waits = self.pods_wait(pods, deadline, now, now).into_iter();
        let held = waits.filter(|wait| wait.kind != "queue");
        let shown = held.filter_map(|wait| Some(format!("{}: {}", wait.pod?.key(), wait.detail)));
        shown.take(NAMED).collect()
    }

    fn delete_pod(&mut self, node: &Arc<NodeState>, pod: &Arc<Pod>, grace: i64, deadline: Option<Timestamp>) {
        if !self.deleting.insert(pod.uid.clone()) {
            return;
        }
        let reason = self.reason_of(&node.name);
        let (writes, pod) = (self.writes.clone(), Arc::clone(pod));
        let (events, metrics, name) = (self.events.clone(), self.metrics.clone(), node.name.clone());
        let span = self.span_of(
            &node.name,
            |parent| tracing::info_span!(parent: parent, "delete pod", pod = pod.key(), grace),
        );
        let call = async move {
            let result = writes.delete_pod(&pod, grace).await;
            if result.is_ok() {
                info!(pod = pod.key(), grace, "deleted pod for the deadline of its node");
                metrics.pods_drained.get_or_create(&Reason { reason }).inc();
                if let Some(deadline) = deadline {
                    events.deleted_for_deadline(&pod, deadline, grace);
                }
            }
            Done::Deleted { pod, node: name, result }
        };
        self.tasks.spawn(call.instrument(span));
    }

    pub(super) fn deleted(&mut self, pod: &Pod, node: Arc<str>, result: Result<(), Error>, now: Timestamp) {
        self.deleting.remove(&pod.uid);
        if let Err(error) = result {
            warn!(pod = pod.key(), node = %node, %error, "pod not deleted for the deadline; trying again");
            self.schedule.at(Key::Node(node), plus(now, SignedDuration::from_secs(1)));
        }
    }

    /// One round.
    pub(super) fn evict(&mut self, now: Timestamp) {
        let most = self.options.evictions_at_once;
        if self.term.is_none() {
            self.next_round = None;
            return;
        }
        for pod in self.evictions.admit(&self.cluster, now, most) {
            let Some(node) = self.evictions.node_of(&pod.uid) else { continue };
            // Of interest one by one only when something is looked into: a thousand nodes have tens of thousands.
            let span = self
                .span_of(&node, |parent| tracing::debug_span!(parent: parent, "evict pod", pod = pod.key()));
            let writes = self.writes.clone();
            let call = async move {
                let answer = writes.evict(&pod).await;
                Done::Evicted { pod, node, answer }
            };
            self.tasks.spawn(call.instrument(span));
        }
        self.metrics.waiting_pods.set(i64::try_from(self.evictions.len()).unwrap_or(i64::MAX));
        let turn = self.evictions.next_turn(&self.cluster, now, most);
        self.next_round = turn.map(|turn| turn.max(plus(now, ROUND)));
    }

    fn span_of(&self, node: &Arc<str>, make: impl FnOnce(&tracing::Span) -> tracing::Span) -> tracing::Span {
        let work = self.work.get(&Key::Node(node.clone()));
        work.map_or_else(tracing::Span::none, |work| make(work.now()))
    }

    pub(super) fn evicted(&mut self, pod: &Arc<Pod>, node: &Arc<str>, answer: &Evicted, now: Timestamp) {
        let jitter = self.random();
        self.evictions.answered(pod, answer, &self.cluster, now, jitter);
        let soon = plus(now, ROUND);
        self.next_round = Some(self.next_round.map_or(soon, |round| round.min(soon)));
        self.metrics.evictions.get_or_create(&Code { code: answer.code() }).inc();
        match answer {
            Evicted::Yes => {
                let reason = self.reason_of(node);
                self.events.evicted(pod, &reason);
                self.metrics.pods_drained.get_or_create(&Reason { reason }).inc();
            }
            Evicted::Refused { words, .. } => self.tell_refused(pod, node, words),
            Evicted::NotThere { .. } => {}
            Evicted::Failed { error, .. } => {
                warn!(pod = pod.key(), node = %node, error, "eviction failed; trying again");
            }
        }
    }

    /// The API server's words name neither one budget nor several; people want to know which.
    fn tell_refused(&self, pod: &Pod, node: &str, words: &str) {
        let Some(state) = self.cluster.node(node) else { return };
        let pdbs = self.cluster.pdbs_in(&pod.namespace);
        let block = pdb::block(pod, &pdbs);
        let several = matches!(block, Some(pdb::Block::Several(_)));
        let why = block.map_or_else(|| words.to_owned(), |block| block.to_string());
        self.events.refused(state, pod, &why, several);
    }

    /// As in the reference: what disruption noted, else that it was forced; nothing without a claim.
    fn reason_of(&self, node: &str) -> String {
        let claim = self.cluster.node(node).and_then(|node| self.cluster.claim_of(node));
        claim.map_or_else(String::new, |claim| {
            claim.disruption_reason().unwrap_or("Forceful Termination").to_owned()
        })
    }
}

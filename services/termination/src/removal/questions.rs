//! What others may ask the actor; questions are answered from the cluster state as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud::instance::id_of_provider;
use jiff::Timestamp;
use policy::drain::collect::NodeOfClaim;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Actor, Drain};
use crate::cluster::{Claim, NodeState};

pub(super) enum Question {
    Drains(oneshot::Sender<Vec<Drain>>),
    /// The claim of that name as last seen.
    Claim(Arc<str>, oneshot::Sender<Option<Arc<Claim>>>),
    /// For each provider id, how its node is.
    NodesOf(Vec<Arc<str>>, oneshot::Sender<Vec<NodeOfClaim>>),
    /// Name and uid of the nodes on these instances.
    NodesOn(Vec<String>, oneshot::Sender<Vec<(Arc<str>, Arc<str>)>>),
    /// Nodes that nobody's claim stands for.
    Claimless(oneshot::Sender<Vec<Arc<NodeState>>>),
}

/// Asks the actor.
#[derive(Clone)]
pub(crate) struct Removals {
    questions: mpsc::Sender<Question>,
    changes: watch::Receiver<u64>,
}

impl Removals {
    pub(super) fn new(questions: mpsc::Sender<Question>, changes: watch::Receiver<u64>) -> Self {
        Self { questions, changes }
    }

    pub(crate) async fn drains(&self) -> Option<Vec<Drain>> {
        self.ask(Question::Drains).await
    }

    pub(crate) async fn claim(&self, name: &str) -> Option<Arc<Claim>> {
        self.ask(|reply| Question::Claim(name.into(), reply)).await.flatten()
    }

    pub(crate) async fn nodes_of(&self, provider_ids: Vec<Arc<str>>) -> Option<Vec<NodeOfClaim>> {
        self.ask(|reply| Question::NodesOf(provider_ids, reply)).await
    }

    pub(crate) async fn nodes_on(&self, instances: Vec<String>) -> Option<Vec<(Arc<str>, Arc<str>)>> {
        self.ask(|reply| Question::NodesOn(instances, reply)).await
    }

    /// Nodes of ours that are not ready, are not being deleted and have a provider id that no claim has.
    pub(crate) async fn claimless(&self) -> Option<Vec<Arc<NodeState>>> {
        self.ask(Question::Claimless).await
    }

    /// Moves whenever a drain may look different.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// `None`: the process is ending.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(question(reply)).await.ok()?;
        answer.await.ok()
    }
}

impl Actor {
    /// Whoever asked may have gone meanwhile.
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Drains(reply) => drop(reply.send(self.drains(Timestamp::now()))),
            Question::Claim(name, reply) => drop(reply.send(self.cluster.claim(&name).cloned())),
            Question::NodesOf(provider_ids, reply) => {
                let found = provider_ids.iter().map(|id| self.node_of_claim(id));
                drop(reply.send(found.collect()));
            }
            Question::NodesOn(instances, reply) => {
                let wanted: BTreeSet<&str> = instances.iter().map(String::as_str).collect();
                let on = |node: &&Arc<NodeState>| {
                    node.provider_id.as_deref().and_then(id_of_provider).is_some_and(|id| wanted.contains(id))
                };
                let nodes = self.cluster.nodes().filter(|node| node.managed).filter(on);
                drop(reply.send(nodes.map(|node| (node.name.clone(), node.uid.clone())).collect()));
            }
            Question::Claimless(reply) => {
                let alone = |node: &&Arc<NodeState>| {
                    let id = node.provider_id.as_deref();
                    node.managed
                        && node.has_finalizer()
                        && node.deleting.is_none()
                        && !node.ready
                        && id.is_some_and(|id| self.cluster.claims_with(id).is_empty())
                        // EC2 here could not tell.
                        && self.knowledge.of_node(id).0.is_some()
                };
                let all = self.cluster.nodes().filter(alone).cloned();
                drop(reply.send(if self.is_synced() { all.collect() } else { Vec::new() }));
            }
        }
    }

    fn node_of_claim(&self, provider_id: &str) -> NodeOfClaim {
        match self.cluster.nodes_with(provider_id).as_slice() {
            _ if !self.is_synced() => NodeOfClaim::Unknown,
            [one] if one.ready => NodeOfClaim::Ready,
            [_] => NodeOfClaim::NotReady,
            _ => NodeOfClaim::NotOne,
        }
    }
}

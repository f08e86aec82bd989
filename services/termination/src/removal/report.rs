//! Who waits for what, for people and for other services: computed from the cluster state when asked.

use std::sync::Arc;

use jiff::Timestamp;
use policy::drain::Instance;
use policy::drain::claim::ClaimStep;
use policy::drain::leaving::{Obstacle, waiting};
use policy::drain::node::NodeStep;
use policy::drain::pod::Pod;
use policy::drain::time::plus_seconds;

use super::Actor;
use crate::cluster::{Claim, INSTANCE_TERMINATING, Key, NodeState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Draining,
    Detaching,
    Terminating,
    Gone,
}

/// One node that goes, or a claim without one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drain {
    pub(crate) node: Option<Arc<str>>,
    /// Name and uid.
    pub(crate) claim: Option<(Arc<str>, Arc<str>)>,
    pub(crate) nodepool: Arc<str>,
    pub(crate) instance: Option<String>,
    pub(crate) phase: Phase,
    pub(crate) since: Timestamp,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) waiting: Vec<Wait>,
    pub(crate) pods_total: usize,
    pub(crate) pods_gone: usize,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wait {
    pub(crate) pod: Option<Arc<Pod>>,
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
    pub(crate) since: Timestamp,
    pub(crate) forced_at: Option<Timestamp>,
}

impl Actor {
    /// Longest running first.
    pub(super) fn drains(&self, now: Timestamp) -> Vec<Drain> {
        let nodes = self.cluster.nodes().filter(|node| node.is_leaving());
        let mut all: Vec<Drain> = nodes.map(|node| self.drain_of_node(node, now)).collect();
        let alone = self.cluster.claims().filter(|claim| {
            let provider_id = claim.provider_id.as_deref().unwrap_or_default();
            let drained_by_node = self.cluster.nodes_with(provider_id).iter().any(|node| node.is_leaving());
            claim.is_leaving() && !drained_by_node
        });
        all.extend(alone.map(|claim| self.drain_of_claim(claim)));
        all.sort_by(|a, b| (a.since, &a.node, &a.claim).cmp(&(b.since, &b.node, &b.claim)));
        all
    }

    fn drain_of_node(&self, node: &Arc<NodeState>, now: Timestamp) -> Drain {
        let claim = self.cluster.claim_of(node);
        let since = node.deleting.unwrap_or(now);
        let since = claim.as_ref().and_then(|claim| claim.deleting).map_or(since, |at| at.min(since));
        let deadline = claim.as_ref().and_then(|claim| claim.deadline.at());
        let step = self.decide_node(node, claim.as_deref(), now).step;
        let pods = self.cluster.pods_on(&node.name);
        let (phase, waiting) = match step {
            NodeStep::Pods(_) => (Phase::Draining, self.pods_wait(&pods, deadline, since, now)),
            NodeStep::AwaitVolumes(attachments) => {
                let wait = attachments.into_iter().map(|attachment| Wait {
                    pod: None,
                    kind: "volume",
                    detail: format!("volume {} still attached ({})", attachment.shown, attachment.name),
                    since,
                    forced_at: deadline,
                });
                (Phase::Detaching, wait.collect())
            }
            NodeStep::EndInstance | NodeStep::AwaitInstance => {
                let (_, instance) = self.knowledge.of_node(node.provider_id.as_deref());
                (Phase::Terminating, vec![instance_wait(&instance, claim.as_deref(), since)])
            }
            NodeStep::Hold(why) => (Phase::Terminating, vec![hold(why, since)]),
            NodeStep::Release => (Phase::Gone, Vec::new()),
            NodeStep::DeleteClaim | NodeStep::LookAtInstance | NodeStep::Taint | NodeStep::Settle => {
                (Phase::Draining, Vec::new())
            }
        };
        let awaited = pods.iter().filter(|pod| pod.is_awaited(now)).count();
        let seen = self.work.get(&Key::Node(node.name.clone())).map_or(0, |work| work.pods.len());
        Drain {
            node: Some(node.name.clone()),
            nodepool: node.nodepool.clone(),
            instance: node
                .provider_id
                .as_deref()
                .and_then(cloud::instance::id_of_provider)
                .map(str::to_owned),
            phase,
            since,
            deadline,
            waiting,
            pods_total: seen.max(awaited),
            pods_gone: seen.saturating_sub(awaited),
            reason: claim.as_deref().map(reason).unwrap_or_default(),
            claim: claim.map(|claim| (claim.name.clone(), claim.uid.clone())),
        }
    }

    pub(super) fn pods_wait(
        &self,
        pods: &[Arc<Pod>],
        deadline: Option<Timestamp>,
        since: Timestamp,
        now: Timestamp,
    ) -> Vec<Wait> {
        let mut namespaces: Vec<&Arc<str>> = pods.iter().map(|pod| &pod.namespace).collect();
        namespaces.sort();
        namespaces.dedup();
        let pdbs: Vec<_> =
            namespaces.into_iter().flat_map(|namespace| self.cluster.pdbs_in(namespace)).collect();
        let told = waiting(pods, &pdbs, deadline, now).into_iter().map(|one| {
            let detail = match (&one.obstacle, self.evictions.last_words(&one.pod.uid)) {
                (Obstacle::Asking, Some(words)) => words.to_owned(),
                (obstacle, _) => obstacle.to_string(),
            };
            let began = one.pod.deletion.map(|deletion| plus_seconds(deletion.ends, -deletion.grace_seconds));
            Wait {
                kind: one.obstacle.kind(),
                detail,
                since: began.unwrap_or(since),
                forced_at: one.forced_at,
                pod: Some(one.pod),
            }
        });
        told.collect()
    }

    fn drain_of_claim(&self, claim: &Arc<Claim>) -> Drain {
        let since = claim.deleting.unwrap_or(Timestamp::UNIX_EPOCH);
        let waiting = match self.decide_claim(claim) {
            ClaimStep::Hold(why) => vec![hold(why, since)],
            ClaimStep::Release { .. } => Vec::new(),
            ClaimStep::AwaitNodes => {
                self.nodes_held_by_others(claim).iter().map(|node| held(node, since)).collect()
            }
            _ => vec![instance_wait(&self.knowledge.of_claim(claim).1, Some(claim), since)],
        };
        Drain {
            node: None,
            claim: Some((claim.name.clone(), claim.uid.clone())),
            nodepool: claim.nodepool.clone(),
            instance: claim
                .provider_id
                .as_deref()
                .and_then(cloud::instance::id_of_provider)
                .map(str::to_owned),
            phase: Phase::Terminating,
            since,
            deadline: claim.deadline.at(),
            waiting,
            pods_total: 0,
            pods_gone: 0,
            reason: reason(claim),
        }
    }
}

fn reason(claim: &Claim) -> String {
    claim
        .disruption_reason()
        .map(str::to_owned)
        .or_else(|| claim.termination_reason.clone())
        .unwrap_or_default()
}

fn hold(why: String, since: Timestamp) -> Wait {
    Wait { pod: None, kind: "instance", detail: why, since, forced_at: None }
}

/// A node that we are done with.
fn held(node: &NodeState, since: Timestamp) -> Wait {
    let detail =
        format!("node {} is held by finalizers of others: {}", node.name, node.finalizers.join(", "));
    Wait { pod: None, kind: "finalizer", detail, since, forced_at: None }
}

fn instance_wait(instance: &Instance, claim: Option<&Claim>, since: Timestamp) -> Wait {
    let detail = match instance {
        Instance::Unasked | Instance::Asking(None) => "EC2 is being asked about the instance".to_owned(),
        Instance::Asking(Some(error)) => format!("EC2 does not answer: {error}"),
        Instance::Running => "the instance is about to be ended".to_owned(),
        Instance::Ending => "the instance is shutting down".to_owned(),
        Instance::Gone => "the instance is gone".to_owned(),
        Instance::Untouchable(why) => why.clone(),
    };
    let since = claim.and_then(|claim| claim.since(INSTANCE_TERMINATING)).unwrap_or(since);
    Wait { pod: None, kind: "instance", detail, since, forced_at: None }
}

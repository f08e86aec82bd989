//! One look at a claim that leaves: what `policy::drain::claim` decides, carried out.

use std::sync::Arc;

use api::NodeClaim;
use jiff::Timestamp;
use policy::drain::claim::{ClaimSeen, ClaimStep, next_step};
use policy::drain::node::Mark;
use runtime::watch::Change;
use tracing::info;

use super::Actor;
use super::node_pass::seconds;
use crate::cluster::{Claim, Fact, INSTANCE_TERMINATING, Key, NodeState};
use crate::instances::Wish;
use crate::metrics::{ClaimLabels, Pool};

impl Actor {
    pub(super) fn decide_claim(&self, claim: &Claim) -> ClaimStep {
        let provider_id = claim.provider_id.as_deref().unwrap_or_default();
        let nodes: Vec<(Arc<str>, bool)> = self
            .cluster
            .nodes_with(provider_id)
            .iter()
            .map(|node| (node.name.clone(), node.deleting.is_some()))
            .collect();
        let others = self.cluster.claims_with(provider_id);
        let shared = others.iter().find(|other| other.name != claim.name && other.deleting.is_none());
        let (_, instance) = self.knowledge.of_claim(claim);
        let seen = ClaimSeen {
            deleted_at: claim.deleting.unwrap_or(Timestamp::UNIX_EPOCH),
            termination_grace_period: claim.termination_grace_period.as_ref(),
            deadline: &claim.deadline,
            registered: claim.is_registered(),
            launched: claim.provider_id.is_some(),
            nodes: &nodes,
            shared_with: shared.map(|other| &*other.name),
            instance: &instance,
            instance_terminating: claim.is_instance_terminating(),
        };
        next_step(&seen)
    }

    pub(super) fn claim_pass(&mut self, name: &Arc<str>, now: Timestamp) {
        let key = Key::Claim(name.clone());
        let Some(claim) = self.cluster.claim(name).cloned() else { return };
        self.begin(&key, claim.traceparent.as_deref(), now);
        let (subject, _) = self.knowledge.of_claim(&claim);
        self.follow(&key, subject.as_ref());
        if !self.may_write(&key, now) {
            return;
        }
        let writes = self.writes.clone();
        let step = self.decide_claim(&claim);
        if let Some(stage) = stage(&step) {
            self.enter(&key, stage);
        }
        match step {
            ClaimStep::StampDeadline(deadline) => {
                self.events.deadline_of_claim(&claim, deadline);
                self.write(&key, "deadline", async move {
                    let stamped = writes.stamp_deadline(&claim, deadline).await?;
                    Ok(vec![Fact::Claim(Change::Applied(Arc::new(stamped)))])
                });
            }
            ClaimStep::DeleteNodes(names) => {
                let nodes: Vec<_> =
                    names.iter().filter_map(|name| self.cluster.node(name).cloned()).collect();
                self.write(&key, "delete nodes", async move {
                    let mut deleting = Vec::new();
                    for node in nodes {
                        let node = writes.delete_node(&node.name, &node.uid).await?;
                        deleting.extend(node.map(|node| Fact::Node(Change::Applied(Arc::new(node)))));
                    }
                    Ok(deleting)
                });
            }
            ClaimStep::LookForInstance => {
                if let Some(subject) = subject {
                    self.wish(&key, subject, Wish::Look, Some(&claim), now);
                }
            }
            ClaimStep::EndInstance => {
                if let Some(subject) = subject {
                    self.wish(&key, subject, Wish::End, Some(&claim), now);
                }
            }
            ClaimStep::AwaitInstance { mark: true } => {
                self.write(&key, "conditions", async move {
                    let written = writes.set_conditions(&claim, &[Mark::InstanceTerminating], now).await?;
                    Ok(vec![Fact::Claim(Change::Applied(Arc::new(written)))])
                });
            }
            ClaimStep::Hold(why) => {
                if self.may_tell(&key, "hold", now) {
                    self.events.untouchable(None, Some(&claim), &why);
                }
            }
            ClaimStep::Release { kept_by } => {
                if let Some(other) = &kept_by {
                    self.events.shared_instance(&claim, other);
                }
                self.release_claim(&key, claim, now);
            }
            ClaimStep::AwaitNodes => {
                let held = self.nodes_held_by_others(&claim);
                if !held.is_empty() && self.may_tell(&key, "finalizers", now) {
                    held.iter().for_each(|node| self.events.claim_waits_for_node(&claim, node));
                }
            }
            ClaimStep::AwaitInstance { mark: false } => {}
        }
    }

    /// Nodes of the claim that we are done with and that somebody else's finalizer keeps.
    pub(super) fn nodes_held_by_others(&self, claim: &Claim) -> Vec<Arc<NodeState>> {
        let mut nodes = self.cluster.nodes_with(claim.provider_id.as_deref().unwrap_or_default());
        nodes.retain(|node| node.deleting.is_some() && !node.has_finalizer());
        nodes
    }

    fn release_claim(&mut self, key: &Key, claim: Arc<Claim>, now: Timestamp) {
        let (writes, metrics, events) = (self.writes.clone(), self.metrics.clone(), self.events.clone());
        self.write(key, "release nodeclaim", async move {
            let released = writes.release_claim(&claim).await?;
            let others = claim.finalizers_without_ours();
            if !others.is_empty() {
                events.claim_held_by_others(&claim, &others);
            }
            let pool = || Pool { nodepool: claim.nodepool.to_string() };
            let labels = ClaimLabels {
                nodepool: claim.nodepool.to_string(),
                capacity_type: claim.capacity_type.to_string(),
                zone: claim.zone.to_string(),
            };
            metrics.claims_terminated.get_or_create(&labels).inc();
            let took = seconds(claim.deleting.unwrap_or(now), Timestamp::now());
            metrics.claim_termination.get_or_create(&pool()).observe(took);
            if let Some(since) = claim.since(INSTANCE_TERMINATING) {
                metrics.instance_termination.get_or_create(&pool()).observe(seconds(since, Timestamp::now()));
            }
            let provider = claim.provider_id.as_deref().unwrap_or_default();
            info!(nodeclaim = %claim.name, node = claim.node_name, provider_id = provider, "deleted nodeclaim");
            Ok(vec![after_release(released)])
        });
    }
}

fn stage(step: &ClaimStep) -> Option<&'static str> {
    match step {
        ClaimStep::StampDeadline(_) | ClaimStep::DeleteNodes(_) | ClaimStep::AwaitNodes => Some("nodes go"),
        ClaimStep::LookForInstance
        | ClaimStep::EndInstance
        | ClaimStep::AwaitInstance { .. }
        | ClaimStep::Hold(_) => Some("instance ends"),
        ClaimStep::Release { .. } => None,
    }
}

fn after_release(claim: NodeClaim) -> Fact {
    let last = claim.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let claim = Arc::new(claim);
    Fact::Claim(if last { Change::Deleted(claim) } else { Change::Applied(claim) })
}

//! One look at a node that leaves: what `policy::drain::node` decides, carried out.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use policy::drain::Deadline;
use policy::drain::node::{ClaimOfNode, Mark, NodeDecision, NodeSeen, NodeStep, next_step};
use runtime::watch::Change;
use tracing::info;

use super::Actor;
use crate::cluster::{Claim, Fact, Key, NodeState};
use crate::instances::Wish;
use crate::metrics::{Pool, PoolZone};

impl Actor {
    /// What comes next for a node that leaves.
    pub(super) fn decide_node(
        &self,
        node: &NodeState,
        claim: Option<&Claim>,
        now: Timestamp,
    ) -> NodeDecision {
        let (pods, attachments) = (self.cluster.pods_on(&node.name), self.cluster.attachments_of(&node.name));
        let (_, instance) = self.knowledge.of_node(node.provider_id.as_deref());
        let seen = NodeSeen {
            ready: node.ready,
            tainted: node.is_tainted(),
            claim: claim.map(|claim| ClaimOfNode {
                deleting: claim.deleting.is_some(),
                deadline: &claim.deadline,
                drained: claim.drained(),
                volumes: claim.volumes(),
                instance_terminating: claim.is_instance_terminating(),
            }),
            pods: &pods,
            attachments: &attachments,
            instance: &instance,
        };
        next_step(&seen, now)
    }

    pub(super) fn node_pass(&mut self, name: &Arc<str>, now: Timestamp) {
        let key = Key::Node(name.clone());
        let Some(node) = self.cluster.node(name).cloned() else { return };
        let claim = self.cluster.claim_of(&node);
        let traceparent = claim.as_ref().and_then(|claim| claim.traceparent.clone());
        let traceparent = traceparent.or_else(|| node.traceparent.clone());
        self.begin(&key, traceparent.as_deref(), now);
        let (subject, _) = self.knowledge.of_node(node.provider_id.as_deref());
        self.follow(&key, subject.as_ref());
        self.tell_deadline(&key, &node, claim.as_deref(), now);
        if claim.is_none() && self.may_tell(&key, "claim", now) {
            let claims = self.cluster.claims_with(node.provider_id.as_deref().unwrap_or_default());
            self.events.no_claim(&node, &claims);
        }

        let decision = self.decide_node(&node, claim.as_deref(), now);
        if let Some(at) = decision.look_again {
            self.schedule.at(key.clone(), at);
        }
        if let Some(stage) = stage(&decision.step) {
            self.enter(&key, stage);
        }
        // Pods leave beside the conditions; every other step waits until these are written.
        match &decision.step {
            NodeStep::Pods(plan) => self.pods_leave(&node, claim.as_deref(), plan, now),
            _ => self.evictions.want(&self.cluster, name, &[], now),
        }
        if !self.may_write(&key, now) {
            return;
        }
        if let (false, Some(claim)) = (decision.marks.is_empty(), &claim) {
            self.mark(&key, claim, decision.marks, now);
            return;
        }
        self.node_step(&key, node, claim, decision.step, now);
    }

    fn tell_deadline(&mut self, key: &Key, node: &NodeState, claim: Option<&Claim>, now: Timestamp) {
        let Some(claim) = claim.filter(|claim| claim.deadline != Deadline::None) else { return };
        if !self.may_tell(key, "deadline", now) {
            return;
        }
        match &claim.deadline {
            Deadline::At(at) => self.events.deadline_of_node(node, *at),
            Deadline::Unreadable(text) => self.events.unreadable_deadline(claim, text),
            Deadline::None => {}
        }
    }

    fn mark(&mut self, key: &Key, claim: &Arc<Claim>, marks: Vec<Mark>, now: Timestamp) {
        let (writes, claim, metrics) = (self.writes.clone(), Arc::clone(claim), self.metrics.clone());
        self.write(key, "conditions", async move {
            let written = writes.set_conditions(&claim, &marks, now).await?;
            if marks.contains(&Mark::Drained) {
                metrics.nodes_drained.get_or_create(&Pool { nodepool: claim.nodepool.to_string() }).inc();
            }
            Ok(vec![Fact::Claim(Change::Applied(Arc::new(written)))])
        });
    }

    fn node_step(
        &mut self,
        key: &Key,
        node: Arc<NodeState>,
        claim: Option<Arc<Claim>>,
        step: NodeStep,
        now: Timestamp,
    ) {
        let writes = self.writes.clone();
        match step {
            NodeStep::DeleteClaim => {
                let Some(claim) = claim else { return };
                info!(node = %node.name, nodeclaim = %claim.name, "node was deleted; deleting its nodeclaim");
                self.write(key, "delete nodeclaim", async move {
                    let deleting = writes.delete_claim(&claim.name, &claim.uid).await?;
                    Ok(deleting
                        .map(|claim| Fact::Claim(Change::Applied(Arc::new(claim))))
                        .into_iter()
                        .collect())
                });
            }
            NodeStep::LookAtInstance => {
                if let (Some(subject), known) = self.knowledge.of_node(node.provider_id.as_deref())
                    && known == policy::drain::Instance::Unasked
                {
                    self.wish(key, subject, Wish::Look, claim.as_deref(), now);
                }
            }
            NodeStep::Taint => {
                let began = node.deleting.unwrap_or(now);
                let began = claim.as_ref().and_then(|claim| claim.deleting).map_or(began, |at| at.min(began));
                let metrics = self.metrics.clone();
                self.write(key, "taint", async move {
                    let tainted = writes.taint(&node).await?;
                    metrics.taint_delay.observe(seconds(began, Timestamp::now()));
                    info!(node = %node.name, taint = "karpenter.sh/disrupted:NoSchedule", "tainted node");
                    Ok(vec![Fact::Node(Change::Applied(Arc::new(tainted)))])
                });
            }
            NodeStep::AwaitVolumes(attachments) => {
                if self.may_tell(key, "volumes", now) {
                    let names: Vec<String> = attachments.iter().map(|one| one.name.to_string()).collect();
                    self.events.volumes(&node, &names);
                }
            }
            NodeStep::EndInstance => {
                if let (Some(subject), _) = self.knowledge.of_node(node.provider_id.as_deref()) {
                    self.wish(key, subject, Wish::End, claim.as_deref(), now);
                }
            }
            NodeStep::Hold(why) => {
                if self.may_tell(key, "hold", now) {
                    self.events.untouchable(Some(&node), claim.as_deref(), &why);
                }
            }
            NodeStep::Release => self.release_node(key, node, now),
            NodeStep::Pods(_) | NodeStep::Settle | NodeStep::AwaitInstance => {}
        }
    }

    fn release_node(&mut self, key: &Key, node: Arc<NodeState>, now: Timestamp) {
        let (writes, metrics, events) = (self.writes.clone(), self.metrics.clone(), self.events.clone());
        self.write(key, "release node", async move {
            let released = writes.release_node(&node).await?;
            let others = node.finalizers_without_ours();
            if !others.is_empty() {
                events.node_held_by_others(&node, &others);
            }
            let pool = node.nodepool.to_string();
            metrics
                .nodes_terminated
                .get_or_create(&PoolZone { nodepool: pool.clone(), zone: node.zone.to_string() })
                .inc();
            metrics.node_termination.observe(&pool, seconds(node.deleting.unwrap_or(now), Timestamp::now()));
            metrics
                .node_lifetime
                .get_or_create(&Pool { nodepool: pool })
                .observe(seconds(node.created, Timestamp::now()));
            info!(node = %node.name, "deleted node");
            Ok(vec![after_release(released)])
        });
    }
}

/// The name of the span that a step is part of; releasing is part of whatever came before it.
fn stage(step: &NodeStep) -> Option<&'static str> {
    match step {
        NodeStep::DeleteClaim | NodeStep::LookAtInstance | NodeStep::Taint => Some("taint"),
        NodeStep::Pods(_) | NodeStep::Settle => Some("pods leave"),
        NodeStep::AwaitVolumes(_) => Some("volumes detach"),
        NodeStep::EndInstance | NodeStep::AwaitInstance | NodeStep::Hold(_) => Some("instance ends"),
        NodeStep::Release => None,
    }
}

/// Our finalizer was the last: the object is gone. Otherwise others still hold it.
fn after_release(node: Node) -> Fact {
    let last = node.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let node = Arc::new(node);
    Fact::Node(if last { Change::Deleted(node) } else { Change::Applied(node) })
}

/// Never negative: clocks differ.
pub(super) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

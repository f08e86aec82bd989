//! One look at a node that leaves: what `policy::drain::node` decides, carried out.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use policy::drain::Deadline;
use policy::drain::leaving::Leaving;
use policy::drain::node::{ClaimOfNode, Mark, NodeDecision, NodeSeen, NodeStep, next_step};
use runtime::watch::Change;
use tracing::info;

use super::{Actor, Done};
use crate::instances::Wish;
use crate::metrics::{Pool, PoolZone, Reason};
use crate::world::{Claim, Fact, Key, NodeState};

impl Actor {
    /// What comes next for a node that leaves.
    pub(super) fn decide_node(
        &self,
        node: &NodeState,
        claim: Option<&Claim>,
        now: Timestamp,
    ) -> NodeDecision {
        let (pods, attachments) = (self.world.pods_on(&node.name), self.world.attachments_of(&node.name));
        let (_, instance) = self.instance(node.provider_id.as_deref());
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
        let Some(node) = self.world.node(name).cloned() else { return };
        let claim = self.world.claim_of(&node);
        let traceparent = claim.as_ref().and_then(|claim| claim.traceparent.clone());
        let traceparent = traceparent.or_else(|| node.traceparent.clone());
        self.work(&key, traceparent.as_deref(), now);
        self.tell_deadline(&key, &node, claim.as_deref(), now);

        let decision = self.decide_node(&node, claim.as_deref(), now);
        if let Some(at) = decision.look_again {
            self.schedule.at(key.clone(), at);
        }
        // Pods leave beside the conditions; every other step waits until these are written.
        match &decision.step {
            NodeStep::Pods(plan) => self.pods_leave(&node, claim.as_deref(), plan, now),
            _ => self.evictions.want(name, &[], now),
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
        if marks.contains(&Mark::Drained) {
            self.metrics.nodes_drained.get_or_create(&Pool { nodepool: claim.nodepool.to_string() }).inc();
        }
        let (writes, claim) = (self.writes.clone(), Arc::clone(claim));
        self.write(key, "conditions", async move {
            let written = writes.set_conditions(&claim, &marks, now).await?;
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
                    writes.delete_claim(&claim.name, &claim.uid).await?;
                    Ok(Vec::new())
                });
                // The watch brings the deletion; until then there is nothing to do again.
                self.rest(key, now);
            }
            NodeStep::LookAtInstance => {
                if let (Some(subject), known) = self.instance(node.provider_id.as_deref())
                    && known == policy::drain::Instance::Unasked
                {
                    self.wish(key, subject, Wish::Look, now);
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
                if let (Some(subject), _) = self.instance(node.provider_id.as_deref()) {
                    self.wish(key, subject, Wish::End, now);
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
        let (writes, metrics) = (self.writes.clone(), self.metrics.clone());
        self.write(key, "release node", async move {
            let released = writes.release_node(&node).await?;
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

    /// Asks the evictable ones to leave and deletes those that the deadline does not spare.
    fn pods_leave(&mut self, node: &Arc<NodeState>, claim: Option<&Claim>, plan: &Leaving, now: Timestamp) {
        let key = Key::Node(node.name.clone());
        let awaited = self.world.pods_on(&node.name);
        if let Some(work) = self.work.get_mut(&key) {
            work.pods.extend(awaited.iter().filter(|pod| pod.is_awaited(now)).map(|pod| pod.uid.clone()));
        }
        self.evictions.want(&node.name, &plan.evict, now);
        if !plan.evict.is_empty() {
            self.next_round.get_or_insert(now);
        }
        if plan.evict.is_empty() && plan.delete.is_empty() && self.may_tell(&key, "pods", now) {
            self.events.pods_waiting(node, plan.awaited);
        }
        let deadline = claim.and_then(|claim| claim.deadline.at());
        for (pod, grace) in &plan.delete {
            if self.deleting.contains_key(&pod.uid) {
                continue;
            }
            self.deleting.insert(pod.uid.clone(), *grace);
            let reason = self.reason_of(&node.name);
            let (writes, pod, grace) = (self.writes.clone(), Arc::clone(pod), *grace);
            let (events, metrics, node) = (self.events.clone(), self.metrics.clone(), node.name.clone());
            self.tasks.spawn(async move {
                let result = writes.delete_pod(&pod, grace).await;
                if result.is_ok() {
                    info!(pod = pod.key(), grace, "deleted pod for the deadline of its node");
                    metrics.pods_drained.get_or_create(&Reason { reason }).inc();
                    if let Some(deadline) = deadline {
                        events.deleted_for_deadline(&pod, deadline, grace);
                    }
                }
                Done::Deleted { pod, node, result }
            });
        }
    }

    /// No write for this object for a moment: what was just asked for arrives by the watch.
    pub(super) fn rest(&mut self, key: &Key, now: Timestamp) {
        if let Some(work) = self.work.get_mut(key) {
            work.not_before = policy::drain::time::plus_seconds(now, 1);
        }
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

//! One look at a claim that leaves: what `policy::drain::claim` decides, carried out.

use std::sync::Arc;

use api::NodeClaim;
use jiff::Timestamp;
use policy::drain::Instance;
use policy::drain::claim::{ClaimSeen, ClaimStep, next_step};
use policy::drain::node::Mark;
use runtime::watch::Change;
use tracing::info;

use super::Actor;
use super::node_pass::seconds;
use crate::instances::{Subject, Wish};
use crate::metrics::{ClaimLabels, Pool};
use crate::world::{Claim, Fact, INSTANCE_TERMINATING, Key};

impl Actor {
    /// The instance of a claim: by its id, or by the claim's name where the id was never noted.
    fn instance_of(&self, claim: &Claim) -> (Option<Subject>, Instance) {
        if claim.provider_id.is_some() {
            return self.instance(claim.provider_id.as_deref());
        }
        let subject = Subject::OfClaim(claim.name.clone());
        let known = self.known.get(&subject).cloned().unwrap_or_default();
        (Some(subject), known)
    }

    pub(super) fn decide_claim(&self, claim: &Claim) -> ClaimStep {
        let provider_id = claim.provider_id.as_deref().unwrap_or_default();
        let nodes: Vec<(Arc<str>, bool)> = self
            .world
            .nodes_with(provider_id)
            .iter()
            .map(|node| (node.name.clone(), node.deleting.is_some()))
            .collect();
        let others = self.world.claims_with(provider_id);
        let shared = others.iter().find(|other| other.name != claim.name && other.deleting.is_none());
        let (_, instance) = self.instance_of(claim);
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
        let Some(claim) = self.world.claim(name).cloned() else { return };
        self.work(&key, claim.traceparent.as_deref(), now);
        if !self.may_write(&key, now) {
            return;
        }
        let writes = self.writes.clone();
        match self.decide_claim(&claim) {
            ClaimStep::StampDeadline(deadline) => {
                self.events.deadline_of_claim(&claim, deadline);
                self.write(&key, "deadline", async move {
                    let stamped = writes.stamp_deadline(&claim, deadline).await?;
                    Ok(vec![Fact::Claim(Change::Applied(Arc::new(stamped)))])
                });
            }
            ClaimStep::DeleteNodes(names) => {
                let nodes: Vec<_> = names.iter().filter_map(|name| self.world.node(name).cloned()).collect();
                self.write(&key, "delete nodes", async move {
                    for node in nodes {
                        writes.delete_node(&node.name, &node.uid).await?;
                    }
                    Ok(Vec::new())
                });
                self.rest(&key, now);
            }
            ClaimStep::LookForInstance => {
                self.wish(&key, Subject::OfClaim(claim.name.clone()), Wish::Look, now);
            }
            ClaimStep::EndInstance => {
                if let (Some(subject), _) = self.instance_of(&claim) {
                    self.wish(&key, subject, Wish::End, now);
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
            ClaimStep::AwaitNodes | ClaimStep::AwaitInstance { mark: false } => {}
        }
    }

    fn release_claim(&mut self, key: &Key, claim: Arc<Claim>, now: Timestamp) {
        let (writes, metrics) = (self.writes.clone(), self.metrics.clone());
        self.write(key, "release nodeclaim", async move {
            let released = writes.release_claim(&claim).await?;
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

fn after_release(claim: NodeClaim) -> Fact {
    let last = claim.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let claim = Arc::new(claim);
    Fact::Claim(if last { Change::Deleted(claim) } else { Change::Applied(claim) })
}

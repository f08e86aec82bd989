//! Garbage collection both ways, while this replica leads: instances of ours that no claim wants are ended, claims whose
//! instance is gone are deleted, and so are nodes that have neither. The rules are `policy::drain::collect`; an error
//! anywhere ends the look without a verdict.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use cloud::Terminator;
use cloud::instance::{BATCH_TAG, Instance, NODECLAIM_TAG, id_of_provider, ours};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use policy::drain::collect::{Abandoned, ClaimRef, InstanceSeen, NodeRef, Unwanted, is_lost, missing};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cluster::Claim;
use crate::events::Events;
use crate::metrics::{Disrupted, Metrics};
use crate::removal::Removals;
use crate::writes::Writes;

/// After a start things may lie about; soon only rarely.
const OFTEN: Duration = Duration::from_secs(10);
const OFTEN_LOOKS: u32 = 20;
const PAGE: u32 = 500;

#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) cloud: Arc<dyn Terminator>,
    pub(crate) cluster: String,
    pub(crate) client: Client,
    pub(crate) writes: Writes,
    pub(crate) removals: Removals,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
    pub(crate) rarely: Duration,
}

/// What earlier looks made us suspect; an error clears it, so that everything must be seen twice anew.
#[derive(Default)]
struct Suspects {
    instances: Unwanted,
    nodes: Abandoned,
}

impl Collector {
    /// One term of leadership.
    pub(crate) async fn run(self, lost: CancellationToken) -> anyhow::Result<()> {
        let mut suspects = Suspects::default();
        let mut looks = 0;
        loop {
            let pause = if looks < OFTEN_LOOKS { OFTEN.min(self.rarely) } else { self.rarely };
            tokio::select! {
                biased;
                () = lost.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            let look = self.look(&mut suspects);
            let outcome = tokio::select! {
                biased;
                () = lost.cancelled() => return Ok(()),
                outcome = look => outcome,
            };
            match outcome {
                Ok(()) => looks += 1,
                Err(error) => {
                    suspects = Suspects::default();
                    warn!(error = format!("{error:#}"), "no garbage collected this time");
                }
            }
        }
    }

    async fn look(&self, suspects: &mut Suspects) -> anyhow::Result<()> {
        // Instances first: a claim written after this look is then in the list of claims.
        let listed = self.cloud.instances_by_tags(ours(&self.cluster)).await?;
        let claims = self.claims().await?;
        let now = Timestamp::now();
        let instances: Vec<InstanceSeen> = listed.iter().map(seen).collect();
        let refs: Vec<ClaimRef> = claims.iter().map(reference).collect();
        self.end_unwanted(&suspects.instances.look(&instances, &refs, now), &listed).await;
        self.delete_abandoned(&mut suspects.nodes, &instances, &refs).await?;
        self.delete_lost(missing(&refs, &instances, now), &claims).await
    }

    /// All claims, from the API server itself: the watch may lag behind a launch.
    async fn claims(&self) -> anyhow::Result<Vec<Claim>> {
        let api: Api<NodeClaim> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = api.list(&params).await?;
            all.extend(page.items.iter().filter_map(Claim::of));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    async fn end_unwanted(&self, ids: &[String], listed: &[Instance]) {
        let provable: BTreeSet<&str> = listed
            .iter()
            .filter(|instance| instance.belongs_to(&self.cluster))
            .map(|i| i.id.as_str())
            .collect();
        let ids: Vec<String> = ids.iter().filter(|id| provable.contains(id.as_str())).cloned().collect();
        if ids.is_empty() {
            return;
        }
        let mut ended = Vec::new();
        for (id, result) in self.cloud.terminate(ids).await {
            match result {
                Ok(_) => {
                    info!(instance = id, "garbage collected instance: no nodeclaim wants it");
                    self.metrics.instances_collected.inc();
                    ended.push(id);
                }
                Err(error) => {
                    warn!(%error, instance = id, "instance without nodeclaim not ended; trying again")
                }
            }
        }
        for (name, uid) in self.removals.nodes_on(ended).await.unwrap_or_default() {
            match self.writes.delete_node(&name, &uid).await {
                Ok(_) => info!(node = %name, "garbage collected node of an instance without nodeclaim"),
                Err(error) => warn!(%error, node = %name, "node of an ended instance not deleted"),
            }
        }
    }

    /// Nodes left over by a claim that went before it registered: with a cloud controller these go by themselves, without
    /// one nobody would ever take them away.
    async fn delete_abandoned(
        &self,
        suspects: &mut Abandoned,
        instances: &[InstanceSeen],
        claims: &[ClaimRef],
    ) -> anyhow::Result<()> {
        let Some(nodes) = self.removals.claimless().await else { return Ok(()) };
        let refs: Vec<NodeRef> = nodes
            .iter()
            .filter_map(|node| {
                let instance = node.provider_id.as_deref().and_then(id_of_provider)?.to_owned();
                Some(NodeRef { name: node.name.to_string(), uid: node.uid.to_string(), instance })
            })
            .collect();
        let abandoned = suspects.look(&refs, instances, claims);
        if abandoned.is_empty() {
            return Ok(());
        }
        let alive = self.alive(abandoned.iter().map(|node| node.instance.clone()).collect()).await?;
        for node in abandoned.into_iter().filter(|node| !alive.contains(&node.instance)) {
            self.writes.delete_node(&node.name, &node.uid).await?;
            info!(node = node.name, "garbage collected node: neither nodeclaim nor instance is left");
        }
        Ok(())
    }

    /// Those of the instances that a direct question finds, and not on their way out.
    async fn alive(&self, ids: Vec<String>) -> anyhow::Result<BTreeSet<String>> {
        let found = self.cloud.instances_by_id(ids).await?;
        Ok(found.into_iter().filter(|instance| !instance.state.is_ending()).map(|i| i.id).collect())
    }

    async fn delete_lost(&self, candidates: Vec<&ClaimRef>, claims: &[Claim]) -> anyhow::Result<()> {
        if candidates.is_empty() {
            return Ok(());
        }
        let alive =
            self.alive(candidates.iter().filter_map(|claim| claim.instance.clone()).collect()).await?;
        let by_name = |reference: &ClaimRef| claims.iter().find(|claim| *claim.name == *reference.name);
        let lost: Vec<(&ClaimRef, &Claim)> = candidates
            .into_iter()
            .filter_map(|reference| Some((reference, by_name(reference)?)))
            .filter(|(_, claim)| claim.managed)
            .collect();
        let providers = lost.iter().map(|(_, claim)| claim.provider_id.clone().unwrap_or_default()).collect();
        let Some(nodes) = self.removals.nodes_of(providers).await else { return Ok(()) };
        for ((reference, claim), node) in lost.into_iter().zip(nodes) {
            let present = reference.instance.as_ref().map(|id| alive.contains(id));
            if !is_lost(present, node) {
                continue;
            }
            self.writes.delete_claim(&claim.name, &claim.uid).await?;
            info!(nodeclaim = %claim.name, provider_id = claim.provider_id.as_deref(), "garbage collected nodeclaim: its instance is gone");
            self.events.claim_collected(claim);
            let labels = Disrupted {
                reason: "garbage_collected",
                nodepool: claim.nodepool.to_string(),
                capacity_type: claim.capacity_type.to_string(),
            };
            self.metrics.claims_disrupted.get_or_create(&labels).inc();
        }
        Ok(())
    }
}

fn seen(instance: &Instance) -> InstanceSeen {
    InstanceSeen {
        id: instance.id.clone(),
        ending: instance.state.is_ending(),
        launched_at: instance.launched_at,
        claim: instance.tags.get(NODECLAIM_TAG).cloned(),
        batch: instance.tags.get(BATCH_TAG).cloned(),
    }
}

fn reference(claim: &Claim) -> ClaimRef {
    ClaimRef {
        name: claim.name.to_string(),
        instance: claim.provider_id.as_deref().and_then(id_of_provider).map(str::to_owned),
        batch: claim.batch.clone(),
        registered: claim.is_registered(),
        deleting: claim.deleting.is_some(),
        created_at: claim.created(),
    }
}

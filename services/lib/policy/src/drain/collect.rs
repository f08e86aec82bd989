//! Garbage collection both ways: instances of ours that no claim wants, claims whose instance is gone, and nodes that have
//! neither.
//!
//! All of them judge a complete look only. Whoever lists makes sure of that; an error is no look.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::time::seconds_between;

/// An instance younger than this may belong to a claim that is still being written.
pub const YOUNG_SECONDS: i64 = 30;
/// An instance must be unwanted in this many looks in a row.
const LOOKS: u32 = 2;

/// An instance with our tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSeen {
    pub id: String,
    /// Shutting down already.
    pub ending: bool,
    pub launched_at: Option<Timestamp>,
    /// Tag `karpenter.sh/nodeclaim`: the claim it was launched for.
    pub claim: Option<String>,
    /// Tag `karpenter.k8s.aws/launch-batch`: it was launched for one of these claims, and `claim` follows later.
    pub batch: Option<String>,
}

/// Any NodeClaim, being deleted or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    pub name: String,
    /// From its provider id.
    pub instance: Option<String>,
    /// Annotation `karpenter.k8s.aws/launch-batch`.
    pub batch: Option<String>,
    pub registered: bool,
    pub deleting: bool,
    pub created_at: Timestamp,
}

/// What earlier looks found; lives as long as the process leads.
#[derive(Clone, Debug, Default)]
pub struct Unwanted(BTreeMap<String, Suspicion>);

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    since: Timestamp,
    looks: u32,
}

impl Unwanted {
    /// Takes one complete look and returns the instances that nobody wants for good. `instances` must have been listed
    /// before `claims`: a claim written in between saves its instance.
    pub fn look(&mut self, instances: &[InstanceSeen], claims: &[ClaimRef], now: Timestamp) -> Vec<String> {
        let wanted: BTreeSet<&str> = claims.iter().filter_map(|claim| claim.instance.as_deref()).collect();
        // The launch of such a claim is not noted yet; the instance may be the one.
        let open = || claims.iter().filter(|claim| claim.instance.is_none());
        let expecting: BTreeSet<&str> = open().map(|claim| claim.name.as_str()).collect();
        let batches: BTreeSet<&str> = open().filter_map(|claim| claim.batch.as_deref()).collect();
        let unwanted = instances.iter().filter(|instance| {
            let expected = match (&instance.claim, &instance.batch) {
                (Some(claim), _) => expecting.contains(claim.as_str()),
                (None, Some(batch)) => batches.contains(batch.as_str()),
                (None, None) => false,
            };
            !instance.ending && !wanted.contains(instance.id.as_str()) && !expected
        });
        let mut still = BTreeMap::new();
        let mut judged = Vec::new();
        for instance in unwanted {
            let before = self.0.get(&instance.id).copied();
            let mut suspicion = before.unwrap_or(Suspicion { since: now, looks: 0 });
            suspicion.looks += 1;
            still.insert(instance.id.clone(), suspicion);
            if suspicion.looks >= LOOKS && is_old(instance, suspicion.since, now) {
                judged.push(instance.id.clone());
            }
        }
        self.0 = still;
        judged
    }
}

/// By EC2's clock, or by ours from when it was first seen where EC2's is absent or ahead of ours.
fn is_old(instance: &InstanceSeen, first_seen: Timestamp, now: Timestamp) -> bool {
    let since = match instance.launched_at {
        Some(launched) if launched <= now => launched,
        _ => first_seen,
    };
    seconds_between(since, now) > YOUNG_SECONDS
}

/// Claims whose instance is not in the listing: to be asked for one by one before [`is_lost`] judges. Claims that never
/// registered are left to the launch and registration timeouts.
pub fn missing<'a>(claims: &'a [ClaimRef], instances: &[InstanceSeen], now: Timestamp) -> Vec<&'a ClaimRef> {
    let alive: BTreeSet<&str> =
        instances.iter().filter(|instance| !instance.ending).map(|instance| instance.id.as_str()).collect();
    let is_missing = |claim: &&ClaimRef| {
        let gone = claim.instance.as_deref().is_some_and(|id| !alive.contains(id));
        let old = seconds_between(claim.created_at, now) > YOUNG_SECONDS;
        claim.registered && !claim.deleting && gone && old
    };
    claims.iter().filter(is_missing).collect()
}

/// What is known of the Node of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOfClaim {
    Ready,
    NotReady,
    /// None with that provider id, or several.
    NotOne,
    /// The lookup failed.
    Unknown,
}

/// The last word on a claim that is missing its instance. `present`: a direct question found it alive; `None` when that
/// question failed.
pub fn is_lost(present: Option<bool>, node: NodeOfClaim) -> bool {
    present == Some(false) && matches!(node, NodeOfClaim::NotReady | NodeOfClaim::NotOne)
}

/// A node of ours that is not ready and not being deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRef {
    pub name: String,
    pub uid: String,
    pub instance: String,
}

/// Nodes that the last look found without claim and instance.
#[derive(Clone, Debug, Default)]
pub struct Abandoned(BTreeSet<String>);

impl Abandoned {
    /// Takes one complete look and returns the nodes that had neither in two looks in a row; a direct question about the
    /// instance has the last word.
    pub fn look(
        &mut self,
        nodes: &[NodeRef],
        instances: &[InstanceSeen],
        claims: &[ClaimRef],
    ) -> Vec<NodeRef> {
        let claimed = claims.iter().filter_map(|claim| claim.instance.as_deref());
        // One that is shutting down still has something to say to its kubelet.
        let used: BTreeSet<&str> =
            claimed.chain(instances.iter().map(|instance| instance.id.as_str())).collect();
        let alone = |node: &&NodeRef| !used.contains(node.instance.as_str());
        let suspects: Vec<NodeRef> = nodes.iter().filter(alone).cloned().collect();
        let before = std::mem::replace(&mut self.0, suspects.iter().map(|node| node.uid.clone()).collect());
        suspects.into_iter().filter(|node| before.contains(&node.uid)).collect()
    }
}

//! From the cluster state to the questions of `policy`: a node with everything that its disruption depends on.

use std::sync::Arc;

use api::NodePool;
use api::disruption::ConsolidationPolicy;
use jiff::{SignedDuration, Timestamp};
use policy::candidate::{self, Consolidatable, Drifted, Leaving, Offering, Policy, Pool, PoolOf, Subject};

use crate::cluster::{Claim, ClusterState, DRIFTED, NodeState};
use crate::probe::Seen;

/// How long a promise to a pending pod may last: twice the longest batch. The provisioner only says that there is one.
const PROMISED: SignedDuration = SignedDuration::from_secs(20);

fn policy_of(pool: &NodePool) -> Policy {
    match pool.spec.disruption.consolidation_policy {
        ConsolidationPolicy::WhenEmpty => Policy::WhenEmpty,
        ConsolidationPolicy::Balanced => Policy::Balanced,
        _ => Policy::WhenEmptyOrUnderutilized,
    }
}

fn pool_of(cluster: &ClusterState, node: &NodeState) -> PoolOf {
    let Some(name) = &node.pool else { return PoolOf::NoLabel };
    match cluster.pool(name) {
        None => PoolOf::Missing(Arc::clone(name)),
        Some(pool) => PoolOf::Known(Arc::new(Pool {
            name: Arc::clone(name),
            fixed_size: pool.is_static(),
            consolidate_after: pool.spec.disruption.consolidate_after.clone(),
            policy: policy_of(pool),
            types_unknown: None,
        })),
    }
}

fn claim_of(claim: &Claim, not_before: Option<Timestamp>) -> candidate::Claim {
    let drifted = api::conditions::find(&claim.conditions, DRIFTED).filter(|_| claim.is_drifted());
    candidate::Claim {
        name: Arc::clone(&claim.name),
        created: claim.created,
        expire_after: claim.expire_after.clone(),
        termination_grace_period: claim.termination_grace_period.clone(),
        consolidatable: match (claim.is_consolidatable(), not_before) {
            (true, _) => Consolidatable::Yes,
            (false, Some(at)) => Consolidatable::NotBefore(at),
            (false, None) => Consolidatable::No,
        },
        drifted: drifted.map(|condition| Drifted {
            reason: condition.reason.clone(),
            since: condition.last_transition_time.0,
        }),
    }
}

/// `command` is the one it is part of, as far as that should count; `not_before` when it will be consolidatable.
pub(crate) fn subject(
    cluster: &ClusterState,
    node: &NodeState,
    seen: Option<&Seen>,
    command: Option<Arc<str>>,
    not_before: Option<Timestamp>,
    now: Timestamp,
) -> Subject {
    let claim = cluster.claim_of(node).filter(|claim| claim.managed);
    let leaving = match claim {
        Some(claim) if claim.is_instance_terminating() => Some(Leaving::InstanceTerminating),
        Some(claim) if claim.deleting => Some(Leaving::ClaimDeleted),
        _ if node.deleting => Some(Leaving::NodeDeleted),
        _ => None,
    };
    let nominated = seen.is_some_and(|seen| seen.nominated);
    Subject {
        node: Some(Arc::clone(&node.name)),
        claim: claim.map(|claim| claim_of(claim, not_before)),
        conflicting_claims: cluster.conflicting_claims(node),
        command,
        initialized: node.initialized,
        leaving,
        nominated_until: nominated.then(|| policy::drain::time::plus(now, PROMISED)),
        do_not_disrupt: node.do_not_disrupt,
        foreign_taint: node.foreign_taint.clone(),
        pool: pool_of(cluster, node),
        offering: Offering {
            instance_type: node.instance_type.clone(),
            type_known: node.instance_type.is_some(),
            capacity_type: node.capacity_type.clone(),
            zone: node.zone.clone(),
            price: seen.and_then(|seen| seen.price),
        },
        pods: cluster.pods_on(&node.name).map(|pod| Arc::clone(&pod.resident)).collect(),
        buffer_pods: u32::from(seen.is_some_and(|seen| seen.holds_buffers)),
    }
}

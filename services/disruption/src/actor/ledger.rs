//! The ledger of savings: what commands promised, what they realised after their pods run again, and the backoff of pools where that is
//! less than half.
//!
//! A node counts as bought because of a command when its NodeClaim was created for pending pods after the command began to delete, and a
//! pod of a workload that the command moved runs on it. Two commands never pay for one node.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use policy::Reason;
use policy::churn::{Account, Backoff, Realised};
use tracing::{info, warn};

use super::{Actor, plus};
use crate::cluster::Claim;

/// Between two looks at open accounts.
const AUDIT_EVERY: SignedDuration = SignedDuration::from_secs(2);
/// Labels that tell the pods of one workload apart.
const OF_ONE_POD: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
];

#[derive(Default)]
pub(super) struct Ledger {
    open: BTreeMap<Arc<str>, Open>,
    next: Option<Timestamp>,
    /// Pools whose commands did not realise their savings, and what the last of them came to.
    pub(super) backoff: Backoff,
    pub(super) last: BTreeMap<Arc<str>, Realised>,
}

/// A command whose account is open.
struct Open {
    account: Account,
    pools: BTreeSet<Arc<str>>,
    /// Name and uid of the NodeClaims that it removes.
    claims: Vec<(Arc<str>, Arc<str>)>,
    workloads: HashSet<u64>,
    text: String,
}

/// Pods of one workload have the same labels.
fn workload(pod: &policy::drain::Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    pod.namespace.hash(&mut hasher);
    let shared = pod.labels.iter().filter(|(key, _)| !OF_ONE_POD.contains(&key.as_str()));
    shared.for_each(|label| label.hash(&mut hasher));
    hasher.finish()
}

impl Actor {
    /// Its NodeClaims are being deleted: from now on it is seen what that is worth.
    pub(super) fn open_account(&mut self, id: &Arc<str>, now: Timestamp) {
        let Some(command) = self.commands.get(id) else { return };
        if command.reason() != Reason::Underutilized {
            return;
        }
        let pods = command.members().iter().flat_map(|member| self.cluster.pods_on(&member.node));
        let moved = pods.filter(|pod| pod.resident.is_reschedulable());
        let open = Open {
            account: Account::new(command.proposal.saving, now),
            pools: command.members().iter().map(|member| Arc::clone(&member.pool)).collect(),
            claims: command
                .members()
                .iter()
                .map(|member| (Arc::clone(&member.claim), Arc::clone(&member.claim_uid)))
                .collect(),
            workloads: moved.map(|pod| workload(&pod.resident.pod)).collect(),
            text: command.text(),
        };
        self.ledger.open.insert(Arc::clone(id), open);
    }

    pub(super) fn audit(&mut self, now: Timestamp) {
        if self.ledger.open.is_empty() || self.ledger.next.is_some_and(|next| now < next) {
            return;
        }
        self.ledger.next = Some(plus(now, AUDIT_EVERY));
        let first = self.ledger.open.values().map(|open| open.account.since()).min();
        // Creation times have whole seconds.
        let since = first.map_or(now, |at| plus(at, SignedDuration::from_secs(-1)));
        let bought: Vec<Arc<Claim>> = self
            .cluster
            .claims()
            .filter(|claim| claim.made_for.is_none() && claim.note.is_none() && !claim.deleting)
            .filter(|claim| claim.created >= since)
            .cloned()
            .collect();
        let launching = bought.iter().any(|claim| !claim.is_initialized());
        for claim in &bought {
            let Some(node) = self.cluster.node_of(claim) else { continue };
            let Some(price) = self.seen.get(&node.name).and_then(|seen| seen.price) else { continue };
            let here: HashSet<u64> =
                self.cluster.pods_on(&node.name).map(|pod| workload(&pod.resident.pod)).collect();
            let causes = |open: &&mut Open| {
                claim.created >= plus(open.account.since(), SignedDuration::from_secs(-1))
                    && !open.workloads.is_disjoint(&here)
            };
            if let Some(open) = self.ledger.open.values_mut().find(causes) {
                open.account.charge(&claim.name, price);
            }
        }
        let mut closed = Vec::new();
        for (id, open) in &mut self.ledger.open {
            let gone = |(claim, uid): &(Arc<str>, Arc<str>)| {
                self.cluster.claim(claim).is_none_or(|claim| claim.uid != *uid)
            };
            let removed = open.claims.iter().all(gone);
            closed.extend(
                open.account.close(removed, launching, now).map(|realised| (Arc::clone(id), realised)),
            );
        }
        for (id, realised) in closed {
            if let Some(open) = self.ledger.open.remove(&id) {
                self.settle_account(&id, &open, realised, now);
            }
        }
    }

    fn settle_account(&mut self, id: &Arc<str>, open: &Open, realised: Realised, now: Timestamp) {
        let Realised { promised, saving, extra_nodes } = realised;
        self.metrics.promised_savings.inc_by(promised.to_f64().max(0.0));
        self.metrics.missed_savings.inc_by((promised - saving).to_f64().max(0.0));
        self.metrics.extra_nodes.inc_by(u64::from(extra_nodes));
        if let Some(command) = self.ended.iter_mut().find(|command| command.id == *id) {
            command.realised = Some(realised);
        }
        self.changed();
        if realised.is_kept() {
            info!(command = %id, %promised, realised = %saving, extra_nodes, "savings realised");
            open.pools.iter().for_each(|pool| self.ledger.backoff.succeeded(pool));
            return;
        }
        warn!(command = open.text, %promised, realised = %saving, extra_nodes, "less than half of the promised savings");
        for pool in &open.pools {
            let jitter = self.random();
            let until = self.ledger.backoff.failed(pool, jitter, now);
            self.ledger.last.insert(Arc::clone(pool), realised);
            if let Some(object) = self.cluster.pool(pool) {
                self.events.savings_missed(object, &open.text, realised, until);
            }
        }
    }

    /// Until when a pool is not consolidated because its commands did not realise their savings, and why.
    pub(super) fn unrealised_until(&self, pool: &str, now: Timestamp) -> Option<(Timestamp, String)> {
        let until = self.ledger.backoff.resting_until(pool, now)?;
        let last = self.ledger.last.get(pool);
        let figures = last.map(|last| format!(": ${} an hour of ${}", last.saving, last.promised));
        Some((
            until,
            format!(
                "its last consolidation realised less than half of its saving{}",
                figures.unwrap_or_default()
            ),
        ))
    }
}

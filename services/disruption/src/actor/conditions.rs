//! What the objects say about each claim, written into its conditions: Consolidatable and Drifted, and the time of the last
//! pod event. Claims whose time is over, and nodes that are beyond repair, are removed from here, too.

use std::sync::Arc;

use api::conditions::{self, Finding};
use jiff::{SignedDuration, Timestamp};
use model::labels;
use policy::candidate::Consolidatable;
use policy::condition::consolidatable::{self, Facts, Record};
use policy::condition::drift::{RECHECK, Reason as DriftReason, Verdict};
use policy::condition::expiry::{Expiry, expiry};
use policy::condition::repair::{self, Neighbours, Repair, Reported};
use tracing::{Instrument as _, debug, info};

use super::{Actor, Done, plus};
use crate::cluster::{CONSOLIDATABLE, Claim, DRIFTED, NodeState, applied};
use crate::drift;
use crate::metrics::{Disrupted, Unhealthy};
use crate::writes::{Mark, Target, rfc3339};

/// How long a capacity reservation must be missing before its nodes are drifted.
const RESERVATION_RECHECK: SignedDuration = SignedDuration::from_secs(90);

impl Actor {
    pub(super) fn mark(&mut self, name: &Arc<str>, now: Timestamp) {
        let Some(claim) = self.cluster.claim(name).cloned() else { return };
        if !claim.managed || self.marking.contains(name) {
            return;
        }
        if claim.deleting {
            // Nothing but the deadline of its drain can still change.
            self.reservation_lost.remove(name);
            self.repair(&claim, now);
            return;
        }
        if self.expire(&claim, now) || self.repair(&claim, now) {
            return;
        }
        self.clean(&claim, now);
        let mut marks: Vec<Mark> = Vec::new();
        let consolidatable = self.consolidatable(&claim, now);
        if let Consolidatable::NotBefore(at) = consolidatable {
            self.due.at(Arc::clone(name), at);
        }
        let yes = consolidatable == Consolidatable::Yes;
        if yes != claim.is_consolidatable() {
            marks.push((CONSOLIDATABLE, yes.then(Finding::holds)));
        }
        marks.extend(self.drifted(&claim, now));
        let last = self.last_event(&claim, now);
        let event = match consolidatable::record(claim.last_pod_event, last, now) {
            Record::Write(at) => Some(at),
            Record::NotBefore(at) => {
                self.due.at(Arc::clone(name), at);
                None
            }
            Record::Nothing => None,
        };
        if marks.is_empty() && event.is_none() {
            return;
        }
        self.marking.insert(Arc::clone(name));
        let writes = self.writes.clone();
        self.tasks.spawn(async move {
            let target = Target { name: &claim.name, uid: &claim.uid };
            let result = writes.mark(target, &marks, event, now).await;
            Done::Marked { claim: claim.name.clone(), result: result.map(|object| Some(applied(object))) }
        });
    }

    /// The last pod event on its node, as pods that are there, or were since this process began, tell it.
    fn last_event(&self, claim: &Claim, now: Timestamp) -> Option<Timestamp> {
        let node = self.cluster.node_of(claim)?;
        self.cluster.last_pod_event(&node.name).map(|last| last.min(now))
    }

    pub(super) fn consolidatable(&self, claim: &Claim, now: Timestamp) -> Consolidatable {
        let Some(pool) = self.cluster.pool(&claim.pool) else { return Consolidatable::No };
        if !pool.is_static() && claim.is_initialized() && self.is_evaluated_now(&claim.pool, now) {
            return Consolidatable::Yes;
        }
        let facts = Facts {
            fixed_size: pool.is_static(),
            consolidate_after: &pool.spec.disruption.consolidate_after,
            initialized: claim.initialized_since(),
            last_event: claim.last_pod_event.max(self.last_event(claim, now)),
        };
        consolidatable::verdict(facts, now)
    }

    /// Whether the reservation has been missing for long enough to believe it: the provisioner reads from EC2 every minute which
    /// instances still use one, and those that went on as on-demand have another label then.
    fn is_reservation_lost(&mut self, claim: &Claim, now: Timestamp) -> bool {
        let since = *self.reservation_lost.entry(Arc::clone(&claim.name)).or_insert(now);
        let believed = plus(since, RESERVATION_RECHECK);
        if now < believed {
            self.due.at(Arc::clone(&claim.name), believed);
        }
        now >= believed
    }

    fn drifted(&mut self, claim: &Claim, now: Timestamp) -> Option<Mark> {
        let pool = self.cluster.pool_facts(&claim.pool);
        let class = self.cluster.class_facts(&claim.class);
        let group = self.groups.get(&claim.class).cloned().flatten();
        let told = drift::Told { type_gone: self.type_gone(claim), group: group.as_deref() };
        let mut verdict = drift::verdict(claim, pool, class, told, now);
        if !matches!(verdict, Verdict::Drifted(DriftReason::CapacityReservationDrift, _)) {
            self.reservation_lost.remove(&claim.name);
        } else if !self.is_reservation_lost(claim, now) {
            verdict = Verdict::Unknown(
                "its capacity reservation is not chosen any more, since a moment ago".to_owned(),
            );
        }
        let known = conditions::find(&claim.conditions, DRIFTED);
        if told.type_gone.is_some() && !matches!(verdict, Verdict::Drifted(..)) {
            // Whether its type exists is asked only of claims of some age, and nothing tells when that changes.
            self.due.at(Arc::clone(&claim.name), plus(now, RECHECK));
        }
        match verdict {
            Verdict::Unknown(why) => {
                debug!(nodeclaim = %claim.name, why, "drift cannot be told");
                None
            }
            Verdict::Fresh => known.filter(|known| !told.keeps(&known.reason)).map(|_| (DRIFTED, None)),
            Verdict::Drifted(reason, what) => {
                let reason = reason.as_str();
                if claim.is_drifted() && known.is_some_and(|known| known.reason == reason) {
                    return None;
                }
                info!(nodeclaim = %claim.name, reason, what, "drifted");
                Some((DRIFTED, Some(Finding::holds_because(reason, reason))))
            }
        }
    }

    /// Its class does not know its instance type any more, whatever that costs; `None` when nothing is known of the class.
    fn type_gone(&self, claim: &Claim) -> Option<bool> {
        let node = self.cluster.node_of(claim)?;
        self.seen.get(&node.name)?.type_known.map(|known| !known)
    }

    fn span_of(claim: &Claim, what: &'static str) -> tracing::Span {
        let span = tracing::info_span!(parent: None, "remove nodeclaim", nodeclaim = %claim.name, what);
        if let Some(parent) = claim.traceparent() {
            runtime::trace::set_parent(&span, parent);
        }
        span
    }

    /// Deletes a claim that is older than its `expireAfter`.
    fn expire(&mut self, claim: &Arc<Claim>, now: Timestamp) -> bool {
        match expiry(claim.created, &claim.expire_after, now) {
            Expiry::Never => return false,
            Expiry::At(at) => {
                self.due.at(Arc::clone(&claim.name), at);
                return false;
            }
            Expiry::Now => {}
        }
        self.marking.insert(Arc::clone(&claim.name));
        let (writes, metrics, claim) = (self.writes.clone(), self.metrics.clone(), Arc::clone(claim));
        let span = Self::span_of(&claim, "expired");
        let delete = async move {
            let result = writes.delete_claim(Target { name: &claim.name, uid: &claim.uid }).await;
            if result.is_ok() {
                info!(nodeclaim = %claim.name, nodepool = %claim.pool, "expired, deleted");
                metrics.disrupted(&disrupted(&claim, "expired"));
            }
            Done::Marked { claim: claim.name.clone(), result: result.map(|object| object.map(applied)) }
        };
        self.tasks.spawn(delete.instrument(span));
        true
    }

    /// Removes a node by force that has said for long enough that it is unhealthy, unless too many say so.
    fn repair(&mut self, claim: &Arc<Claim>, now: Timestamp) -> bool {
        if !self.options.node_repair {
            return false;
        }
        let Some(node) = self.cluster.node_of(claim).cloned() else { return false };
        if !repair::is_unhealthy(&reported(&node), &repair::AWS) {
            return false;
        }
        let verdict = repair::repair(&reported(&node), &repair::AWS, self.neighbours(claim), now);
        let cause = match verdict {
            Repair::Healthy => return false,
            Repair::Tolerated(until) => {
                self.due.at(Arc::clone(&claim.name), until);
                return false;
            }
            Repair::Blocked(blocked) => {
                self.events.repair_blocked((Some(&node), Some(claim)), &blocked.to_string());
                self.due.at(Arc::clone(&claim.name), blocked.retry);
                return false;
            }
            Repair::Replace(cause) => cause,
        };
        let written = claim.annotation(labels::TERMINATION_TIMESTAMP).and_then(|text| text.parse().ok());
        if claim.deleting && repair::deadline(written, now).is_none() {
            return false;
        }
        self.marking.insert(Arc::clone(&claim.name));
        let (writes, metrics, claim) = (self.writes.clone(), self.metrics.clone(), Arc::clone(claim));
        let span = Self::span_of(&claim, "unhealthy");
        let delete = async move {
            let target = Target { name: &claim.name, uid: &claim.uid };
            let result = async {
                let mut written_now = None;
                if let Some(deadline) = repair::deadline(written, now) {
                    let at = rfc3339(deadline);
                    let stamped =
                        writes.annotate(target, &[(labels::TERMINATION_TIMESTAMP, Some(&at))]).await?;
                    written_now = Some(stamped);
                }
                if claim.deleting { Ok(written_now) } else { writes.delete_claim(target).await }
            };
            let result = result.await;
            if claim.deleting {
                info!(nodeclaim = %claim.name, node = %node.name, condition = cause.condition, "unhealthy, its drain is forced");
            } else if result.is_ok() {
                info!(nodeclaim = %claim.name, node = %node.name, condition = cause.condition, "unhealthy, deleted");
                metrics.disrupted(&disrupted(&claim, "unhealthy"));
                let labels = Unhealthy {
                    condition: snake_case(cause.condition),
                    nodepool: claim.pool.to_string(),
                    capacity_type: claim.label(labels::CAPACITY_TYPE).unwrap_or_default().to_owned(),
                    image_id: claim.image_id.as_deref().unwrap_or_default().to_owned(),
                };
                metrics.unhealthy.get_or_create(&labels).inc();
            }
            Done::Marked { claim: claim.name.clone(), result: result.map(|object| object.map(applied)) }
        };
        self.tasks.spawn(delete.instrument(span));
        true
    }

    /// The nodes of its pool, or all where it has none.
    fn neighbours(&self, claim: &Claim) -> Neighbours {
        let mut all = Neighbours::default();
        for node in self
            .cluster
            .nodes()
            .filter(|node| claim.pool.is_empty() || node.pool.as_ref() == Some(&claim.pool))
        {
            all.total += 1;
            all.unhealthy += u32::from(repair::is_unhealthy(&reported(node), &repair::AWS));
        }
        all
    }
}

fn reported(node: &NodeState) -> Vec<Reported<'_>> {
    node.conditions
        .iter()
        .map(|condition| Reported {
            condition: &condition.type_,
            status: &condition.status,
            since: condition.since,
        })
        .collect()
}

fn disrupted(claim: &Claim, reason: &'static str) -> Disrupted {
    Disrupted {
        reason,
        nodepool: claim.pool.to_string(),
        capacity_type: claim.label(labels::CAPACITY_TYPE).unwrap_or_default().to_owned(),
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (index, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn conditions_are_labelled_in_snake_case() {
        assert_eq!(super::snake_case("Ready"), "ready");
        assert_eq!(super::snake_case("AcceleratedHardwareReady"), "accelerated_hardware_ready");
    }
}

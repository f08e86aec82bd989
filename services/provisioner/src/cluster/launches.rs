//! NodeClaims between their creation and their launch, and what follows from those that fail: pods are planned for again at
//! once if the failure changed what is offered, and after a growing pause if it did not.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use api::NodeClaim;
use api::requirement::Operator;
use jiff::Timestamp;
use model::labels;
use rustc_hash::FxHashMap;

use super::ClusterHandle;
use super::actor::Message;
use super::backoff::{Backoff, LaunchShape};
use super::nodes::provider_of_claim;
use super::state::{Due, State};
use crate::catalog::Offer;

struct Launching {
    shape: LaunchShape,
    /// By the clock of this process.
    since: Timestamp,
    /// Hash of the offerings that it may be launched as, when it was created.
    offered: u64,
    /// It failed, and another NodeClaim like it would fail too.
    has_failed: bool,
}

#[derive(Default)]
pub(super) struct Launches {
    claims: FxHashMap<Arc<str>, Launching>,
    backoff: Backoff,
}

impl Launches {
    /// The pods of the NodeClaim wait for the end of a pause.
    pub(super) fn has_failed(&self, claim: &str) -> bool {
        self.claims.get(claim).is_some_and(|launching| launching.has_failed)
    }

    pub(super) fn forget(&mut self, claim: &str) {
        self.claims.remove(claim);
    }

    pub(super) fn forget_pool(&mut self, pool: &str) {
        self.backoff.forget_pool(pool);
    }

    pub(super) fn forget_old(&mut self, now: Timestamp) {
        self.backoff.forget_old(now);
    }

    /// For a view.
    pub(super) fn backoff(&self) -> Arc<Backoff> {
        let mut backoff = self.backoff.clone();
        for (shape, pause) in backoff.pauses() {
            let launching = |own: &&Launching| own.shape == *shape && !own.has_failed;
            pause.in_flight = self.claims.values().filter(launching).count();
        }
        Arc::new(backoff)
    }
}

impl State {
    /// Follows a NodeClaim until it is launched.
    pub(super) fn follow_launch(&mut self, name: &Arc<str>, claim: &NodeClaim, now: Timestamp) {
        if provider_of_claim(claim).is_none() {
            let offer = &self.offer;
            self.launches.claims.entry(Arc::clone(name)).or_insert_with(|| Launching {
                shape: LaunchShape::of(claim),
                since: now,
                offered: offered(claim, offer),
                has_failed: false,
            });
        } else if let Some(launching) = self.launches.claims.remove(name)
            && self.launches.backoff.launched(&launching.shape)
        {
            self.delta.any = true;
            self.retry_waiting();
        }
    }

    /// The launch of a NodeClaim failed for good, and it is about to be deleted.
    pub(super) fn launch_failed(&mut self, name: &str, why: &Arc<str>, now: Timestamp) {
        let Some(claim) = self.nodes.claims.get(name) else { return };
        let Some(launching) = self.launches.claims.get_mut(name) else { return };
        // With nothing left that it may be launched as, the next plan is another one.
        let now_offered = offered(claim, &self.offer);
        if now_offered != launching.offered || now_offered == NOTHING {
            return;
        }
        launching.has_failed = true;
        let until = self.launches.backoff.failed(&launching.shape, launching.since, why, now);
        self.due.insert((until, Due::Backoff));
        self.delta.any = true;
    }
}

impl ClusterHandle {
    /// The launch of a NodeClaim failed for good. In force before the deletion of the claim that follows.
    pub(crate) async fn launch_failed(&self, claim: &str, why: &str) {
        let message = Message::LaunchFailed { claim: Arc::from(claim), why: Arc::from(why) };
        let _ = self.inbox.send(message).await;
    }
}

const NOTHING: u64 = 0;

/// Changes when an offering that the NodeClaim may use appears or is used up; prices do not matter. [`NOTHING`] without any.
fn offered(claim: &NodeClaim, offer: &Offer) -> u64 {
    let Some(types) = offer.types.get(claim.spec.node_class_ref.name.as_str()) else { return NOTHING };
    let listed = |key: &str| {
        let own = claim.spec.requirements.iter().find(|r| r.key == key && r.operator == Operator::In);
        own.map(|r| r.values().iter().map(String::as_str).collect::<BTreeSet<_>>())
    };
    let names = listed(labels::INSTANCE_TYPE);
    let (zones, capacity_types) = (listed(labels::ZONE), listed(labels::CAPACITY_TYPE));
    let allows = |listed: &Option<BTreeSet<&str>>, value: &str| {
        listed.as_ref().is_none_or(|values| values.contains(value))
    };
    let mut sum = NOTHING;
    for kind in types.iter().filter(|kind| allows(&names, &kind.name)) {
        let open = kind.offerings.iter().filter(|offering| {
            offering.is_open()
                && allows(&zones, &offering.zone)
                && allows(&capacity_types, offering.capacity_type.as_str())
        });
        for offering in open {
            let mut hasher = DefaultHasher::new();
            let reservation = offering.reservation.as_ref().map(|reservation| &reservation.id);
            (&kind.name, &offering.zone, offering.capacity_type.as_str(), reservation).hash(&mut hasher);
            // In any order: a list of types is sorted by price.
            sum = sum.wrapping_add(hasher.finish());
        }
    }
    sum
}

//! Pauses between launches that fail for a lasting reason: each failure that changed nothing about what is offered doubles
//! the pause, and after a pause one NodeClaim at a time shows whether the reason has gone. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use api::NodeClaim;
use jiff::{SignedDuration, Timestamp};
use model::labels;

const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(180);
/// Between two NodeClaims of one NodePool that has pauses.
const SPACING: SignedDuration = SignedDuration::from_secs(1);
/// A pause that ended this long ago, without another attempt, is forgotten.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// NodeClaims that fail alike: of one NodePool, with the same requirements except for their instance types, which follow from
/// how many pods there are, and requests for the same resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaunchShape {
    pool: Arc<str>,
    asked: u64,
}

impl LaunchShape {
    pub(crate) fn of(claim: &NodeClaim) -> Self {
        let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(labels::NODEPOOL));
        let others = claim.spec.requirements.iter().filter(|r| r.key != labels::INSTANCE_TYPE);
        let requirements: BTreeSet<String> =
            others.map(|r| format!("{} {:?} {:?}", r.key, r.operator, r.values())).collect();
        let requests = claim.spec.resources.iter().flat_map(|r| r.requests.iter().flatten());
        let resources: BTreeSet<&String> = requests.map(|(name, _)| name).collect();
        let mut hasher = DefaultHasher::new();
        (requirements, resources).hash(&mut hasher);
        Self { pool: Arc::from(pool.map_or("", String::as_str)), asked: hasher.finish() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pause {
    /// In a row.
    failures: u32,
    pub(crate) until: Timestamp,
    /// The last failure, in the cloud's words.
    why: Arc<str>,
    /// NodeClaims of the shape that are being launched: what becomes of them is awaited.
    pub(super) in_flight: usize,
}

impl Pause {
    pub(crate) fn explained(&self, pool: &str) -> String {
        let Self { failures, until, why, .. } = self;
        let until = until.strftime("%H:%M:%SZ");
        format!(
            "NodeClaims of NodePool {pool} cannot be launched: {failures} failed in a row, and nothing about its \
             offerings has changed since; the next attempt is at {until} at the earliest ({why})"
        )
    }
}

/// Of all shapes that fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    pauses: BTreeMap<LaunchShape, Pause>,
}

impl Backoff {
    pub(crate) fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }

    pub(crate) fn get(&self, shape: &LaunchShape) -> Option<&Pause> {
        self.pauses.get(shape)
    }

    pub(super) fn pauses(&mut self) -> impl Iterator<Item = (&LaunchShape, &mut Pause)> {
        self.pauses.iter_mut()
    }

    /// A NodeClaim that was created at `created` failed, and another one would now. Returns when it may be tried again.
    /// NodeClaims that were created before the pause ended belong to the failure that began it.
    pub(crate) fn failed(
        &mut self,
        shape: &LaunchShape,
        created: Timestamp,
        why: &Arc<str>,
        now: Timestamp,
    ) -> Timestamp {
        let first = || Pause { failures: 0, until: Timestamp::MIN, why: Arc::clone(why), in_flight: 0 };
        let pause = self.pauses.entry(shape.clone()).or_insert_with(first);
        pause.why = Arc::clone(why);
        if created >= pause.until {
            let length = FIRST_PAUSE * 2_i32.pow(pause.failures.min(20));
            pause.failures = pause.failures.saturating_add(1);
            pause.until = now.checked_add(length.min(LONGEST_PAUSE)).unwrap_or(Timestamp::MAX);
        }
        pause.until
    }

    /// A NodeClaim of the shape was launched. Says whether there was a pause.
    pub(super) fn launched(&mut self, shape: &LaunchShape) -> bool {
        self.pauses.remove(shape).is_some()
    }

    /// The NodePool changed: what failed may work now.
    pub(super) fn forget_pool(&mut self, pool: &str) {
        self.pauses.retain(|shape, _| &*shape.pool != pool);
    }

    pub(super) fn forget_old(&mut self, now: Timestamp) {
        self.pauses.retain(|_, pause| now.duration_since(pause.until) < FORGOTTEN);
    }
}

/// Admits NodeClaims of shapes that failed, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// The last of each NodePool.
    last: BTreeMap<Arc<str>, Timestamp>,
}

impl Probes {
    /// `Err`: the NodeClaim must not be created yet.
    pub(crate) fn admit<'b>(
        &mut self,
        backoff: &'b Backoff,
        shape: &LaunchShape,
        now: Timestamp,
    ) -> Result<(), &'b Pause> {
        let Some(pause) = backoff.get(shape) else { return Ok(()) };
        let too_soon = |last: &Timestamp| now.duration_since(*last) < SPACING;
        if now < pause.until || pause.in_flight > 0 || self.last.get(&shape.pool).is_some_and(too_soon) {
            return Err(pause);
        }
        self.last.insert(Arc::clone(&shape.pool), now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(pool: &str, asked: u64) -> LaunchShape {
        LaunchShape { pool: Arc::from(pool), asked }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    /// Decisions every `step` milliseconds for ten minutes, each with a NodeClaim wanted for every shape, all of which fail
    /// `fails_after` milliseconds later. Returns when NodeClaims were created.
    fn ten_minutes(shapes: &[LaunchShape], step: i64, fails_after: i64) -> Vec<(i64, LaunchShape)> {
        let (mut backoff, mut probes) = (Backoff::default(), Probes::default());
        let mut in_flight: Vec<(i64, LaunchShape)> = Vec::new();
        let mut created = Vec::new();
        for now in (0..600_000).step_by(usize::try_from(step).unwrap()) {
            in_flight.retain(|(since, shape)| {
                let failed = since + fails_after <= now;
                if failed {
                    backoff.failed(shape, at(*since), &Arc::from("no"), at(now));
                }
                !failed
            });
            for (shape, pause) in backoff.pauses() {
                pause.in_flight = in_flight.iter().filter(|(_, own)| own == shape).count();
            }
            for shape in shapes {
                let waits = in_flight.iter().any(|(_, own)| own == shape);
                if !waits && probes.admit(&backoff, shape, at(now)).is_ok() {
                    in_flight.push((now, shape.clone()));
                    created.push((now, shape.clone()));
                }
            }
        }
        created
    }

    proptest! {
        #[test]
        fn a_lasting_failure_makes_at_most_twenty_claims_in_ten_minutes(
            step in 20_i64..5_000, fails_after in 0_i64..20_000, count in 1_usize..4,
        ) {
            let shapes: Vec<LaunchShape> = (0..count).map(|n| shape("default", n as u64)).collect();
            let created = ten_minutes(&shapes, step, fails_after);
            for own in &shapes {
                let times: Vec<i64> = created.iter().filter(|(_, s)| s == own).map(|(at, _)| *at).collect();
                prop_assert!(times.len() <= 20, "{times:?}");
                prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{times:?}");
            }
            // Beyond the first of each shape, which nothing was known of.
            let probes: Vec<i64> = created.iter().skip(count).map(|(at, _)| *at).collect();
            prop_assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{probes:?}");
        }

        #[test]
        fn pauses_only_grow_until_something_is_launched(failures in 1_u32..40) {
            let (mut backoff, own) = (Backoff::default(), shape("default", 1));
            let (mut now, mut last) = (at(0), SignedDuration::ZERO);
            for _ in 0..failures {
                let until = backoff.failed(&own, now, &Arc::from("no"), now);
                let pause = until.duration_since(now);
                prop_assert!(pause >= last && pause <= LONGEST_PAUSE);
                (now, last) = (until, pause);
            }
            prop_assert!(backoff.launched(&own) && backoff.is_empty());
            let until = backoff.failed(&own, now, &Arc::from("no"), now);
            prop_assert_eq!(until.duration_since(now), FIRST_PAUSE);
        }
    }

    #[test]
    fn claims_that_failed_together_are_one_failure_and_other_shapes_go_on() {
        let mut backoff = Backoff::default();
        let own = shape("default", 1);
        for failed in [10, 20, 900] {
            backoff.failed(&own, at(0), &Arc::from("no"), at(failed));
        }
        assert_eq!(backoff.get(&own).unwrap().until, at(1_010));
        let mut probes = Probes::default();
        assert!(probes.admit(&backoff, &own, at(1_000)).is_err());
        for other in [shape("default", 2), shape("other", 1)] {
            assert!(probes.admit(&backoff, &other, at(1_000)).is_ok());
        }
        assert!(probes.admit(&backoff, &own, at(1_010)).is_ok());
        assert!(probes.admit(&backoff, &own, at(1_020)).is_err(), "one at a time");
        backoff.forget_pool("default");
        assert!(probes.admit(&backoff, &own, at(1_030)).is_ok());
    }
}

//! Buying: one way after the other until something is had, what each answer teaches, and the launch that came of it.

use std::collections::{BTreeMap, BTreeSet};

use cloud::error::launch_reason;
use cloud::launch::FleetAnswer;
use cloud::unavailable::Scope;
use model::catalog::CapacityType;
use tracing::info;

use super::batch::{Seen, assign};
use super::candidates::{self, Candidate, Terms};
use super::error::LaunchError;
use super::fleet::{self, Asked, Place};
use super::fleet_call::Asking;
use super::launched::{self, Facts, Launched};
use super::shares::Shares;
use super::{Inner, Job, Launch, metrics};

/// Fleet requests for one way of buying in one launch: the 60 cheapest types, and once the next 60.
const ROUNDS_EACH: usize = 2;

impl Launch {
    /// `Err` is for those that are still without an instance.
    pub(super) async fn buy_until_nothing_is_left(
        &self,
        job: &Job<'_>,
        shares: &mut Shares,
        mut terms: Terms,
    ) -> Result<(), LaunchError> {
        let mut rounds: BTreeMap<CapacityType, usize> = BTreeMap::new();
        let mut told: Vec<String> = Vec::new();
        let mut unavailable = BTreeSet::new();
        while !shares.open().is_empty() {
            let left = match candidates::candidates(job.types, &job.wanted, &terms) {
                Ok(left) => left,
                Err(none) => {
                    told.push(none.to_string());
                    let mut error = LaunchError::insufficient(told.join("; "));
                    error.unavailable = unavailable.into_iter().collect();
                    return Err(error);
                }
            };
            let buying = candidates::capacity_type(&left);
            let waited = shares.open().len();
            let nothing = self.buy(job, shares, &left, buying, &mut terms, &mut unavailable).await?;
            if let Some(message) = nothing {
                info!(capacity_type = %buying, message, "nothing to be had this way");
                told.push(format!("{buying}: {message}"));
            }
            // What gives some may give more; every such round serves somebody.
            if shares.open().len() < waited {
                continue;
            }
            let tried = rounds.entry(buying).or_default();
            *tried += 1;
            if *tried >= ROUNDS_EACH {
                terms.given_up.insert(buying);
            }
        }
        Ok(())
    }

    /// One fleet request. What it could not give is excluded in `terms` and reported. Says why where it gave nothing at all.
    async fn buy(
        &self,
        job: &Job<'_>,
        shares: &mut Shares,
        left: &[Candidate<'_>],
        buying: CapacityType,
        terms: &mut Terms,
        unavailable: &mut BTreeSet<Scope>,
    ) -> Result<Option<String>, LaunchError> {
        let parts = &self.inner.parts;
        let shapes = fleet::shapes(left, buying, &job.images, job.wanted.wants_efa());
        if shapes.is_empty() {
            let text = "no image of the EC2NodeClass fits any of the instance types that the claim allows";
            return Err(LaunchError::retryable("LaunchFailed", text));
        }
        let subnets = job.class.status.iter().flat_map(|s| s.subnets.iter().flatten());
        let mut expected = fleet::least_pods(&shapes);
        let nodes = u32::try_from(shares.open().len()).unwrap_or(u32::MAX);
        expected.values_mut().for_each(|pods| *pods = pods.saturating_mul(nodes));
        let chosen = parts.addresses.choose(subnets.map(|s| (s.id.as_str(), s.zone.as_str())), &expected);
        if chosen.by_zone.is_empty() {
            return Err(LaunchError::retryable("SubnetResolutionFailed", "the EC2NodeClass has no subnets"));
        }
        let asked = self.ask(job, shares, &shapes, buying, &chosen).await;
        let (answer, places) = match asked {
            Ok(Asking::Answered(answer, places)) => (answer, places),
            Ok(Asking::Served) => {
                parts.addresses.settle(chosen, &BTreeSet::new());
                return Ok(None);
            }
            Err(error) => {
                parts.addresses.settle(chosen, &BTreeSet::new());
                return Err(error);
            }
        };
        let used = answer.launched.iter().filter_map(|l| l.subnet_id.as_deref()).collect();
        parts.addresses.settle(chosen, &used);
        self.learn(job, &answer, buying, &places, terms, unavailable).await;
        self.judge(job, shares, answer, buying, &places).await
    }

    /// Marks what could not be had, here and in pricing-cache.
    async fn learn(
        &self,
        job: &Job<'_>,
        answer: &FleetAnswer,
        buying: CapacityType,
        places: &[(String, Place<'_>)],
        terms: &mut Terms,
        unavailable: &mut BTreeSet<Scope>,
    ) {
        let parts = &self.inner.parts;
        let zone_id = |zone: Option<&str>| {
            places
                .iter()
                .find(|(_, p)| Some(&*p.offering.zone) == zone)
                .and_then(|(_, p)| p.offering.zone_id.clone())
        };
        for error in &answer.errors {
            let labels = metrics::FailureLabels {
                zone: error.zone.clone().unwrap_or_default(),
                zone_id: zone_id(error.zone.as_deref()).as_deref().unwrap_or_default().to_owned(),
                capacity_type: buying.as_str(),
                reason: launch_reason(&format!("{}: {}", error.code, error.message)).0.as_str(),
            };
            parts.metrics.failures.get_or_create(&labels).inc();
        }
        let group = job.group.as_ref().map(|g| g.id.as_str());
        let learned = fleet::lessons(answer, &Asked { buying, places, placement_group: group });
        for subnet in &learned.full_subnets {
            parts.addresses.full(subnet);
        }
        for id in &learned.drained_reservations {
            parts.resolved.reservation_drained(id);
        }
        if learned.spot_role_missing {
            terms.given_up.insert(CapacityType::Spot);
        }
        let mut by_code: BTreeMap<String, Vec<Scope>> = BTreeMap::new();
        for (scope, code) in learned.marks {
            unavailable.insert(scope.clone());
            by_code.entry(code).or_default().push(scope);
        }
        for (code, scopes) in by_code {
            info!(code, offerings = scopes.len(), "removing offerings that EC2 has none of for a while");
            parts.shortages.report(scopes, &code).await;
        }
        terms.refused.extend(learned.refused);
        if answer.launched.is_empty() {
            // EC2 need not name every place it tried; none of them gave anything.
            let all =
                places.iter().map(|(_, p)| (buying, p.kind.name.to_string(), p.offering.zone.to_string()));
            terms.refused.extend(all);
        }
    }

    /// Hands out what was launched. Says why where that is nothing.
    async fn judge(
        &self,
        job: &Job<'_>,
        shares: &mut Shares,
        answer: FleetAnswer,
        buying: CapacityType,
        places: &[(String, Place<'_>)],
    ) -> Result<Option<String>, LaunchError> {
        let Inner { parts, attempts, .. } = &*self.inner;
        if answer.launched.is_empty() {
            attempts.used_up(&job.key.id);
            let (reason, message) = fleet::failure(&answer);
            return if answer.is_insufficient_capacity() {
                Ok(Some(message))
            } else {
                Err(LaunchError::retryable(reason, message))
            };
        }
        // An answer to a token that was used before may name what claims have already.
        let taken = if shares.unsure { self.taken(job).await? } else { BTreeSet::new() };
        let mut seen: Vec<Seen> =
            answer.launched.iter().map(|launched| Seen { id: launched.id.clone(), claim: None }).collect();
        seen.sort();
        let mut given = Vec::new();
        let mut elsewhere = Vec::new();
        for (member, id) in assign(shares.open(), &seen, &taken) {
            let Some(instance) = answer.launched.iter().find(|launched| launched.id == id) else { continue };
            let place = places
                .iter()
                .find(|(_, p)| *p.kind.name == *instance.instance_type && *p.offering.zone == *instance.zone);
            match place {
                Some((_, place)) => given.push((member, self.bought(job, instance, place, buying))),
                None => elsewhere.push((member, id)),
            }
        }
        if !elsewhere.is_empty() {
            // EC2 did not say where, or somewhere that was not asked for: the instance itself tells.
            let ids: Vec<String> = elsewhere.iter().map(|(_, id)| id.clone()).collect();
            let found = parts.launcher.instances_by_id(ids).await;
            let found = found.map_err(|error| LaunchError::of_call(&error))?;
            for (member, id) in elsewhere {
                let instance = found.iter().find(|instance| instance.id == id).ok_or_else(|| {
                    let text = format!("instance {id} was launched and EC2 does not show it yet");
                    LaunchError::retryable("LaunchFailed", text)
                })?;
                given.push((member, self.adopt(job, instance)));
            }
        }
        // From here on nothing waits: either all are handed out and the token is used up, or none is and EC2 repeats its answer.
        attempts.used_up(&job.key.id);
        for (member, launched) in given {
            attempts.hand_out(&member.uid, launched.clone());
            shares.give(&member, launched);
        }
        Ok(None)
    }

    fn bought(
        &self,
        job: &Job<'_>,
        instance: &cloud::launch::Launched,
        place: &Place<'_>,
        buying: CapacityType,
    ) -> Launched {
        let reservation = place.offering.reservation.as_ref().map(|r| {
            let kind = if &*r.kind == "capacity-block" { "capacity-block" } else { "default" };
            (r.id.to_string(), kind, r.interruptible)
        });
        if let Some((id, ..)) = &reservation {
            self.inner.parts.resolved.reservation_taken(id);
        }
        let efa_only = job
            .class
            .spec
            .network_interfaces
            .iter()
            .flatten()
            .filter(|i| i.interface_type.as_str() == "efa-only");
        let efa = if job.wanted.wants_efa() { 1 } else { u32::try_from(efa_only.count()).unwrap_or(1) };
        let facts = Facts {
            id: instance.id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            zone_id: place.offering.zone_id.as_deref().map(str::to_owned),
            image_id: job.images.for_type(place.kind).unwrap_or_default().to_owned(),
            capacity_type: buying,
            tenancy: job.wanted.tenancy().to_owned(),
            efa_interfaces: efa,
            reservation,
            partition: None,
            subnet_id: instance.subnet_id.clone(),
            adopted: false,
        };
        launched::describe(facts, &job.wanted, job.class, job.types, job.group.as_ref())
    }
}

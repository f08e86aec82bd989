//! Capacity reservations of a class.

use std::sync::Arc;
use std::time::Duration;

use api::ec2nodeclass::{
    CapacityReservation as StatusReservation, CapacityReservationSelectorTerm, InstanceMatchCriteria,
    ReservationState, ReservationType,
};
use cloud::NodeClassSource;
use cloud::error::CloudError;
use cloud::nodeclass::ReservationQuery;
use cloud::reservation::{EXPIRING_BEFORE_END, MatchCriteria, Reservation, ReservationKind};
use cloud::select::TagFilter;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::cache::Cache;

const GOOD_FOR: Duration = Duration::from_mins(1);
const LOOK_AGAIN: Duration = Duration::from_mins(1);

pub(super) struct Reservations {
    source: Arc<dyn NodeClassSource>,
    found: Cache<ReservationQuery, Vec<Reservation>>,
}

impl Reservations {
    pub(super) fn new(source: Arc<dyn NodeClassSource>) -> Self {
        Self { source, found: Cache::new(GOOD_FOR) }
    }

    /// Active ones that any term selects, by id.
    pub(super) async fn resolve(
        &self,
        terms: &[CapacityReservationSelectorTerm],
        now: Timestamp,
    ) -> Result<Vec<Reservation>, CloudError> {
        let mut all = Vec::new();
        for query in terms.iter().filter_map(query) {
            let ask = async || self.source.reservations(query.clone()).await;
            all.extend(self.found.get_or(query.clone(), ask).await?);
        }
        all.retain(|r: &Reservation| !r.has_ended(now));
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|a, b| a.id == b.id);
        Ok(all)
    }
}

/// `None` for a term that would select every reservation there is.
fn query(term: &CapacityReservationSelectorTerm) -> Option<ReservationQuery> {
    if let Some(id) = &term.id {
        return Some(ReservationQuery::Id(id.clone()));
    }
    let tags: Vec<TagFilter> =
        term.tags.iter().flatten().map(|(key, value)| TagFilter::from_term(key, value)).collect();
    let match_criteria = match &term.instance_match_criteria {
        None => None,
        // A word of a newer release: nothing we know matches it.
        Some(criteria) => Some(MatchCriteria::parse(criteria.as_str())?),
    };
    (!tags.is_empty() || match_criteria.is_some()).then(|| ReservationQuery::Matching {
        tags,
        owner_id: term.owner_id.clone(),
        match_criteria,
    })
}

pub(super) fn status(found: &Reservation, now: Timestamp) -> StatusReservation {
    StatusReservation {
        id: found.id.clone(),
        availability_zone: found.zone.clone(),
        instance_type: found.instance_type.clone(),
        owner_id: found.owner_id.clone(),
        instance_match_criteria: InstanceMatchCriteria::from(found.match_criteria.as_str()),
        reservation_type: ReservationType::from(found.kind.as_str()),
        interruptible: found.interruptible.then_some(true),
        state: ReservationState::from(found.state(now).as_str()),
        end_time: found.end.map(Time),
        extra: Default::default(),
    }
}

/// When to look again: in a minute, or when the next reservation ends or a block begins to.
pub(super) fn look_again(found: &[Reservation], now: Timestamp) -> Duration {
    let changes = found.iter().flat_map(|r| {
        let expiring =
            r.end.filter(|_| r.kind == ReservationKind::CapacityBlock).map(|end| end - EXPIRING_BEFORE_END);
        r.end.into_iter().chain(expiring)
    });
    let next = changes.filter(|at| *at > now).min();
    let until = next.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    until.map_or(LOOK_AGAIN, |until| until.min(LOOK_AGAIN))
}

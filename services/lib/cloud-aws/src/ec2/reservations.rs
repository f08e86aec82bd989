//! Capacity reservations.

use aws_sdk_ec2::types::{CapacityReservation, Filter};
use cloud::error::CloudError;
use cloud::nodeclass::ReservationQuery;
use cloud::reservation::{MatchCriteria, Reservation, ReservationKind};
use jiff::Timestamp;
use tracing::warn;

use super::{Calls, Ec2, paced, pages};
use crate::convert::{count, filter, owned, tag_filters, tags, timestamp};

const OPERATION: &str = "DescribeCapacityReservations";
const PAGE: i32 = 1000;

impl Ec2 {
    pub(crate) async fn all_reservations(&self) -> Result<Vec<Reservation>, CloudError> {
        self.list_reservations(Vec::new()).await
    }

    pub(crate) async fn reservations(&self, query: ReservationQuery) -> Result<Vec<Reservation>, CloudError> {
        let filters = match query {
            ReservationQuery::Id(id) => return self.reservation(id).await,
            ReservationQuery::Matching { tags, owner_id, match_criteria } => {
                let mut filters = tag_filters(&tags);
                filters.extend(owner_id.map(|id| filter("owner-id", [id])));
                filters.extend(match_criteria.map(|m| filter("instance-match-criteria", [m.as_str()])));
                filters
            }
        };
        self.list_reservations(filters).await
    }

    async fn reservation(&self, id: String) -> Result<Vec<Reservation>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client
            .describe_capacity_reservations()
            .capacity_reservation_ids(id)
            .filters(filter("state", ["active"]));
        match paced(&paces.describe, OPERATION, call.send()).await {
            Ok(answer) => Ok(usable(answer.capacity_reservations())),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn list_reservations(&self, filters: Vec<Filter>) -> Result<Vec<Reservation>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client
            .describe_capacity_reservations()
            .set_filters(Some(filters))
            .filters(filter("state", ["active"]));
        let mut all = Vec::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(usable(page.capacity_reservations()));
        });
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|a, b| a.id == b.id);
        Ok(all)
    }
}

/// Those that have not ended and are of a kind we know.
fn usable(found: &[CapacityReservation]) -> Vec<Reservation> {
    let now = Timestamp::now();
    found.iter().filter_map(reservation).filter(|r| !r.has_ended(now)).collect()
}

fn reservation(found: &CapacityReservation) -> Option<Reservation> {
    let id = found.capacity_reservation_id()?;
    let criteria = found.instance_match_criteria().map_or("open", |c| c.as_str());
    let kind = found.reservation_type().map_or("default", |t| t.as_str());
    let (Some(match_criteria), Some(kind)) = (MatchCriteria::parse(criteria), ReservationKind::parse(kind))
    else {
        warn!(reservation = id, criteria, kind, "capacity reservation of an unknown kind is left out");
        return None;
    };
    Some(Reservation {
        id: id.to_owned(),
        instance_type: owned(found.instance_type()),
        zone: owned(found.availability_zone()),
        owner_id: owned(found.owner_id()),
        match_criteria,
        kind,
        available: count(found.available_instance_count()),
        total: count(found.total_instance_count()),
        end: found.end_date().and_then(timestamp),
        interruptible: found.interruptible().unwrap_or(false),
        tags: tags(found.tags()),
    })
}

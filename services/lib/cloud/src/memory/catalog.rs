use std::collections::{BTreeMap, BTreeSet};

use super::{MemoryCloud, client_error};
use crate::Answer;
use crate::catalog::{CatalogSource, OnDemandPrice, PriceList, SpotPrice, ZonalShift};
use crate::error::CloudError;
use crate::facts::{TypeFacts, Zone};
use crate::reservation::Reservation;

impl CatalogSource for MemoryCloud {
    fn check_access(&self) -> Answer<'_, ()> {
        self.answer("DescribeInstanceTypes", |_| Ok(()))
    }

    fn instance_types(&self) -> Answer<'_, Vec<TypeFacts>> {
        self.answer("DescribeInstanceTypes", |state| Ok(state.types.clone()))
    }

    fn offerings(&self) -> Answer<'_, BTreeMap<String, BTreeSet<String>>> {
        self.answer("DescribeInstanceTypeOfferings", |state| Ok(state.offered.clone()))
    }

    fn zones(&self) -> Answer<'_, Vec<Zone>> {
        self.answer("DescribeAvailabilityZones", |state| Ok(state.zones.clone()))
    }

    fn spot_prices(&self) -> Answer<'_, PriceList<SpotPrice>> {
        self.answer("DescribeSpotPriceHistory", |state| {
            let price = |((instance_type, zone), price): (&(String, String), &_)| SpotPrice {
                instance_type: instance_type.clone(),
                zone: zone.clone(),
                price: *price,
            };
            whole("DescribeSpotPriceHistory", state.spot.iter().map(price).collect())
        })
    }

    fn on_demand_prices(&self) -> Answer<'_, PriceList<OnDemandPrice>> {
        self.answer("GetProducts", |state| {
            let price = |(instance_type, price): (&String, &_)| OnDemandPrice {
                instance_type: instance_type.clone(),
                price: *price,
            };
            whole("GetProducts", state.on_demand.iter().map(price).collect())
        })
    }

    fn reservations(&self) -> Answer<'_, Vec<Reservation>> {
        self.answer("DescribeCapacityReservations", |state| {
            let now = state.now;
            Ok(state.reservations.iter().filter(|r| !r.has_ended(now)).cloned().collect())
        })
    }

    fn zonal_shifts<'a>(&'a self, _cluster_arn: &'a str) -> Answer<'a, Vec<ZonalShift>> {
        self.answer("GetManagedResource", |state| {
            let now = state.now;
            Ok(state.shifts.iter().filter(|s| s.expires > now).cloned().collect())
        })
    }

    fn cluster_arn<'a>(&'a self, cluster: &'a str) -> Answer<'a, String> {
        self.answer("DescribeCluster", |state| {
            let found = state.clusters.get(cluster).map(|c| c.arn.clone());
            found.ok_or_else(|| {
                client_error("DescribeCluster", "ResourceNotFoundException", format!("no cluster {cluster}"))
            })
        })
    }

    fn region(&self) -> &str {
        &self.region
    }
}

fn whole<P>(operation: &'static str, prices: Vec<P>) -> Result<PriceList<P>, CloudError> {
    if prices.is_empty() {
        return Err(CloudError::malformed(operation, "the answer holds no prices"));
    }
    Ok(PriceList { prices, rejected: BTreeMap::new() })
}

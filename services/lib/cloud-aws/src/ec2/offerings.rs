//! Zones, and which types are sold in which.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::LocationType;
use cloud::error::CloudError;
use cloud::facts::Zone;

use super::{Calls, Ec2, paced, pages};
use crate::convert::{filter, owned};

const PAGE: i32 = 1000;

impl Ec2 {
    pub(crate) async fn offerings(&self) -> Result<BTreeMap<String, BTreeSet<String>>, CloudError> {
        const OPERATION: &str = "DescribeInstanceTypeOfferings";
        let Calls { client, paces } = &self.calls;
        let call = client.describe_instance_type_offerings().location_type(LocationType::AvailabilityZone);
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            for offering in page.instance_type_offerings() {
                if let (Some(name), Some(zone)) = (offering.instance_type(), offering.location()) {
                    all.entry(name.as_str().to_owned()).or_default().insert(zone.to_owned());
                }
            }
        });
        Ok(all)
    }

    /// Zones the account has opted into.
    pub(crate) async fn zones(&self) -> Result<Vec<Zone>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client
            .describe_availability_zones()
            .filters(filter("opt-in-status", ["opt-in-not-required", "opted-in"]));
        let answer = paced(&paces.describe, "DescribeAvailabilityZones", call.send()).await?;
        let zone = |z: &aws_sdk_ec2::types::AvailabilityZone| {
            Some(Zone {
                name: z.zone_name()?.to_owned(),
                id: owned(z.zone_id()),
                kind: z.zone_type().unwrap_or("availability-zone").to_owned(),
                shifted: false,
            })
        };
        let mut zones: Vec<Zone> = answer.availability_zones().iter().filter_map(zone).collect();
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(zones)
    }
}

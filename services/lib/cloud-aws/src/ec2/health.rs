//! Impaired instances and scheduled events.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{Filter, InstanceStatus, InstanceStatusSummary, StatusType};
use cloud::error::CloudError;
use cloud::queue::{DRAINING_EVENTS, InstanceHealth, ScheduledEvent};
use jiff::Timestamp;

use super::{Calls, Ec2, pages};
use crate::convert::{filter, owned, timestamp};

const OPERATION: &str = "DescribeInstanceStatus";
const PAGE: i32 = 1000;

impl Ec2 {
    /// Filters of one call all hold, so each kind of trouble is asked for by itself.
    pub(crate) async fn unhealthy(&self) -> Result<Vec<InstanceHealth>, CloudError> {
        let (instance, system, events) = tokio::try_join!(
            self.statuses(filter("instance-status.status", ["impaired"])),
            self.statuses(filter("system-status.status", ["impaired"])),
            self.statuses(filter("event.code", DRAINING_EVENTS)),
        )?;
        let mut all: BTreeMap<String, InstanceHealth> = BTreeMap::new();
        for found in instance.into_iter().chain(system).chain(events) {
            all.insert(found.instance_id.clone(), found);
        }
        let troubled = |h: &InstanceHealth| {
            h.instance_impaired_since.is_some() || h.system_impaired_since.is_some() || !h.events.is_empty()
        };
        Ok(all.into_values().filter(troubled).collect())
    }

    async fn statuses(&self, wanted: Filter) -> Result<Vec<InstanceHealth>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client.describe_instance_status().filters(wanted);
        let mut all = Vec::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(page.instance_statuses().iter().filter_map(health));
        });
        Ok(all)
    }
}

fn health(status: &InstanceStatus) -> Option<InstanceHealth> {
    let event = |e: &aws_sdk_ec2::types::InstanceStatusEvent| ScheduledEvent {
        id: owned(e.instance_event_id()),
        code: owned(e.code().map(|c| c.as_str())),
        description: owned(e.description()),
        not_before: e.not_before().and_then(timestamp),
        not_after: e.not_after().and_then(timestamp),
    };
    let draining = |e: &ScheduledEvent| !e.is_over() && DRAINING_EVENTS.contains(&e.code.as_str());
    Some(InstanceHealth {
        instance_id: status.instance_id()?.to_owned(),
        zone: owned(status.availability_zone()),
        instance_impaired_since: status.instance_status().and_then(impaired_since),
        system_impaired_since: status.system_status().and_then(impaired_since),
        events: status.events().iter().map(event).filter(draining).collect(),
    })
}

/// The first failed check that says since when.
fn impaired_since(summary: &InstanceStatusSummary) -> Option<Timestamp> {
    let failed = summary.details().iter().filter(|d| d.status() == Some(&StatusType::Failed));
    failed.filter_map(|d| d.impaired_since().and_then(timestamp)).min()
}

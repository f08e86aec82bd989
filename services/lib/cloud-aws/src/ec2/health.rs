//! Impaired instances, scheduled events, and instances that end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_ec2::types::{Filter, InstanceStatus, InstanceStatusSummary, StatusType};
use cloud::error::CloudError;
use cloud::queue::{DRAINING_EVENTS, InstanceHealth, ScheduledEvent};
use futures::FutureExt;
use futures::future::join_all;
use jiff::Timestamp;

use super::instances::{FILTER_VALUES, unanswered};
use super::{Calls, Ec2, pages};
use crate::batch::{Batcher, Window};
use crate::convert::{filter, owned, timestamp};

const OPERATION: &str = "DescribeInstanceStatus";
const SPOT_REQUESTS: &str = "DescribeSpotInstanceRequests";
const PAGE: i32 = 1000;
/// Codes of a spot request whose instance EC2 takes back.
const MARKED: [&str; 2] = ["marked-for-termination", "marked-for-stop"];
/// Short: an interruption leaves two minutes, and its handling waits for the answer.
const WINDOW: Window =
    Window { idle: Duration::from_millis(20), max: Duration::from_millis(100), items: FILTER_VALUES };

pub(super) type EndingBatcher = Batcher<(), String, Result<bool, CloudError>>;

/// Asks about single instances together.
pub(super) fn ending_batcher(calls: Calls) -> EndingBatcher {
    Batcher::new(WINDOW, move |(), ids: Vec<String>| {
        let calls = calls.clone();
        async move {
            let (alive, marked) = tokio::join!(calls.alive(&ids), calls.marked(&ids));
            let answer = |id: &String| match (&alive, &marked) {
                (_, Ok(marked)) if marked.contains(id) => Ok(true),
                (Ok(alive), _) if !alive.contains(id) => Ok(true),
                (Err(error), _) | (_, Err(error)) => Err(error.clone()),
                (Ok(_), Ok(_)) => Ok(false),
            };
            ids.iter().map(answer).collect()
        }
        .boxed()
    })
}

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

    /// An error about some does not hide what is known of the others.
    pub(crate) async fn ending(&self, ids: Vec<String>) -> Result<BTreeSet<String>, CloudError> {
        let asked = ids.into_iter().map(|id| async {
            let answer = self.endings.ask((), id.clone()).await;
            (id, answer.unwrap_or_else(|| unanswered(SPOT_REQUESTS)))
        });
        let (mut ending, mut failure) = (BTreeSet::new(), None);
        for (id, answer) in join_all(asked).await {
            match answer {
                Ok(true) => drop(ending.insert(id)),
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if ending.is_empty() => Err(error),
            _ => Ok(ending),
        }
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

impl Calls {
    /// Instances that EC2 knows and that are neither stopped nor on their way to it.
    async fn alive(&self, ids: &[String]) -> Result<BTreeSet<String>, CloudError> {
        let found = self.by_ids(ids).await?;
        Ok(found.into_values().filter(|instance| instance.state.is_alive()).map(|i| i.id).collect())
    }

    async fn marked(&self, ids: &[String]) -> Result<BTreeSet<String>, CloudError> {
        let call = self
            .client
            .describe_spot_instance_requests()
            .filters(filter("instance-id", ids.iter().map(String::as_str)))
            .filters(filter("status-code", MARKED));
        let mut all = BTreeSet::new();
        pages!(self.paces.describe, SPOT_REQUESTS, call.into_paginator().page_size(PAGE).send(), |page| {
            let requests = page.spot_instance_requests().iter();
            all.extend(requests.filter_map(|request| request.instance_id().map(str::to_owned)));
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

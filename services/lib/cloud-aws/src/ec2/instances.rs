//! Instances: listing, looking at some, tagging, ending.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_ec2::types::Filter;
use cloud::Tags;
use cloud::error::{CloudError, ErrorKind};
use cloud::instance::{Instance, InstanceState, Lifecycle};
use cloud::select::TagFilter;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::{Calls, Ec2, paced, pages};
use crate::batch::{Batcher, Window};
use crate::convert::{count, ec2_tags, filter, owned, present, tag_filters, tags, timestamp};

const DESCRIBE: &str = "DescribeInstances";
const TERMINATE: &str = "TerminateInstances";
const PAGE: i32 = 1000;
/// Most values EC2 takes in one filter.
pub(super) const FILTER_VALUES: usize = 200;
const WINDOW: Window = Window { idle: Duration::from_millis(100), max: Duration::from_secs(1), items: 500 };

pub(super) type DescribeBatcher = Batcher<(), String, Result<Option<Instance>, CloudError>>;
pub(super) type TerminateBatcher = Batcher<(), String, Result<InstanceState, CloudError>>;

/// Looks at single instances together. Asked by filter, so that an unknown id is an absent instance and not an error
/// for all the others.
pub(super) fn describe_batcher(calls: Calls) -> DescribeBatcher {
    Batcher::new(WINDOW, move |(), ids: Vec<String>| {
        let calls = calls.clone();
        async move {
            let found = calls.by_ids(&ids).await;
            let answer = |id: &String| match &found {
                Ok(found) => Ok(found.get(id).cloned()),
                Err(error) => Err(error.clone()),
            };
            ids.iter().map(answer).collect()
        }
        .boxed()
    })
}

pub(super) fn terminate_batcher(calls: Calls) -> TerminateBatcher {
    Batcher::new(WINDOW, move |(), ids: Vec<String>| {
        let calls = calls.clone();
        async move {
            let mut unique = ids.clone();
            unique.sort();
            unique.dedup();
            let answers: BTreeMap<String, _> = calls.terminate(unique).await.into_iter().collect();
            let missing = || Err(CloudError::malformed(TERMINATE, "EC2 said nothing about the instance"));
            ids.iter().map(|id| answers.get(id).cloned().unwrap_or_else(missing)).collect()
        }
        .boxed()
    })
}

pub(super) fn unanswered<T>(operation: &'static str) -> Result<T, CloudError> {
    Err(CloudError::unreachable(operation, "the call ended without an answer"))
}

impl Ec2 {
    pub(crate) async fn instances_by_id(&self, ids: Vec<String>) -> Result<Vec<Instance>, CloudError> {
        let asked = ids.into_iter().map(|id| self.describes.ask((), id));
        let mut found = Vec::new();
        for answer in join_all(asked).await {
            found.extend(answer.unwrap_or_else(|| unanswered(DESCRIBE))?);
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup_by(|a, b| a.id == b.id);
        Ok(found)
    }

    pub(crate) async fn instances_by_tags(&self, tags: &[TagFilter]) -> Result<Vec<Instance>, CloudError> {
        if tags.is_empty() {
            return Err(CloudError::invalid(DESCRIBE, "no tag is named: that would be every instance"));
        }
        Ok(self.calls.list(tag_filters(tags)).await?.into_values().collect())
    }

    pub(crate) async fn terminate(
        &self,
        ids: Vec<String>,
    ) -> Vec<(String, Result<InstanceState, CloudError>)> {
        let asked = ids.into_iter().map(|id| async move {
            let answer = self.terminations.ask((), id.clone()).await;
            (id, answer.unwrap_or_else(|| unanswered(TERMINATE)))
        });
        join_all(asked).await
    }

    pub(crate) async fn tag_instance(&self, id: &str, tags: &Tags) -> Result<(), CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client.create_tags().resources(id).set_tags(Some(ec2_tags(tags)));
        paced(&paces.tag, "CreateTags", call.send()).await.map(drop)
    }
}

impl Calls {
    pub(super) async fn by_ids(&self, ids: &[String]) -> Result<BTreeMap<String, Instance>, CloudError> {
        let mut unique: Vec<&String> = ids.iter().collect();
        unique.sort();
        unique.dedup();
        let mut found = BTreeMap::new();
        for some in unique.chunks(FILTER_VALUES) {
            let ids = some.iter().map(|id| id.as_str());
            found.append(&mut self.list(vec![filter("instance-id", ids)]).await?);
        }
        Ok(found)
    }

    /// All that match and are not gone, by id.
    async fn list(&self, filters: Vec<Filter>) -> Result<BTreeMap<String, Instance>, CloudError> {
        let states = InstanceState::LISTED.map(InstanceState::as_str);
        let call = self
            .client
            .describe_instances()
            .set_filters(Some(filters))
            .filters(filter("instance-state-name", states));
        let mut all = BTreeMap::new();
        pages!(self.paces.describe, DESCRIBE, call.into_paginator().page_size(PAGE).send(), |page| {
            let found = page.reservations().iter().flat_map(|r| r.instances()).filter_map(instance);
            all.extend(found.map(|i| (i.id.clone(), i)));
        });
        Ok(all)
    }

    /// One bad id fails the whole call, so a refused call is tried in halves: the good ones go, the bad ones are named.
    /// What may pass by itself (throttling, faults of EC2) is told to all instead of adding to the load.
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<(String, Result<InstanceState, CloudError>)>> {
        async move {
            let call = self.client.terminate_instances().set_instance_ids(Some(ids.clone()));
            match paced(&self.paces.terminate, TERMINATE, call.send()).await {
                Ok(answer) => answer
                    .terminating_instances()
                    .iter()
                    .filter_map(|change| {
                        let state = change.current_state().and_then(|s| s.name()).map(|n| n.as_str());
                        let state = InstanceState::parse(state.unwrap_or_default());
                        Some((change.instance_id()?.to_owned(), Ok(state)))
                    })
                    .collect(),
                Err(error) if ids.len() > 1 && !error.is_retryable() => {
                    let rest = ids[ids.len() / 2..].to_vec();
                    let first = ids[..ids.len() / 2].to_vec();
                    let mut answers = self.terminate(first).await;
                    // Without permission for anything there is no point in asking for each.
                    let hopeless = error.kind == ErrorKind::Unauthorized
                        && answers.iter().all(|(_, answer)| answer.is_err());
                    if hopeless {
                        answers.extend(rest.into_iter().map(|id| (id, Err(error.clone()))));
                    } else {
                        answers.extend(self.terminate(rest).await);
                    }
                    answers
                }
                Err(error) => ids.into_iter().map(|id| (id, Err(error.clone()))).collect(),
            }
        }
        .boxed()
    }
}

fn instance(found: &aws_sdk_ec2::types::Instance) -> Option<Instance> {
    let placement = found.placement();
    let profile = found.iam_instance_profile().and_then(|p| p.arn());
    let preference =
        found.capacity_reservation_specification().and_then(|s| s.capacity_reservation_preference());
    let efa = found
        .network_interfaces()
        .iter()
        .filter(|i| i.interface_type().is_some_and(|kind| kind == "efa" || kind == "efa-only"));
    let lifecycle = match found.instance_lifecycle().map(|l| l.as_str()) {
        Some("spot") => Lifecycle::Spot,
        Some("capacity-block") => Lifecycle::CapacityBlock,
        Some("interruptible-capacity-reservation") => Lifecycle::InterruptibleReservation,
        _ => Lifecycle::OnDemand,
    };
    let state = found.state().and_then(|s| s.name()).map(|n| n.as_str());
    Some(Instance {
        id: found.instance_id()?.to_owned(),
        state: InstanceState::parse(state.unwrap_or_default()),
        instance_type: owned(found.instance_type().map(|t| t.as_str())),
        image_id: owned(found.image_id()),
        architecture: owned(found.architecture().map(|a| a.as_str())),
        zone: owned(placement.and_then(|p| p.availability_zone())),
        zone_id: present(placement.and_then(|p| p.availability_zone_id())),
        subnet_id: present(found.subnet_id()),
        security_group_ids: found
            .security_groups()
            .iter()
            .filter_map(|g| g.group_id().map(str::to_owned))
            .collect(),
        private_dns_name: present(found.private_dns_name()),
        private_ip: present(found.private_ip_address()),
        launched_at: found.launch_time().and_then(timestamp),
        lifecycle,
        spot_request_id: present(found.spot_instance_request_id()),
        reservation_id: present(found.capacity_reservation_id()),
        reservations_only: preference.is_some_and(|p| p.as_str() == "capacity-reservations-only"),
        tenancy: placement.and_then(|p| p.tenancy()).map_or("default", |t| t.as_str()).to_owned(),
        placement_group_id: present(placement.and_then(|p| p.group_id())),
        partition: placement.and_then(|p| p.partition_number()).map(|n| count(Some(n))).filter(|n| *n > 0),
        efa_interfaces: u32::try_from(efa.count()).unwrap_or(u32::MAX),
        instance_profile: profile.and_then(|arn| arn.rsplit('/').next()).map(str::to_owned),
        tags: tags(found.tags()),
    })
}

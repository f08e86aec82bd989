//! Placement groups.

use cloud::error::CloudError;
use cloud::nodeclass::{PlacementGroup, PlacementGroupSelect, PlacementStrategy};

use super::{Calls, Ec2, paced};
use crate::convert::{count, filter, owned};

const OPERATION: &str = "DescribePlacementGroups";

impl Ec2 {
    pub(crate) async fn placement_group(
        &self,
        select: PlacementGroupSelect,
    ) -> Result<Option<PlacementGroup>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client.describe_placement_groups().filters(filter("state", ["available"]));
        let call = match select {
            PlacementGroupSelect::Id(id) => call.group_ids(id),
            PlacementGroupSelect::Name(name) => call.group_names(name),
        };
        let answer = paced(&paces.describe, OPERATION, call.send()).await?;
        answer.placement_groups().first().map(group).transpose()
    }
}

fn group(found: &aws_sdk_ec2::types::PlacementGroup) -> Result<PlacementGroup, CloudError> {
    let strategy = match found.strategy().map(|s| s.as_str()) {
        Some("cluster") => PlacementStrategy::Cluster,
        Some("partition") => PlacementStrategy::Partition(count(found.partition_count())),
        Some("spread") => PlacementStrategy::Spread,
        other => {
            let text =
                format!("placement group {} has an unknown strategy {other:?}", owned(found.group_id()));
            return Err(CloudError::malformed(OPERATION, text));
        }
    };
    Ok(PlacementGroup { id: owned(found.group_id()), name: owned(found.group_name()), strategy })
}

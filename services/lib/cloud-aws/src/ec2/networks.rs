//! Subnets and security groups.

use aws_sdk_ec2::types::Filter;
use cloud::error::CloudError;
use cloud::nodeclass::{SecurityGroup, Subnet};
use cloud::select::Select;

use super::{Calls, Ec2, pages};
use crate::convert::{count, filter, owned, present, tag_filters, tags};

const PAGE: i32 = 500;

impl Ec2 {
    pub(crate) async fn subnets(&self, select: Select) -> Result<Vec<Subnet>, CloudError> {
        const OPERATION: &str = "DescribeSubnets";
        let filters = match select {
            Select::Ids(ids) => vec![filter("subnet-id", ids)],
            Select::Tags(tags) => tag_filters(&tags),
            Select::Names(_) | Select::NameAndTags(..) => {
                return Err(CloudError::invalid(OPERATION, "subnets have no names: select by id or tags"));
            }
        };
        refuse_everything(OPERATION, &filters)?;
        let Calls { client, paces } = &self.calls;
        let call = client.describe_subnets().set_filters(Some(filters));
        let mut all = Vec::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(page.subnets().iter().filter_map(|s| {
                Some(Subnet {
                    id: s.subnet_id()?.to_owned(),
                    zone: owned(s.availability_zone()),
                    zone_id: owned(s.availability_zone_id()),
                    vpc_id: owned(s.vpc_id()),
                    free_addresses: count(s.available_ip_address_count()),
                    tags: tags(s.tags()),
                })
            }));
        });
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    pub(crate) async fn security_groups(&self, select: Select) -> Result<Vec<SecurityGroup>, CloudError> {
        const OPERATION: &str = "DescribeSecurityGroups";
        let filters = match select {
            Select::Ids(ids) => vec![filter("group-id", ids)],
            Select::Names(names) => vec![filter("group-name", names)],
            Select::Tags(tags) => tag_filters(&tags),
            Select::NameAndTags(..) => {
                return Err(CloudError::invalid(OPERATION, "select security groups by id, name or tags"));
            }
        };
        refuse_everything(OPERATION, &filters)?;
        let Calls { client, paces } = &self.calls;
        let call = client.describe_security_groups().set_filters(Some(filters));
        let mut all = Vec::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(page.security_groups().iter().filter_map(|g| {
                Some(SecurityGroup {
                    id: g.group_id()?.to_owned(),
                    name: owned(g.group_name()),
                    vpc_id: present(g.vpc_id()),
                    tags: tags(g.tags()),
                })
            }));
        });
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }
}

/// A selection without any condition would mean all of the account.
pub(super) fn refuse_everything(operation: &'static str, filters: &[Filter]) -> Result<(), CloudError> {
    let empty = filters.is_empty() || filters.iter().any(|f| f.values().is_empty());
    if empty { Err(CloudError::invalid(operation, "nothing is selected")) } else { Ok(()) }
}

//! Images.

use cloud::error::CloudError;
use cloud::nodeclass::{Image, ImageQuery};
use cloud::select::Select;
use jiff::Timestamp;

use super::networks::refuse_everything;
use super::{Calls, Ec2, pages};
use crate::convert::{filter, owned, tag_filters, tags};

const OPERATION: &str = "DescribeImages";
const PAGE: i32 = 1000;

impl Ec2 {
    pub(crate) async fn images(&self, query: ImageQuery) -> Result<Vec<Image>, CloudError> {
        let filters = match query.select {
            Select::Ids(ids) => vec![filter("image-id", ids)],
            Select::Names(names) => vec![filter("name", names)],
            Select::Tags(tags) => tag_filters(&tags),
            Select::NameAndTags(name, tags) => {
                let mut all = tag_filters(&tags);
                all.push(filter("name", [name]));
                all
            }
        };
        refuse_everything(OPERATION, &filters)?;
        let Calls { client, paces } = &self.calls;
        let owners = (!query.owners.is_empty()).then_some(query.owners);
        let call = client
            .describe_images()
            .set_owners(owners)
            .include_deprecated(true)
            .set_filters(Some(filters))
            .filters(filter("state", ["available"]));
        let mut all = Vec::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(page.images().iter().filter_map(image));
        });
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.dedup_by(|a, b| a.id == b.id);
        Ok(all)
    }
}

fn image(found: &aws_sdk_ec2::types::Image) -> Option<Image> {
    let time = |text: Option<&str>| text.and_then(|t| t.parse::<Timestamp>().ok());
    Some(Image {
        id: found.image_id()?.to_owned(),
        name: owned(found.name()),
        architecture: owned(found.architecture().map(|a| a.as_str())),
        owner_id: owned(found.owner_id()),
        created_at: time(found.creation_date()),
        deprecated_at: time(found.deprecation_time()),
        tags: tags(found.tags()),
    })
}

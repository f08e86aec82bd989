//! Small conversions between SDK types and plain ones.

use aws_sdk_ec2::types::{Filter, Tag};
use cloud::Tags;
use cloud::select::TagFilter;
use jiff::Timestamp;

pub(crate) fn timestamp(at: &aws_smithy_types::DateTime) -> Option<Timestamp> {
    Timestamp::new(at.secs(), i32::try_from(at.subsec_nanos()).ok()?).ok()
}

/// Negative and missing figures become 0.
pub(crate) fn count(figure: Option<i32>) -> u32 {
    figure.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

pub(crate) fn size(figure: Option<i64>) -> u64 {
    figure.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// EC2 takes figures as i32; what does not fit is sent as the largest, for EC2 to refuse.
pub(crate) fn figure(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

pub(crate) fn owned(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

/// Empty text counts as missing.
pub(crate) fn present(text: Option<&str>) -> Option<String> {
    text.filter(|t| !t.is_empty()).map(str::to_owned)
}

pub(crate) fn tags(list: &[Tag]) -> Tags {
    list.iter().filter_map(|tag| Some((tag.key()?.to_owned(), owned(tag.value())))).collect()
}

pub(crate) fn ec2_tags(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

pub(crate) fn filter(name: &str, values: impl IntoIterator<Item = impl Into<String>>) -> Filter {
    let values = values.into_iter().map(Into::into).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

pub(crate) fn tag_filters(tags: &[TagFilter]) -> Vec<Filter> {
    tags.iter()
        .map(|tag| match &tag.value {
            Some(value) => filter(&format!("tag:{}", tag.key), [value.as_str()]),
            None => filter("tag-key", [tag.key.as_str()]),
        })
        .collect()
}

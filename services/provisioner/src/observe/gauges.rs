//! Gauges with labels that are known only when they are written.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Name and value of each label.
pub(super) type Labels<'a> = Vec<(&'a str, &'a str)>;

/// One metric with all its series.
pub(super) fn write<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (Labels<'a>, f64)>,
) -> Result<(), fmt::Error> {
    let mut series = series.peekable();
    // A name without series would still fill the page.
    if series.peek().is_none() {
        return Ok(());
    }
    let mut into = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        let shown =
            |(name, value)| (name, if name == RESOURCE { resource_type(value) } else { value.into() });
        let labels: Vec<(&str, Cow<'_, str>)> = labels.into_iter().map(shown).collect();
        ConstGauge::new(value).encode(into.encode_family(&labels)?)?;
    }
    Ok(())
}

pub(super) const RESOURCE: &str = "resource_type";

/// A resource as the reference's metrics name it: `ephemeral-storage` is `ephemeral_storage`.
pub(crate) fn resource_type(resource: &str) -> Cow<'_, str> {
    if resource.bytes().any(|byte| byte == b'-' || byte.is_ascii_uppercase()) {
        return resource.to_ascii_lowercase().replace('-', "_").into();
    }
    resource.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_named_as_boards_ask_for_them() {
        for (resource, named) in [
            ("cpu", "cpu"),
            ("ephemeral-storage", "ephemeral_storage"),
            ("hugepages-1Gi", "hugepages_1gi"),
            ("nvidia.com/gpu", "nvidia.com/gpu"),
        ] {
            assert_eq!(resource_type(resource), named);
        }
    }
}

//! Gauges with labels that are known only when they are written.

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
        ConstGauge::new(value).encode(into.encode_family(&labels)?)?;
    }
    Ok(())
}

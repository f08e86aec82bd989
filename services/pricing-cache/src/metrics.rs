//! Every metric of this service. Names and labels of the reference come first; the offering figures are computed from the
//! newest catalogue when someone scrapes, so that nothing has to be kept in step.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud::catalog::RejectedPrice;
use cloud::error::CloudError;
use cloud::unavailable::Offered;
use jiff::Timestamp;
use model::catalog::CapacityType;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use runtime::Metrics;

use crate::catalogue::Catalogue;
use crate::feeds::Feed;
use crate::published::{Latest, Published};

/// The reference's buckets for durations, in seconds.
const SECONDS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeedResult {
    feed: &'static str,
    /// `success`, or the kind of error.
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeedName {
    feed: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeedReason {
    feed: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct PricingMetrics {
    refreshes: Family<FeedResult, Counter>,
    seconds: Family<FeedName, Histogram, fn() -> Histogram>,
    last_success: Family<FeedName, Gauge>,
    rejected: Family<FeedReason, Counter>,
    malformed: Family<Named, Counter>,
    version: Gauge,
    marks: Gauge,
    pub(crate) subscribers: Gauge,
}

impl PricingMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let own = Self {
            refreshes: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            last_success: Family::default(),
            rejected: Family::default(),
            malformed: Family::default(),
            version: Gauge::default(),
            marks: Gauge::default(),
            subscribers: Gauge::default(),
        };
        metrics.register(
            "karpenter_pricing_refreshes_total",
            "Reads of types, prices, reservations and shifts, by result",
            own.refreshes.clone(),
        );
        metrics.register(
            "karpenter_pricing_refresh_duration_seconds",
            "Duration of one read",
            own.seconds.clone(),
        );
        metrics.register(
            "karpenter_pricing_last_success_timestamp_seconds",
            "Time of the last successful read of a feed, as a Unix timestamp",
            own.last_success.clone(),
        );
        metrics.register(
            "karpenter_pricing_rejected_entries_total",
            "Implausible entries of an answer that were ignored, by reason",
            own.rejected.clone(),
        );
        metrics.register(
            "karpenter_pricing_malformed_entries_total",
            "Invalid entries of the stored ConfigMaps that were ignored",
            own.malformed.clone(),
        );
        metrics.register(
            "karpenter_pricing_catalog_version",
            "Version of the newest catalogue",
            own.version.clone(),
        );
        metrics.register(
            "karpenter_pricing_unavailable_offerings",
            "Entries of the ICE cache that are in effect",
            own.marks.clone(),
        );
        metrics.register("karpenter_pricing_subscribers", "Open catalogue streams", own.subscribers.clone());
        own
    }

    pub(crate) fn asked(&self, feed: Feed, took: Duration, error: Option<&CloudError>) {
        let feed = feed.as_str();
        let result = error.map_or("success", |error| error.kind.as_str());
        self.refreshes.get_or_create(&FeedResult { feed, result }).inc();
        self.seconds.get_or_create(&FeedName { feed }).observe(took.as_secs_f64());
    }

    pub(crate) fn succeeded(&self, feed: Feed, at: Timestamp) {
        self.last_success.get_or_create(&FeedName { feed: feed.as_str() }).set(at.as_second());
    }

    pub(crate) fn rejected(&self, feed: Feed, rejected: &BTreeMap<RejectedPrice, u64>) {
        for (reason, count) in rejected {
            let labels = FeedReason { feed: feed.as_str(), reason: reason.as_str() };
            self.rejected.get_or_create(&labels).inc_by(*count);
        }
    }

    pub(crate) fn left_out_types(&self, count: usize) {
        let labels = FeedReason { feed: Feed::InstanceTypes.as_str(), reason: "incomplete" };
        self.rejected.get_or_create(&labels).inc_by(count as u64);
    }

    pub(crate) fn malformed(&self, configmap: &'static str, entries: usize) {
        self.malformed.get_or_create(&Named { name: configmap }).inc_by(entries as u64);
    }

    pub(crate) fn published(&self, published: &Published) {
        self.version.set(i64::try_from(published.version).unwrap_or(i64::MAX));
        self.marks.set(i64::try_from(published.catalogue.marks.len()).unwrap_or(i64::MAX));
    }
}

/// The reference's gauges of types and offerings.
#[derive(Debug)]
pub(crate) struct OfferingCollector {
    pub(crate) latest: Latest,
    pub(crate) reserved_capacity: bool,
}

impl std::fmt::Debug for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Published").field("version", &self.version).finish_non_exhaustive()
    }
}

type Labels<'a> = [(&'static str, &'a str); 3];

impl Collector for OfferingCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(published) = self.latest.borrow().clone() else { return Ok(()) };
        let catalogue = &published.catalogue;
        let offerings = offerings(catalogue, self.reserved_capacity);
        let mut family = encoder.encode_descriptor(
            "karpenter_cloudprovider_instance_type_offering_price_estimate",
            "Instance type offering estimated hourly price used when making informed decisions on node cost calculation",
            None,
            MetricType::Gauge,
        )?;
        for offering in offerings.iter() {
            if let Some(price) = offering.price {
                ConstGauge::new(price).encode(family.encode_family(&offering.labels)?)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "karpenter_cloudprovider_instance_type_offering_available",
            "Instance type offering availability, based on instance type, capacity type, and zone",
            None,
            MetricType::Gauge,
        )?;
        for offering in &offerings {
            ConstGauge::new(i64::from(offering.available)).encode(family.encode_family(&offering.labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "karpenter_cloudprovider_instance_type_cpu_cores",
            "VCPUs cores for a given instance type",
            None,
            MetricType::Gauge,
        )?;
        for entry in catalogue.entries.iter() {
            let labels = [("instance_type", entry.facts.name.as_str())];
            ConstGauge::new(i64::from(entry.facts.vcpus)).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "karpenter_cloudprovider_instance_type_memory_bytes",
            "Memory, in bytes, for a given instance type",
            None,
            MetricType::Gauge,
        )?;
        for entry in catalogue.entries.iter() {
            let labels = [("instance_type", entry.facts.name.as_str())];
            let bytes = i64::try_from(entry.facts.memory_mib).unwrap_or(i64::MAX).saturating_mul(1 << 20);
            ConstGauge::new(bytes).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

struct Row<'a> {
    labels: Labels<'a>,
    price: Option<f64>,
    available: bool,
}

/// One row for every type, zone it is sold in and way of buying it. Subnets are a matter of node classes and do not count.
fn offerings(catalogue: &Catalogue, reserved_capacity: bool) -> Vec<Row<'_>> {
    let marks = catalogue.marks();
    let mut rows = Vec::with_capacity(catalogue.entries.len() * 8);
    for entry in catalogue.entries.iter() {
        let name = entry.facts.name.as_str();
        for (index, zone) in catalogue.zones.iter().enumerate().filter(|(index, _)| entry.offered_in(*index))
        {
            let offered = |capacity_type, reservation_id| Offered {
                instance_type: name,
                zone: &zone.name,
                capacity_type,
                reservation_id,
                placement_group_id: None,
                subnet_ids: &[],
            };
            let labels = |capacity_type: CapacityType| -> Labels<'_> {
                [("instance_type", name), ("capacity_type", capacity_type.as_str()), ("zone", &zone.name)]
            };
            for (capacity_type, price) in
                [(CapacityType::OnDemand, entry.on_demand), (CapacityType::Spot, entry.spot_price(index))]
            {
                if entry.facts.usage_classes.iter().any(|class| class == capacity_type.as_str()) {
                    let open = price.is_some() && !zone.shifted;
                    let available = open && !marks.is_unavailable(&offered(capacity_type, None));
                    rows.push(Row {
                        labels: labels(capacity_type),
                        price: price.map(|p| p.to_f64()),
                        available,
                    });
                }
            }
            if reserved_capacity {
                let available = catalogue.reservations.iter().any(|(held, state)| {
                    held.instance_type == name
                        && held.zone == zone.name
                        && held.available > 0
                        && !zone.shifted
                        && *state == cloud::reservation::ReservationState::Active
                        && !marks.is_unavailable(&offered(CapacityType::Reserved, Some(&held.id)))
                });
                rows.push(Row { labels: labels(CapacityType::Reserved), price: None, available });
            }
        }
    }
    rows
}

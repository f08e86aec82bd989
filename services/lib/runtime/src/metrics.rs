//! The registry of one service, the families that every service has, and the text a scraper reads.
//!
//! Names are given as they come out: the Prometheus library appends `_total` to counters by itself, so [`Metrics::register`]
//! takes it off first and `foo_total` stays `foo_total`.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use prometheus_client::{
    collector::Collector,
    encoding::{EncodeLabelSet, text},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};

use crate::{
    Service, kube_calls,
    kube_limits::WatchAges,
    metrics_page::{Format, Page},
    process_metrics::ProcessCollector,
};

/// Seconds; from a cached answer on loopback to a long solve.
const RPC_BUCKETS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RpcLabels {
    pub grpc_service: String,
    pub grpc_method: String,
    pub grpc_code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RpcMethod {
    pub grpc_service: String,
    pub grpc_method: String,
}

/// Of `karpenter_nodeclaims_disrupted_total`, which several services count: each the claims that it deletes.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Disrupted {
    pub reason: &'static str,
    pub nodepool: String,
    pub capacity_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Reason {
    pub reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Kind {
    pub kind: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Name {
    pub name: String,
}

/// Calls by method and code, and how long they took, on one side of the wire.
#[derive(Clone, Debug)]
pub struct RpcFamilies {
    pub handled: Family<RpcLabels, Counter>,
    pub seconds: Family<RpcMethod, Histogram, fn() -> Histogram>,
}

impl Default for RpcFamilies {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(RPC_BUCKETS);
        Self { handled: Family::default(), seconds: Family::new_with_constructor(histogram) }
    }
}

/// Cheap to clone. The families here are for the runtime's own parts; a service registers its own.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
    pub(crate) rpc_server: RpcFamilies,
    pub(crate) rpc_client: RpcFamilies,
    pub(crate) refused: Family<Reason, Counter>,
    pub(crate) watch_errors: Family<Kind, Counter>,
    pub(crate) watch_malformed: Family<Kind, Counter>,
    pub(crate) leader: Family<Name, Gauge>,
    pub(crate) events_dropped: Counter,
}

impl Metrics {
    pub fn new(service: Service) -> Self {
        let metrics = Self {
            registry: Arc::new(RwLock::new(Registry::default())),
            rpc_server: RpcFamilies::default(),
            rpc_client: RpcFamilies::default(),
            refused: Family::default(),
            watch_errors: Family::default(),
            watch_malformed: Family::default(),
            leader: Family::default(),
            events_dropped: Counter::default(),
        };
        let m = &metrics;
        m.register(
            "grpc_server_handled_total",
            "RPCs answered, by method and code",
            m.rpc_server.handled.clone(),
        );
        m.register("grpc_server_handling_seconds", "Time to answer an RPC", m.rpc_server.seconds.clone());
        m.register(
            "grpc_client_handled_total",
            "RPCs made, by method and code",
            m.rpc_client.handled.clone(),
        );
        m.register(
            "grpc_client_handling_seconds",
            "Time of an RPC as its caller sees it",
            m.rpc_client.seconds.clone(),
        );
        m.register(
            "karpenter_rpc_refused_total",
            "RPCs refused before their handler, by reason",
            m.refused.clone(),
        );
        m.register(
            "karpenter_watch_errors_total",
            "Failed lists and watches, by kind",
            m.watch_errors.clone(),
        );
        m.register(
            "karpenter_watch_malformed_objects_total",
            "Objects skipped because they do not parse, by kind",
            m.watch_malformed.clone(),
        );
        m.register("leader_election_master_status", "1 while this replica leads", m.leader.clone());
        m.register(
            "karpenter_events_dropped_total",
            "Kubernetes Events given up because too many were waiting",
            m.events_dropped.clone(),
        );
        m.register_collector(ProcessCollector::new(service));
        m.register_collector(WatchAges);
        kube_calls::register(m);
        metrics
    }

    /// `name` exactly as it is to be scraped.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        let is_counter = matches!(metric.metric_type(), MetricType::Counter);
        let name = if is_counter { name.strip_suffix("_total").unwrap_or(name) } else { name };
        self.registry().register(name, help, metric);
    }

    /// For values that are computed when someone scrapes.
    pub fn register_collector(&self, collector: impl Collector) {
        self.registry().register_collector(Box::new(collector));
    }

    /// The whole page, handed to `sink` in pieces. Metrics that are counted come before those that are computed now.
    pub(crate) fn write(&self, format: Format, sink: impl FnMut(String) -> fmt::Result) -> fmt::Result {
        let mut page = Page::new(format, sink);
        text::encode(&mut page, &self.read())?;
        page.end()
    }

    pub fn prometheus_text(&self) -> String {
        let mut out = String::new();
        let kept = self.write(Format::Prometheus, |piece| {
            out.push_str(&piece);
            Ok(())
        });
        kept.expect("a String takes every write");
        out
    }

    // A panic while encoding leaves the registry as it was.
    fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_out_under_exactly_the_name_they_were_given() {
        let metrics = Metrics::new(Service::Provisioner);
        let created = Family::<Reason, Counter>::default();
        created.get_or_create(&Reason { reason: "provisioned" }).inc();
        metrics.register("karpenter_nodeclaims_created_total", "Created", created);
        let cost: Gauge = Gauge::default();
        metrics.register("karpenter_nodepools_cost_total", "A gauge whose name ends so", cost);

        let text = metrics.prometheus_text();
        assert!(text.contains("# TYPE karpenter_nodeclaims_created_total counter\n"), "{text}");
        assert!(text.contains("karpenter_nodeclaims_created_total{reason=\"provisioned\"} 1\n"), "{text}");
        assert!(
            text.contains("# TYPE karpenter_nodepools_cost_total gauge\nkarpenter_nodepools_cost_total 0\n")
        );
        assert!(!text.contains("_total_total") && !text.contains("# EOF"));
    }

    #[test]
    fn every_service_tells_about_its_process_and_build() {
        let text = Metrics::new(Service::PricingCache).prometheus_text();
        let value = |name: &str| -> f64 {
            let line =
                text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_open_fds ") >= 3.0);
        assert!(value("process_cpu_seconds_total ") >= 0.0);
        let age = jiff::Timestamp::now().as_second() as f64 - value("process_start_time_seconds ");
        assert!((-5.0..86_400.0).contains(&age), "{age}");
        assert!(text.contains("karpenter_build_info{"), "{text}");
    }
}

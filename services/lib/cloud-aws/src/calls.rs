//! What calls to AWS cost and how they end, under the reference's metric names: one set of families, counted here for every
//! service that holds an [`crate::Aws`], and registered by each as one collector.
//!
//! ```text
//! karpenter_cloudprovider_duration_seconds, _errors_total   what a service asked of the cloud, whatever it took
//! karpenter_cloudprovider_batcher_batch_*                   single requests that were merged into one call
//! aws_sdk_go_request_*                                      requests to AWS, each attempt; the name is the reference's
//! ```

use std::time::Duration;

use cloud::error::{CloudError, ErrorKind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// The reference's buckets for durations, in seconds.
const SECONDS: [f64; 45] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 150.0, 300.0, 450.0, 600.0,
];
const BATCH_SIZES: [f64; 34] = [
    1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 125.0,
    150.0, 175.0, 200.0, 225.0, 250.0, 275.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0, 700.0, 800.0,
    900.0, 1000.0,
];
const PROVIDER: &str = "aws";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Method {
    controller: &'static str,
    method: &'static str,
    provider: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailedMethod {
    controller: &'static str,
    method: &'static str,
    provider: &'static str,
    error: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BatcherName {
    batcher: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    service: String,
    action: String,
    /// HTTP status; empty when no answer came.
    code: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Cheap to clone; clones count together. Register one as a collector of the service's metrics.
#[derive(Clone, Debug)]
pub struct CallMetrics {
    methods: Histograms<Method>,
    failed: Family<FailedMethod, Counter>,
    batch_seconds: Histograms<BatcherName>,
    batch_sizes: Histograms<BatcherName>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histograms<RequestLabels>,
    attempts: Family<RequestLabels, Counter>,
    attempt_seconds: Histograms<RequestLabels>,
    retries: Histograms<RequestLabels>,
}

/// One request to AWS or one attempt at it, as it ended.
pub(crate) struct Ended<'a> {
    pub(crate) service: &'a str,
    pub(crate) action: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) took: Duration,
}

impl Default for CallMetrics {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let growing: fn() -> Histogram = || Histogram::new((0..20).map(|n| 0.01 * 1.5_f64.powi(n)));
        Self {
            methods: Family::new_with_constructor(seconds),
            failed: Family::default(),
            batch_seconds: Family::new_with_constructor(seconds),
            batch_sizes: Family::new_with_constructor(|| Histogram::new(BATCH_SIZES)),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(growing),
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(growing),
            retries: Family::new_with_constructor(|| Histogram::new((0..=10).map(f64::from))),
        }
    }
}

impl CallMetrics {
    /// For operations that a service makes up of several calls, such as the launch of a claim. `error` is the reference's name
    /// of the failure, empty for those that have none; `None`: it succeeded.
    pub fn called(
        &self,
        controller: &'static str,
        method: &'static str,
        took: Duration,
        error: Option<&'static str>,
    ) {
        let provider = PROVIDER;
        self.methods.get_or_create(&Method { controller, method, provider }).observe(took.as_secs_f64());
        if let Some(error) = error {
            self.failed.get_or_create(&FailedMethod { controller, method, provider, error }).inc();
        }
    }

    /// One more failure of a call that answered for several things at once.
    pub(crate) fn failed(&self, controller: &'static str, method: &'static str, error: &CloudError) {
        let labels = FailedMethod { controller, method, provider: PROVIDER, error: error_name(error) };
        self.failed.get_or_create(&labels).inc();
    }

    /// One call that `items` requests shared; the first of them waited for so long.
    pub fn batched(&self, batcher: &'static str, items: usize, open: Duration) {
        let name = BatcherName { batcher };
        self.batch_seconds.get_or_create(&name).observe(open.as_secs_f64());
        self.batch_sizes.get_or_create(&name).observe(items as f64);
    }

    pub(crate) fn attempted(&self, attempt: &Ended<'_>) {
        let labels = attempt.labels();
        self.attempts.get_or_create(&labels).inc();
        self.attempt_seconds.get_or_create(&labels).observe(attempt.took.as_secs_f64());
    }

    pub(crate) fn requested(&self, request: &Ended<'_>, attempts: u32) {
        let labels = request.labels();
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&labels).observe(request.took.as_secs_f64());
        self.retries.get_or_create(&labels).observe(f64::from(attempts.saturating_sub(1)));
    }
}

impl Ended<'_> {
    fn labels(&self) -> RequestLabels {
        RequestLabels {
            service: self.service.to_owned(),
            action: self.action.to_owned(),
            code: self.status.map(|status| status.to_string()).unwrap_or_default(),
        }
    }
}

/// The reference's name of a failure; empty where it has none.
pub(crate) fn error_name(error: &CloudError) -> &'static str {
    match error.kind {
        ErrorKind::NotFound => "NodeClaimNotFoundError",
        ErrorKind::Unfulfillable | ErrorKind::SubnetFull | ErrorKind::SpreadGroupFull => {
            "InsufficientCapacityError"
        }
        _ => "",
    }
}

impl Collector for CallMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        use MetricType::{Counter, Histogram};
        // The encoder appends `_total` to counters.
        let families: [(&str, &str, MetricType, &dyn EncodeMetric); 9] = [
            (
                "karpenter_cloudprovider_duration_seconds",
                "Time of calls to the cloud provider, by controller, method and provider",
                Histogram,
                &self.methods,
            ),
            (
                "karpenter_cloudprovider_errors",
                "Failed calls to the cloud provider, by controller, method, provider and error",
                Counter,
                &self.failed,
            ),
            (
                "karpenter_cloudprovider_batcher_batch_time_seconds",
                "How long a batch was open before it became one call",
                Histogram,
                &self.batch_seconds,
            ),
            (
                "karpenter_cloudprovider_batcher_batch_size",
                "Requests in a batch",
                Histogram,
                &self.batch_sizes,
            ),
            ("aws_sdk_go_request", "Requests to AWS", Counter, &self.requests),
            (
                "aws_sdk_go_request_duration_seconds",
                "Time of a request to AWS with its retries",
                Histogram,
                &self.request_seconds,
            ),
            ("aws_sdk_go_request_attempt", "Attempts at requests to AWS", Counter, &self.attempts),
            (
                "aws_sdk_go_request_attempt_duration_seconds",
                "Time of an attempt at a request to AWS",
                Histogram,
                &self.attempt_seconds,
            ),
            ("aws_sdk_go_request_retry_count", "Retries of a request to AWS", Histogram, &self.retries),
        ];
        for (name, help, kind, family) in families {
            family.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cloud::error::Fault;
    use prometheus_client::registry::Registry;

    use super::*;

    fn text(metrics: &CallMetrics) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut out = String::new();
        prometheus_client::encoding::text::encode(&mut out, &registry).unwrap();
        out
    }

    // Cases: SCH-J-16, SCH-J-18
    #[test]
    fn names_and_labels_are_the_reference_s() {
        let metrics = CallMetrics::default();
        metrics.called("nodeclaim.lifecycle", "Create", Duration::from_millis(300), None);
        metrics.called("nodeclaim.lifecycle", "Create", Duration::ZERO, Some("NodeClassNotReadyError"));
        let gone = CloudError::new("TerminateInstances", "InvalidInstanceID.NotFound", "", Fault::Client);
        metrics.failed("nodeclaim.lifecycle", "Delete", &gone);
        metrics.batched("create_fleet", 7, Duration::from_millis(35));
        let (service, action) = ("EC2", "CreateFleet");
        let ended = |status| Ended { service, action, status, took: Duration::from_millis(20) };
        metrics.attempted(&ended(Some(503)));
        metrics.attempted(&ended(Some(200)));
        metrics.requested(&ended(Some(200)), 2);
        metrics.requested(&ended(None), 1);

        let text = text(&metrics);
        let create = r#"controller="nodeclaim.lifecycle",method="Create",provider="aws""#;
        for line in [
            format!("karpenter_cloudprovider_duration_seconds_count{{{create}}} 2"),
            format!(r#"karpenter_cloudprovider_errors_total{{{create},error="NodeClassNotReadyError"}} 1"#),
            r#"karpenter_cloudprovider_errors_total{controller="nodeclaim.lifecycle",method="Delete",provider="aws",error="NodeClaimNotFoundError"} 1"#.to_owned(),
            r#"karpenter_cloudprovider_batcher_batch_size_sum{batcher="create_fleet"} 7.0"#.to_owned(),
            r#"karpenter_cloudprovider_batcher_batch_time_seconds_bucket{le="0.05",batcher="create_fleet"} 1"#.to_owned(),
            r#"aws_sdk_go_request_total{service="EC2",action="CreateFleet",code="200"} 1"#.to_owned(),
            r#"aws_sdk_go_request_total{service="EC2",action="CreateFleet",code=""} 1"#.to_owned(),
            r#"aws_sdk_go_request_attempt_total{service="EC2",action="CreateFleet",code="503"} 1"#.to_owned(),
            r#"aws_sdk_go_request_retry_count_sum{service="EC2",action="CreateFleet",code="200"} 1.0"#.to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "missing {line} in\n{text}");
        }
    }
}

//! Logs to stdout and traces to an OTLP collector. One call at start; the guard it returns sends what is left when it is
//! dropped.

use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt::format::JsonFields, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{ProcessConfig, Service, log_format::JsonLines};

/// The exporter's own machinery says at ERROR that a collector is away; kube's client and watcher log every failure before
/// its caller has judged it, and then our own line says the same. None of it is for a person to act on.
const MUTED: &str = "opentelemetry=off,opentelemetry_sdk=off,opentelemetry_otlp=off,h2=off,hyper=off,hyper_util=off,\
                     tower=off,tonic=off,rustls=off,kube_client::client=off,kube_runtime::watcher=off";

/// How long the last spans may take to leave. With no collector listening this is what an exit costs.
const FLUSH: Duration = Duration::from_secs(1);

/// Spans wait this long for company. Short, so that a person who looks in Jaeger sees what just happened.
const EXPORT_DELAY: Duration = Duration::from_millis(500);

/// Keep it alive until the end of `main`.
#[must_use = "dropping it ends tracing"]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Must be called inside a tokio runtime.
    pub fn init(service: Service, config: &ProcessConfig) -> anyhow::Result<Self> {
        let endpoint = config.otlp_endpoint.as_ref();
        let provider = endpoint.map(|url| tracer_provider(service, config, url)).transpose()?;
        let logs = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_filter(EnvFilter::try_new(format!("{MUTED},{}", config.log_level))?);
        // Spans are sent whatever the log level is: quiet logs must not tear holes into traces.
        let traces = provider.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer(service.as_str()))
                .with_filter(EnvFilter::new(format!("info,{MUTED}")))
        });
        tracing_subscriber::registry()
            .with(logs)
            .with(traces)
            .try_init()
            .context("install the log and trace layers")?;
        Ok(Self { provider })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            // The only reader of a failure would be the collector that did not answer.
            let _ = provider.shutdown_with_timeout(FLUSH);
        }
    }
}

fn tracer_provider(
    service: Service,
    config: &ProcessConfig,
    endpoint: &http::Uri,
) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint.to_string())
        .with_timeout(Duration::from_secs(5))
        .build()
        .with_context(|| format!("connect to the trace collector {endpoint}"))?;
    let batch = BatchConfigBuilder::default().with_scheduled_delay(EXPORT_DELAY).build();
    let resource = Resource::builder()
        .with_service_name(service.service_account())
        .with_attributes([
            KeyValue::new("service.instance.id", config.replica()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .build();
    Ok(SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(resource)
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batch).build())
        .build())
}

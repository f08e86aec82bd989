//! Logs to stdout and traces to an OTLP collector. One call at start; the guard it returns sends what is left when it is
//! dropped.

use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tonic::transport::ClientTlsConfig;
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt::format::JsonFields, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    ProcessConfig, Service,
    log_format::{JsonLines, chain},
};

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
        // Certificates of the machine, or those that SSL_CERT_FILE names.
        let tls = ClientTlsConfig::new().with_enabled_roots();
        let built = config.otlp_endpoint.as_ref().map(|url| tracer_provider(service, config, url, tls));
        let (provider, failed) = match built {
            None => (None, None),
            Some(Ok(provider)) => (Some(provider), None),
            Some(Err(error)) => (None, Some(error)),
        };
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
        // No node waits for a trace.
        if let Some(error) = failed {
            tracing::warn!(error = chain(error.as_ref()), "no traces are sent");
        }
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
    tls: ClientTlsConfig,
) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint.to_string())
        .with_timeout(Duration::from_secs(5));
    let exporter = match endpoint.scheme_str() {
        Some("https") => exporter.with_tls_config(tls),
        _ => exporter,
    };
    let exporter = exporter.build().with_context(|| format!("connect to the trace collector {endpoint}"))?;
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use clap::Parser as _;
    use opentelemetry::trace::{Span as _, Tracer as _};
    use tokio::{io::AsyncReadExt as _, net::TcpListener};
    use tokio_rustls::TlsAcceptor;
    use tonic::transport::Certificate;

    use super::*;
    use crate::grpc::{Current, Subject, VALIDITY};

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        process: ProcessConfig,
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_https_collector_is_reached_over_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let advertised = listener.local_addr().unwrap();
        let subject = Subject { service: Service::Disruption, namespace: "kube-system".into(), advertised };
        let issued = subject.issue(SystemTime::now(), VALIDITY).unwrap();
        let acceptor = TlsAcceptor::from(Current::new(&issued).server_config().unwrap());

        let endpoint: http::Uri = format!("https://{advertised}").parse().unwrap();
        let config = Flags::parse_from(["test"]).process;
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&issued.pem));
        let provider = tracer_provider(Service::Disruption, &config, &endpoint, tls).unwrap();
        provider.tracer("test").start("span").end();

        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.expect("a TLS handshake with the collector's name");
        let mut preface = [0; 14];
        stream.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0");
        drop(stream);
        drop(listener);
        tokio::task::block_in_place(|| drop(provider.shutdown_with_timeout(FLUSH)));
    }
}

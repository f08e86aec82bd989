//! W3C trace context into and out of gRPC metadata, and as the one string that is kept on a NodeClaim so that every later
//! step of a node's life continues the same trace.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    Context,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TraceContextExt as _,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const TRACEPARENT: &str = "traceparent";

/// The current span as a `traceparent`. `None` when no traces are sent.
pub fn current_traceparent() -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut carrier);
    carrier.remove(TRACEPARENT)
}

/// Makes `span` a child of the remote span that `traceparent` names. Must be called before the span is entered. Text that is
/// no trace context is ignored: it comes from an annotation that anybody may have edited.
pub fn set_parent(span: &Span, traceparent: &str) {
    let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    adopt(span, TraceContextPropagator::new().extract(&carrier));
}

/// The current trace id in hex, for answers and logs.
pub fn current_trace_id() -> Option<String> {
    trace_id(&Span::current())
}

pub(crate) fn trace_id(span: &Span) -> Option<String> {
    let context = span.context();
    let id = context.span().span_context().trace_id();
    (id != opentelemetry::TraceId::INVALID).then(|| id.to_string())
}

pub(crate) fn set_parent_from(span: &Span, headers: &HeaderMap) {
    if headers.contains_key(TRACEPARENT) {
        adopt(span, TraceContextPropagator::new().extract(&FromHeaders(headers)));
    }
}

pub(crate) fn inject(span: &Span, headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&span.context(), &mut IntoHeaders(headers));
}

fn adopt(span: &Span, parent: Context) {
    if parent.span().span_context().is_valid() {
        // Fails only where no trace layer is installed, and then there is nothing to continue.
        let _ = span.set_parent(parent);
    }
}

struct FromHeaders<'a>(&'a HeaderMap);

impl Extractor for FromHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct IntoHeaders<'a>(&'a mut HeaderMap);

impl Injector for IntoHeaders<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    const REMOTE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn traced(test: impl FnOnce()) {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), test);
    }

    #[test]
    fn a_stored_traceparent_is_continued_with_a_new_span() {
        traced(|| {
            let span = tracing::info_span!("drain");
            set_parent(&span, REMOTE);
            let _entered = span.enter();
            let own = current_traceparent().unwrap();
            assert_eq!(own.split('-').nth(1), REMOTE.split('-').nth(1), "same trace");
            assert_ne!(own.split('-').nth(2), REMOTE.split('-').nth(2), "own span");
            assert_eq!(current_trace_id().as_deref(), REMOTE.split('-').nth(1));
        });
    }

    #[test]
    fn text_that_is_no_trace_context_starts_a_trace_of_its_own() {
        for text in ["", "hello", "00-00000000000000000000000000000000-0000000000000000-00", "00-zz-zz-01"] {
            traced(|| {
                let span = tracing::info_span!("drain");
                set_parent(&span, text);
                let _entered = span.enter();
                assert!(current_traceparent().is_some(), "{text:?}");
            });
        }
    }

    #[test]
    fn headers_carry_the_context_there_and_back() {
        traced(|| {
            let caller = tracing::info_span!("caller");
            let mut headers = HeaderMap::new();
            inject(&caller, &mut headers);
            let callee = tracing::info_span!(parent: None, "callee");
            set_parent_from(&callee, &headers);
            assert_eq!(trace_id(&callee), trace_id(&caller));
            assert!(trace_id(&callee).is_some());
        });
    }

    #[test]
    fn without_a_trace_layer_there_is_no_context() {
        assert_eq!(current_traceparent(), None);
    }
}

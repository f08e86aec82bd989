//! One JSON object a line, with the keys of the reference's logs: `level`, `time`, `logger`, `message`, then the fields of
//! the event, then those of the spans around it (inner ones win), then `trace_id` when traces are sent.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{JsonFields, Writer},
    },
    registry::LookupSpan,
};

pub(crate) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    JsonFields: for<'w> FormatFields<'w>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut fields) = fields;

        let mut line = Map::new();
        line.insert("level".into(), event.metadata().level().as_str().into());
        line.insert("time".into(), format!("{:.3}", jiff::Timestamp::now()).into());
        line.insert("logger".into(), event.metadata().target().into());
        line.insert("message".into(), fields.shift_remove("message").unwrap_or_default());
        line.extend(fields);
        for span in context.event_scope().into_iter().flatten() {
            let extensions = span.extensions();
            let recorded = extensions.get::<FormattedFields<JsonFields>>();
            let parsed = recorded.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
            for (key, value) in parsed.into_iter().flatten() {
                // `otel.*` steers the exporter and says nothing to a reader.
                if !key.starts_with("otel.") {
                    line.entry(key).or_insert(value);
                }
            }
        }
        if let Some(id) = crate::trace::current_trace_id() {
            line.insert("trace_id".into(), id.into());
        }
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

/// An error with its causes, each said once: many errors already repeat their source in their own text.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let next = cause.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = cause.source();
    }
    text
}

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().trim_start_matches("r#").to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    /// The whole chain, so that a log line needs no `{:#}` at the place where it is written.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, chain(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(write: impl FnOnce()) -> Value {
        let captured = Captured::default();
        let sink = captured.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(move || sink.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), write);
        let bytes = captured.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_line_has_the_references_keys_and_flat_fields() {
        let line = logged(|| {
            let span = tracing::info_span!("reconcile", nodeclaim = "a-1", node = "outer");
            let _entered = span.enter();
            tracing::warn!(target: "termination::drain", node = "ip-10", tries = 3, "pod is not leaving");
        });
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["logger"], "termination::drain");
        assert_eq!(line["message"], "pod is not leaving");
        assert_eq!(line["node"], "ip-10", "the event's own field wins");
        assert_eq!(line["nodeclaim"], "a-1");
        assert_eq!(line["tries"], 3);
        assert!(line["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    }

    #[test]
    fn an_error_is_written_with_its_causes() {
        let cause = io::Error::other("connection refused");
        let error = anyhow::Error::from(cause).context("taint node ip-10");
        let line = logged(|| {
            let error: &(dyn std::error::Error + 'static) = error.as_ref();
            tracing::warn!(error, "step failed");
        });
        assert_eq!(line["error"], "taint node ip-10: connection refused");
    }
}

//! Reads traces back through Jaeger's HTTP API.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::stack::Stack;

/// One span as Jaeger returns it.
#[derive(Clone, Debug)]
pub struct Span {
    pub id: String,
    pub parent: Option<String>,
    pub service: String,
    pub operation: String,
}

/// All spans of a trace; empty while Jaeger does not know it.
pub fn trace(stack: &Stack, trace_id: &str) -> Result<Vec<Span>> {
    let url = format!("{}/api/traces/{trace_id}", stack.var("JAEGER_URL")?);
    let mut answer = match ureq::get(&url).call() {
        Ok(answer) => answer,
        Err(ureq::Error::StatusCode(404)) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("GET {url}")),
    };
    let body: Value = answer.body_mut().read_json()?;
    let Some(found) = body["data"].get(0) else { return Ok(Vec::new()) };
    let spans = found["spans"].as_array().context("a trace has spans")?;
    Ok(spans.iter().map(|span| read_span(span, &found["processes"])).collect())
}

fn read_span(span: &Value, processes: &Value) -> Span {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parent = span["references"]
        .as_array()
        .into_iter()
        .flatten()
        .find_map(|reference| (reference["refType"] == "CHILD_OF").then(|| text(&reference["spanID"])));
    Span {
        id: text(&span["spanID"]),
        parent,
        service: text(&processes[text(&span["processID"])]["serviceName"]),
        operation: text(&span["operationName"]),
    }
}

/// The services that took part.
pub fn services(spans: &[Span]) -> BTreeSet<&str> {
    spans.iter().map(|span| span.service.as_str()).collect()
}

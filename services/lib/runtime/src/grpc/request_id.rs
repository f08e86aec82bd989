//! `x-request-id`: given by a caller or made here, sent back, and handed on to every call made while answering.

use http::{HeaderMap, HeaderValue};

pub const REQUEST_ID: &str = "x-request-id";

/// Longer ones are replaced: they go into logs and further calls.
const LONGEST: usize = 128;

tokio::task_local! {
    static CURRENT: String;
}

/// The id of the call that is being answered, inside its handler.
pub fn current_request_id() -> Option<String> {
    CURRENT.try_with(Clone::clone).ok()
}

pub(crate) async fn scoped<F: Future>(id: String, work: F) -> F::Output {
    CURRENT.scope(id, work).await
}

pub(crate) fn given_or_new(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    given.filter(|id| !id.is_empty() && id.len() <= LONGEST).map_or_else(fresh, str::to_owned)
}

pub(crate) fn set(headers: &mut HeaderMap, id: &str) {
    if let Ok(value) = HeaderValue::try_from(id) {
        headers.insert(REQUEST_ID, value);
    }
}

pub(crate) fn fresh() -> String {
    let mut bytes = [0; 16];
    // Without randomness ids repeat, which harms nothing but reading logs.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

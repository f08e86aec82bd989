//! A scripted Kubernetes API for tests: every request goes to a function. For answers that a real API server gives only with
//! difficulty (silence, malformed objects, conflicts at a chosen moment); the rest is tested against a real one.

use std::{convert::Infallible, sync::Arc};

use axum::body::Body;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body as Outgoing};
use serde_json::{Value, json};

/// One request, as a script sees it.
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) body: Value,
}

/// What a script answers.
pub(crate) enum Reply {
    Json(u16, Value),
    /// The lines of a watch, and then the end of the stream.
    Lines(Vec<Value>),
    /// The lines of a watch that then stays open without a word.
    OpenAfter(Vec<Value>),
    /// The connection breaks.
    Broken,
    /// No answer, ever.
    Silence,
}

impl Reply {
    pub(crate) fn error(code: u16, reason: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code
        });
        Self::Json(code, status)
    }
}

pub(crate) fn api_server(script: impl Fn(Asked) -> Reply + Send + Sync + 'static) -> Client {
    let script = Arc::new(script);
    let service = tower::service_fn(move |request: Request<Outgoing>| {
        let script = script.clone();
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            let asked = Asked {
                method: parts.method,
                target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            answer(script(asked)).await
        }
    });
    Client::new(service, "kube-system")
}

async fn answer(reply: Reply) -> std::io::Result<Response<Body>> {
    let text = |lines: Vec<Value>| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    match reply {
        Reply::Json(code, value) => {
            let bytes = value.to_string().into_bytes();
            Ok(Response::builder().status(code).body(Body::from(bytes)).unwrap())
        }
        Reply::Lines(lines) => Ok(Response::new(Body::from(text(lines).into_bytes()))),
        Reply::OpenAfter(lines) => {
            let first = futures::stream::iter([Ok::<_, Infallible>(text(lines))]);
            Ok(Response::new(Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))))
        }
        Reply::Broken => Err(std::io::Error::other("connection refused")),
        Reply::Silence => std::future::pending().await,
    }
}

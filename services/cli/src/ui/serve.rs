//! The page over HTTP: the document, the stream of changes, and questions. Every request passes the guard first.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;

use super::guard::Guard;
use super::hub::Hub;
use super::{Sources, document, objects, question};

/// A line now and then keeps a silent stream open, and shows when its reader is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct Page {
    hub: Arc<Hub>,
    guard: Guard,
    sources: Arc<Sources>,
}

pub(super) async fn run(listener: TcpListener, hub: Arc<Hub>, guard: Guard, sources: Sources) -> Result<()> {
    axum::serve(listener, router(hub, guard, sources)).await.context("serve the page")
}

fn router(hub: Arc<Hub>, guard: Guard, sources: Sources) -> axum::Router {
    let read_only = hub.read_only;
    let page = Page { hub, guard, sources: Arc::new(sources) };
    let mut routes = axum::Router::new().route("/", get(document)).route("/events", get(events));
    if !read_only {
        routes = routes
            .route("/plan", post(plan))
            .route("/explain", post(explain))
            .route("/objects", post(read_objects));
    }
    routes.layer(middleware::from_fn_with_state(page.clone(), guarded)).with_state(page)
}

async fn guarded(State(page): State<Page>, request: Request, next: Next) -> Response {
    let query = request.uri().query();
    if let Err(refusal) = page.guard.check(request.headers(), query) {
        return (StatusCode::FORBIDDEN, refusal.words()).into_response();
    }
    if let Some(cookie) = page.guard.cookie(query) {
        let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
        return (StatusCode::SEE_OTHER, headers).into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn document(State(page): State<Page>) -> Response {
    let settings = json!({"events": "/events", "readOnly": page.hub.read_only, "jaeger": page.hub.jaeger});
    let policy = format!("{}; frame-ancestors 'none'", *document::POLICY);
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, document::page(&settings.to_string())).into_response()
}

/// The whole picture, then each change of it.
async fn events(State(page): State<Page>) -> Response {
    let (full, changes) = page.hub.join();
    let hub = Arc::clone(&page.hub);
    let first = futures::stream::once(async move { message(&full) });
    let rest = futures::stream::unfold((hub, changes), |(hub, mut changes)| async move {
        let text = match tokio::time::timeout(HEARTBEAT, changes.recv()).await {
            Err(_) => ": still here\n\n".to_owned(),
            Ok(Ok(patch)) => message(&patch),
            Ok(Err(RecvError::Lagged(_))) => {
                let (full, from_now) = hub.join();
                changes = from_now;
                message(&full)
            }
            Ok(Err(RecvError::Closed)) => return None,
        };
        Some((text, (hub, changes)))
    });
    let body = Body::from_stream(first.chain(rest).map(|text| Ok::<_, Infallible>(Bytes::from(text))));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// JSON has no line breaks of its own.
fn message(json: &str) -> String {
    format!("data: {json}\n\n")
}

async fn plan(State(page): State<Page>, asked: Bytes) -> Response {
    answer(question::plan(&page.sources, &asked).await)
}

async fn explain(State(page): State<Page>, asked: Bytes) -> Response {
    answer(question::explain_pod(&page.sources, &asked).await)
}

async fn read_objects(State(page): State<Page>, asked: Bytes) -> Response {
    answer(objects::read(&page.sources, &asked).await)
}

fn answer(outcome: Result<serde_json::Value>) -> Response {
    let (status, body) = match outcome {
        Ok(answer) => (StatusCode::OK, answer),
        Err(error) => (StatusCode::BAD_REQUEST, json!({"error": format!("{error:#}")})),
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tower::ServiceExt as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        sources: Sources,
    }

    /// No service is at this address, so that a question that is taken fails at once.
    fn page(read_only: bool) -> axum::Router {
        let flags = ["page", "--insecure", "--address", "127.0.0.1:1"];
        let guard = Guard::new("127.0.0.1:4000".parse().unwrap(), None);
        router(Arc::new(Hub::new(None, read_only)), guard, Flags::parse_from(flags).sources)
    }

    async fn status(page: &axum::Router, method: &str, path: &str, body: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:4000");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        page.clone().oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_read_only_page_shows_everything_and_takes_no_question() {
        let (open, read_only) = (page(false), page(true));
        for (path, question) in [
            ("/plan", r#"{"remove": ["node-1"]}"#),
            ("/explain", r#"{"namespace": "shop", "name": "web"}"#),
            ("/objects", r#"{"kind": "Secret"}"#),
        ] {
            assert_eq!(status(&open, "POST", path, question).await, StatusCode::BAD_REQUEST, "{path}");
            assert_eq!(status(&read_only, "POST", path, question).await, StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(status(&read_only, "GET", "/", "").await, StatusCode::OK);
        assert_eq!(status(&read_only, "GET", "/events", "").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn the_document_says_whether_it_takes_questions() {
        for read_only in [false, true] {
            let request = Request::builder().uri("/").header(header::HOST, "127.0.0.1:4000");
            let response = page(read_only).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert!(
                response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("sha256-")
            );
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            let wanted = format!(r#""readOnly":{read_only}"#);
            assert!(String::from_utf8(body.to_vec()).unwrap().contains(&wanted), "{wanted}");
        }
    }
}

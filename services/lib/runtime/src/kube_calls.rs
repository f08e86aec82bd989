//! Requests to the Kubernetes API as the reference's boards ask for them: `client_go_request_total` and
//! `client_go_request_duration_seconds`, counted where they go out. Of the whole process, as what the kernel tells of it, for
//! a process has several clients.

use std::{
    future::Future,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll},
};

use http::{Method, Request, Response};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};
use tokio::time::Instant;
use tower::{Layer, Service as TowerService};

use crate::{Metrics, api_path};

/// What stands for a code where there was no answer.
const NO_ANSWER: &str = "<error>";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    code: String,
    method: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    verb: &'static str,
    group: String,
    version: String,
    /// As in the path, in the plural.
    kind: String,
    subresource: String,
}

struct Calls {
    total: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram, fn() -> Histogram>,
}

/// From one millisecond to two seconds.
fn histogram() -> Histogram {
    Histogram::new(std::iter::successors(Some(0.001), |bound| Some(bound * 1.5)).take(20))
}

static CALLS: LazyLock<Calls> =
    LazyLock::new(|| Calls { total: Family::default(), seconds: Family::new_with_constructor(histogram) });

pub(crate) fn register(metrics: &Metrics) {
    metrics.register(
        "client_go_request_total",
        "Requests to the Kubernetes API, by code and method",
        CALLS.total.clone(),
    );
    metrics.register(
        "client_go_request_duration_seconds",
        "Time until the Kubernetes API began to answer; watches are left out",
        CALLS.seconds.clone(),
    );
}

/// What is timed, if it is: a watch's time says nothing, nor does what is about no objects.
fn asked<B>(request: &Request<B>) -> Option<Asked> {
    let about = api_path::about(request.uri().path());
    if about.resource.is_empty() || api_path::is_watch(request.uri()) {
        return None;
    }
    let verb = match *request.method() {
        Method::GET if !about.name.is_empty() => "GET",
        Method::GET => "LIST",
        Method::POST => "CREATE",
        Method::PUT => "UPDATE",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => return None,
    };
    Some(Asked {
        verb,
        group: about.group.to_owned(),
        version: about.version.to_owned(),
        kind: about.resource.to_owned(),
        subresource: about.subresource.to_owned(),
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CountCalls;

impl<S> Layer<S> for CountCalls {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner }
    }
}

#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
}

impl<S, B, R> TowerService<Request<B>> for Counted<S>
where
    S: TowerService<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (asked, method, began) = (asked(&request), request.method().to_string(), Instant::now());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => NO_ANSWER.to_owned(),
            };
            CALLS.total.get_or_create(&Answered { code, method }).inc();
            if let Some(asked) = asked {
                CALLS.seconds.get_or_create(&asked).observe(began.elapsed().as_secs_f64());
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::Service;

    #[tokio::test]
    async fn every_request_counts_by_its_code_and_is_timed_by_what_it_is_about() {
        let mut client = CountCalls.layer(service_fn(|request: Request<()>| async move {
            match request.uri().path() {
                "/api/v1/namespaces/a/teapots/b" => Ok(Response::builder().status(418).body(()).unwrap()),
                _ => Err("no answer"),
            }
        }));
        let mut send = async |method: Method, uri: &str| {
            let request = Request::builder().method(method).uri(uri).body(()).unwrap();
            let _ = client.ready().await.unwrap().call(request).await;
        };
        send(Method::PATCH, "/api/v1/namespaces/a/teapots/b").await;
        send(Method::GET, "/apis/kitchen.example.com/v1/teapots?limit=5").await;
        send(Method::GET, "/apis/kitchen.example.com/v1/kettles?watch=true&limit=5").await;
        let metrics = Metrics::new(Service::Provisioner);
        let text = metrics.prometheus_text();
        assert!(text.contains("client_go_request_total{code=\"418\",method=\"PATCH\"} 1\n"), "{text}");
        assert!(text.contains("client_go_request_total{code=\"<error>\",method=\"GET\"} 2\n"), "{text}");
        let timed = "{verb=\"LIST\",group=\"kitchen.example.com\",version=\"v1\",kind=\"teapots\",subresource=\"\"} 1\n";
        assert!(text.contains(&format!("client_go_request_duration_seconds_count{timed}")), "{text}");
        assert!(!text.contains("kettles"), "a watch lasts as long as it likes: {text}");
    }
}

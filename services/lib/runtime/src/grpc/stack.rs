//! What happens to every call before and after its handler, in this order: request id, span with the caller's trace,
//! metrics, admission (a refusal is held back where there are many), a turn under the concurrency limit, deadline, and a panic turned into an answer.

use std::{
    convert::Infallible,
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::FutureExt as _;
use http::{HeaderMap, Request, Response};
use http_body_util::Limited;
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span, field};

use super::{
    access::is_open,
    auth::Identity,
    deadline, errors,
    guard::Guard,
    listen::Peer,
    methods::{Method, Methods},
    observed::Call,
    pacing::Pacing,
    request_id,
    turns::{Turn, Turns},
};
use crate::{metrics::RpcFamilies, process::panic_text, trace};

/// What one call without a token may say: a stream of reflection is asked for some dozens of files.
const MOST_OPEN_BYTES: usize = 16 * 1024;

pub(crate) struct Shared {
    pub(crate) methods: Methods,
    pub(crate) guard: Guard,
    pub(crate) families: RpcFamilies,
    pub(crate) turns: Turns,
    pub(crate) pacing: Pacing,
    pub(crate) longest: Duration,
}

#[derive(Clone)]
pub(crate) struct StackLayer(pub(crate) Arc<Shared>);

impl<S> Layer<S> for StackLayer {
    type Service = Stack<S>;

    fn layer(&self, inner: S) -> Stack<S> {
        Stack { inner, shared: self.0.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct Stack<S> {
    inner: S,
    shared: Arc<Shared>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Stack<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        // The clone is the one that has not been polled ready; the ready one does the work.
        let spare = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, spare);
        Box::pin(self.shared.clone().answer(inner, request))
    }
}

impl Shared {
    async fn answer<S>(
        self: Arc<Self>,
        inner: S,
        request: Request<Body>,
    ) -> Result<Response<Body>, Infallible>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        if peer(&request).is_some_and(Peer::is_closed) {
            return Ok(Status::new(Code::Unavailable, "the connection is closed").into_http());
        }
        let path = request.uri().path().to_owned();
        let method = self.methods.named(&path);
        let name = method.name.clone();
        let id = request_id::given_or_new(request.headers());
        let span = server_span(&path, &method, &id);
        trace::set_parent_from(&span, request.headers());
        let mut call = Call::begin(&self.families, method, span.clone());

        let handled = request_id::scoped(id.clone(), self.handle(inner, request, &path, &name));
        let mut response = match handled.instrument(span.clone()).await {
            Ok((response, turn)) => {
                call.hold(turn);
                response
            }
            Err(status) => {
                if status.code() == Code::Internal {
                    span.in_scope(|| tracing::error!(path, message = status.message(), "handler failed"));
                }
                call.finish(status.code());
                status.into_http()
            }
        };
        request_id::set(response.headers_mut(), &id);
        Ok(call.follow(response))
    }

    async fn admit(
        &self,
        path: &str,
        method: &str,
        headers: &HeaderMap,
        from: Option<IpAddr>,
    ) -> Result<(Identity, Option<Turn>), Status> {
        let caller = self.guard.admit(path, headers, from).await?;
        Span::current().record("caller", field::display(&caller));
        let turn = match is_open(path) {
            true => from.map(|from| self.turns.take_open(from)).transpose()?,
            false => Some(self.turns.take(&caller, method).await?),
        };
        Ok((caller, turn))
    }

    async fn handle<S>(
        &self,
        mut inner: S,
        mut request: Request<Body>,
        path: &str,
        method: &str,
    ) -> Result<(Response<Body>, Option<Turn>), Status>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    {
        let longest = deadline::for_server(deadline::from_headers(request.headers()), self.longest);
        let work = async {
            let peer = peer(&request).cloned();
            let from = peer.as_ref().map(Peer::address);
            let (caller, turn) = match self.admit(path, method, request.headers(), from).await {
                Ok(admitted) => admitted,
                Err(refusal) => {
                    if let Some(peer) = peer {
                        self.pacing.hold(&peer).await;
                    }
                    return Err(refusal);
                }
            };
            request.extensions_mut().insert(caller);
            if is_open(path) {
                request = request.map(|body| Body::new(Limited::new(body, MOST_OPEN_BYTES)));
            }
            match AssertUnwindSafe(inner.call(request)).catch_unwind().await {
                Ok(Ok(response)) => Ok((response, turn)),
                Ok(Err(never)) => match never {},
                Err(panic) => Err(errors::status(
                    Code::Internal,
                    "PANIC",
                    format!("the handler of {path} panicked: {}", panic_text(panic.as_ref())),
                    [],
                )),
            }
        };
        tokio::time::timeout(longest, work).await.unwrap_or_else(|_| {
            let message = format!("{path} was not answered within {longest:?}");
            Err(errors::status(Code::DeadlineExceeded, "DEADLINE", message, []))
        })
    }
}

fn peer(request: &Request<Body>) -> Option<&Peer> {
    request.extensions().get::<Peer>()
}

/// Probes come every few seconds and are no part of anybody's trace.
fn server_span(path: &str, method: &Method, id: &str) -> Span {
    if is_open(path) {
        return Span::none();
    }
    tracing::info_span!(
        "rpc",
        otel.name = path.trim_start_matches('/'),
        otel.kind = "server",
        otel.status_code = field::Empty,
        rpc.system = "grpc",
        rpc.service = method.service,
        rpc.method = method.name,
        rpc.grpc.status_code = field::Empty,
        request_id = id,
        caller = field::Empty,
    )
}

//! The calling side of an RPC, as the transport of a generated client: `ProvisionerClient::new(peers.any())`. Each call picks
//! its replica, carries token, trace, request id and a deadline, and is sent at most once.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{Request, Response, header};
use tonic::{Code, Status, body::Body};
use tower::{Service, ServiceExt as _};
use tracing::{Instrument as _, Span, field};

use super::{
    deadline,
    discovery::{Peers, Pick},
    errors,
    methods::{Method, Methods},
    observed::Call,
    request_id,
    token::TokenFile,
};
use crate::{log_format::chain, metrics::RpcFamilies, trace};

/// For a call whose request names no timeout. (For a stream: until it begins.)
const DEADLINE: Duration = Duration::from_secs(10);

/// What every call of this process carries.
#[derive(Clone)]
pub(crate) struct Outgoing {
    /// `None` when authentication is switched off.
    pub(crate) token: Option<Arc<TokenFile>>,
    pub(crate) families: RpcFamilies,
    pub(crate) methods: Arc<Methods>,
}

/// A transport for generated clients. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    peers: Peers,
    pick: Pick,
    outgoing: Outgoing,
    deadline: Duration,
}

impl Caller {
    pub(crate) fn new(peers: Peers, pick: Pick, outgoing: Outgoing) -> Self {
        Self { peers, pick, outgoing, deadline: DEADLINE }
    }

    /// For calls that set no timeout of their own.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<Body>, Status> {
        let method = self.outgoing.methods.named(request.uri().path());
        let span = self.span(&method, request.uri().path());
        let deadline = deadline::from_headers(request.headers()).unwrap_or(self.deadline);
        if !request.headers().contains_key(request_id::REQUEST_ID) {
            let id = request_id::current_request_id().unwrap_or_else(request_id::fresh);
            request_id::set(request.headers_mut(), &id);
        }
        trace::inject(&span, request.headers_mut());

        let mut call = Call::begin(&self.outgoing.families, method, span.clone());
        let (began, callee) = (Instant::now(), self.peers.callee());
        let sent =
            tokio::time::timeout(deadline, self.exchange(request, deadline, began)).instrument(span).await;
        let outcome = sent.unwrap_or_else(|_| Err(late(callee, deadline)));
        match outcome {
            Ok(response) => Ok(call.follow(response)),
            Err(status) => {
                call.finish(status.code());
                Err(status)
            }
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Body>,
        deadline: Duration,
        began: Instant,
    ) -> Result<Response<Body>, Status> {
        if let Some(token) = &self.outgoing.token {
            let token =
                token.header().map_err(|error| errors::unauthenticated("TOKEN_MISSING", chain(&error)))?;
            request.headers_mut().insert(header::AUTHORIZATION, token);
        }
        let (replica, channel) = self.peers.pick(&self.pick).await?;
        Span::current().record("replica", replica.replica.as_str());
        // What is left after connecting, so that the server's count ends with ours.
        let left = deadline::set(request.headers_mut(), deadline.saturating_sub(began.elapsed()));
        let sent = Instant::now();
        let answer = async { channel.clone().ready().await?.call(request).await }.await;
        match answer {
            Ok(response) => Ok(response),
            // The channel reads the same header, and may be the first to notice: the replica has not failed.
            Err(_) if sent.elapsed() >= left => Err(late(self.peers.callee(), deadline)),
            Err(error) => {
                replica.failed().await;
                let message = format!("call {} at {}: {}", replica.replica, replica.addr, chain(&error));
                Err(errors::unavailable("CONNECTION_FAILED", message))
            }
        }
    }

    fn span(&self, method: &Method, path: &str) -> Span {
        tracing::info_span!(
            "call",
            otel.name = path.trim_start_matches('/'),
            otel.kind = "client",
            otel.status_code = field::Empty,
            rpc.system = "grpc",
            rpc.service = method.service,
            rpc.method = method.name,
            rpc.grpc.status_code = field::Empty,
            peer.service = self.peers.callee().as_str(),
            replica = field::Empty,
        )
    }
}

fn late(callee: crate::Service, deadline: Duration) -> Status {
    errors::status(
        Code::DeadlineExceeded,
        "DEADLINE",
        format!("no answer from {callee} within {deadline:?}"),
        [],
    )
}

impl Service<Request<Body>> for Caller {
    type Response = Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

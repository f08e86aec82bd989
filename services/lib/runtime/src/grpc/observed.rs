//! The end of a call, whichever way it comes: trailers, a status in the headers, an error, or the other side going away.
//! Counted once, with its code and the time it took.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::{Code, Status, body::Body, codegen::Bytes};
use tracing::Span;

use super::{methods::Method, turns::Turn};
use crate::metrics::{RpcFamilies, RpcLabels, RpcMethod};

/// A call under way. Dropped before it finished, it counts as cancelled.
pub(crate) struct Call {
    families: RpcFamilies,
    method: Method,
    span: Span,
    began: Instant,
    finished: bool,
    /// Held until the last byte of the answer.
    turn: Option<Turn>,
}

impl Call {
    pub(crate) fn begin(families: &RpcFamilies, method: Method, span: Span) -> Self {
        Self { families: families.clone(), method, span, began: Instant::now(), finished: false, turn: None }
    }

    pub(crate) fn hold(&mut self, turn: Option<Turn>) {
        self.turn = turn;
    }

    pub(crate) fn finish(&mut self, code: Code) {
        self.turn = None;
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let Method { service, name } = &self.method;
        let labels =
            RpcLabels { grpc_service: service.clone(), grpc_method: name.clone(), grpc_code: label(code) };
        self.families.handled.get_or_create(&labels).inc();
        let method = RpcMethod { grpc_service: service.clone(), grpc_method: name.clone() };
        self.families.seconds.get_or_create(&method).observe(self.began.elapsed().as_secs_f64());
        self.span.record("rpc.grpc.status_code", code as i32);
        if matches!(code, Code::Unknown | Code::Internal | Code::DataLoss | Code::Unavailable) {
            self.span.record("otel.status_code", "ERROR");
        }
    }

    /// Passes the response on, and finishes when its last byte has gone by.
    pub(crate) fn follow(mut self, response: http::Response<Body>) -> http::Response<Body> {
        if let Some(code) = code_in(response.headers()) {
            self.finish(code);
            return response;
        }
        response.map(|inner| Body::new(Observed { inner, call: self }))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.finish(Code::Cancelled);
    }
}

fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers.get(Status::GRPC_STATUS).map(|value| Code::from_bytes(value.as_bytes()))
}

/// As other gRPC implementations write them in their metrics.
fn label(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

struct Observed {
    inner: Body,
    call: Call,
}

impl http_body::Body for Observed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.call.finish(code_in(trailers).unwrap_or(Code::Unknown));
                }
            }
            Some(Err(status)) => self.call.finish(status.code()),
            None => self.call.finish(Code::Ok),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

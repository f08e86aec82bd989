//! Catalogue streams, answered with bytes that all subscribers share. Everything else goes to the generated server.
//!
//! The generated server would write every update for every stream into a buffer of its own: a megabyte for each subscriber that
//! connects. Here a stream holds a reference to the bytes of one version, and HTTP/2 cuts its frames out of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Frame;
use prost::bytes::Bytes;
use proto::pricingcache::v1::WatchCatalogRequest;
use proto::pricingcache::v1::pricing_cache_server::{PricingCacheServer, SERVICE_NAME};
use tonic::body::Body;
use tonic::codec::Streaming;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_prost::ProstDecoder;
use tower::Service;

use crate::grpc::Handler;

const WATCH: &str = "/karpenter.pricingcache.v1.PricingCache/WatchCatalog";
/// An epoch and a number.
const LARGEST_REQUEST: usize = 4096;

#[derive(Clone)]
pub(crate) struct SharedStreams {
    handler: Arc<Handler>,
    others: PricingCacheServer<Handler>,
}

impl SharedStreams {
    pub(crate) fn new(handler: Arc<Handler>) -> Self {
        Self { others: PricingCacheServer::from_arc(Arc::clone(&handler)), handler }
    }
}

impl NamedService for SharedStreams {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<Request<Body>> for SharedStreams {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.others, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != WATCH {
            return self.others.call(request);
        }
        let handler = Arc::clone(&self.handler);
        Box::pin(async move {
            let answer = match asked(request.into_body()).await {
                Ok(asked) => answer(handler.updates(asked)),
                Err(status) => status.into_http(),
            };
            Ok(answer)
        })
    }
}

async fn asked(body: Body) -> Result<WatchCatalogRequest, Status> {
    let decoder = ProstDecoder::<WatchCatalogRequest>::default();
    let mut messages = Streaming::new_request(decoder, body, None, Some(LARGEST_REQUEST));
    messages.message().await?.ok_or_else(|| Status::invalid_argument("the call holds no request"))
}

fn answer(updates: BoxStream<'static, Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(Updates { updates, ended: false }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Updates as the body of a response, and a status at the end.
struct Updates {
    updates: BoxStream<'static, Bytes>,
    ended: bool,
}

impl http_body::Body for Updates {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = match ready!(self.updates.poll_next_unpin(context)) {
            Some(update) => Frame::data(update),
            None => {
                self.ended = true;
                let status = HeaderValue::from(Code::Ok as u16);
                Frame::trailers(HeaderMap::from_iter([(Status::GRPC_STATUS, status)]))
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use proto::pricingcache::v1::CatalogUpdate;
    use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;

    use super::*;

    /// The generated client on a server that answers with these bytes.
    async fn read(updates: Vec<Bytes>) -> Result<Vec<CatalogUpdate>, Status> {
        let updates = std::sync::Mutex::new(Some(updates));
        let server = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.uri().path(), WATCH);
            let updates = updates.lock().unwrap().take().unwrap();
            async move { Ok::<_, Infallible>(answer(futures::stream::iter(updates).boxed())) }
        });
        let mut stream =
            PricingCacheClient::new(server).watch_catalog(WatchCatalogRequest::default()).await?.into_inner();
        let mut read = Vec::new();
        while let Some(update) = stream.message().await? {
            read.push(update);
        }
        Ok(read)
    }

    #[tokio::test]
    async fn a_generated_client_reads_the_updates_and_a_clean_end() {
        let numbered = |version| crate::wire::Numbered { epoch: "e", version };
        let sent: Vec<Bytes> =
            (1..4).map(|version| crate::wire::framed_delta(numbered(version), Default::default())).collect();
        let told: Vec<u64> = read(sent).await.unwrap().iter().map(|update| update.version).collect();
        assert_eq!(told, [1, 2, 3]);
        assert!(read(Vec::new()).await.unwrap().is_empty());
    }
}

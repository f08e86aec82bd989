//! Every call to the Kubernetes API ends: a call that is no watch within [`DEADLINE`], its body included; a watch opens within
//! [`OPENING`], and how long each has been silent is a metric. kube's client has no limit of its own on either, so a
//! connection that swallows packets would hold its caller for a quarter of an hour.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::{Body, DynBody};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{family::Family, gauge::Gauge},
};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Layer, Service as TowerService};

use crate::{api_path, metrics::Kind, readiness::Note};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// The API server sends the head of a watch at once.
pub(crate) const OPENING: Duration = Duration::from_secs(5);

/// When each watch of this process last brought an event or a bookmark, by path and selectors. An entry stays while its watch
/// cannot be opened, so that its age is seen to grow.
static LAST_FRAME: LazyLock<Mutex<BTreeMap<String, Instant>>> = LazyLock::new(Mutex::default);

fn last_frame() -> MutexGuard<'static, BTreeMap<String, Instant>> {
    LAST_FRAME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stays the same when a watch is opened again.
fn identity(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let selectors: Vec<&str> = query.filter(|part| part.contains("Selector=")).collect();
    format!("{}?{}", uri.path(), selectors.join("&"))
}

fn resource(identity: &str) -> &str {
    api_path::about(identity.split('?').next().unwrap_or_default()).resource
}

/// The age of the oldest last event, by resource.
#[derive(Debug)]
pub(crate) struct WatchAges;

impl Collector for WatchAges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let ages = Family::<Kind, Gauge>::default();
        for (watch, at) in last_frame().iter() {
            let kind = resource(watch).to_owned();
            let age = i64::try_from(at.elapsed().as_secs()).unwrap_or(i64::MAX);
            let gauge = ages.get_or_create(&Kind { kind });
            gauge.set(gauge.get().max(age));
        }
        let help =
            "Seconds since the last event or bookmark of a watch, by resource; of several watches the oldest";
        let metric = encoder.encode_descriptor(
            "karpenter_watch_silence_seconds",
            help,
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        ages.encode(metric)
    }
}

/// A watch that works is silent for a minute at most.
const STALE: Duration = Duration::from_secs(75);
const LOOK: Duration = Duration::from_secs(5);

/// Keeps `note` saying which watches bring nothing. Runs until `stop`.
pub(crate) async fn note_stale(note: Note, stop: CancellationToken) -> anyhow::Result<()> {
    let mut before = String::new();
    loop {
        let stale: BTreeSet<String> = last_frame()
            .iter()
            .filter(|(_, at)| at.elapsed() > STALE)
            .map(|(watch, _)| resource(watch).to_owned())
            .collect();
        let kinds = stale.into_iter().collect::<Vec<_>>().join(", ");
        if kinds != before {
            match kinds.is_empty() {
                true => note.clear(),
                false => {
                    note.set(&format!("no event or bookmark of {kinds}: decisions are made on an old state"))
                }
            }
            before = kinds;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines;

impl<S> Layer<S> for Deadlines {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed { inner }
    }
}

pub(crate) struct Timed<S> {
    inner: S,
}

impl<S> TowerService<Request<Body>> for Timed<S>
where
    S: TowerService<Request<Body>, Response = Response<Box<DynBody>>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let watch = api_path::is_watch(request.uri()).then(|| identity(request.uri()));
        let limit = if watch.is_some() { OPENING } else { DEADLINE };
        let until = Instant::now() + limit;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = tokio::time::timeout_at(until, answer).await;
            let answer = answer.map_err(|_| late(limit))?.map_err(Into::into)?;
            Ok(answer.map(|inner| {
                let end = match watch {
                    Some(watch) => {
                        last_frame().insert(watch.clone(), Instant::now());
                        End::Open(watch)
                    }
                    None => End::At(Box::pin(sleep_until(until))),
                };
                Box::new(Limited { inner, end }) as Box<DynBody>
            }))
        })
    }
}

fn late(limit: Duration) -> BoxError {
    format!("the API server did not answer within {} s", limit.as_secs()).into()
}

enum End {
    At(Pin<Box<Sleep>>),
    /// The identity of a watch.
    Open(String),
}

struct Limited {
    inner: Box<DynBody>,
    end: End,
}

impl HttpBody for Limited {
    type Data = <DynBody as HttpBody>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            if let (End::Open(watch), Some(Ok(_))) = (&self.end, &frame)
                && let Some(at) = last_frame().get_mut(watch)
            {
                *at = Instant::now();
            }
            return Poll::Ready(frame);
        }
        match &mut self.end {
            End::At(sleep) => sleep.as_mut().poll(context).map(|()| Some(Err(late(DEADLINE)))),
            End::Open(_) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
#[path = "kube_limits_tests.rs"]
mod tests;

//! The admin HTTP server: metrics and probes for machines, debug pages for people who switched them on. Not
//! authenticated, so it tells nothing that is secret and changes nothing.

use std::{fmt, io, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

#[cfg(target_os = "linux")]
use crate::profiles;
use crate::{Metrics, Readiness, grpc, metrics_page::Format};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Pages of metrics that are written at once. Each takes a thread of the pool that plans are computed on, and anybody may ask.
const PAGES: usize = 8;
/// For the head of a request: who connects and says nothing is sent away.
const SLOWEST_HEAD: Duration = Duration::from_secs(10);
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone)]
pub struct Admin {
    pub metrics: Metrics,
    pub readiness: Readiness,
    /// Whether /debug/ pages are served.
    pub profiling: bool,
    pages: Arc<Semaphore>,
    slowest_head: Duration,
    /// Cancelled when the server stops: a profile takes longer than a process has to end.
    pub(crate) stop: CancellationToken,
}

impl Admin {
    pub fn new(metrics: Metrics, readiness: Readiness, profiling: bool) -> Self {
        Self {
            metrics,
            readiness,
            profiling,
            pages: Arc::new(Semaphore::new(PAGES)),
            slowest_head: SLOWEST_HEAD,
            stop: CancellationToken::new(),
        }
    }

    /// Serves until `stop`, and then lets pages under way be read to their end. Connections are limited like those of gRPC.
    pub async fn serve(mut self, listener: TcpListener, stop: CancellationToken) -> anyhow::Result<()> {
        self.stop = stop.clone();
        let mut http = auto::Builder::new(TokioExecutor::new()).http1_only();
        http.http1().timer(TokioTimer::new()).header_read_timeout(self.slowest_head);
        let routes = self.routes();
        let (ready, mut incoming) = mpsc::channel(1);
        let accepting =
            grpc::accept(listener, |stream| std::future::ready(Ok::<TcpStream, _>(stream)), ready, stop);
        let serving = async {
            let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
            while let Some(accepted) = incoming.recv().await {
                let Ok(stream) = accepted else { continue };
                let service = TowerToHyperService::new(routes.clone());
                let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
                connections.spawn(graceful.watch(connection));
                while connections.try_join_next().is_some() {}
            }
            graceful.shutdown().await;
        };
        tokio::join!(accepting, serving);
        Ok(())
    }

    pub(crate) fn routes(self) -> Router {
        let mut routes = Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready));
        if self.profiling {
            routes = routes.route("/debug/tasks", get(tasks));
            #[cfg(target_os = "linux")]
            {
                routes = routes.merge(profiles::routes());
            }
        }
        routes.with_state(self)
    }
}

/// Pieces that wait for the reader. Counted metrics fit all at once, so that nobody who counts waits for a slow reader.
const WAITING_PIECES: usize = 64;
/// A reader that takes nothing for this long is given up.
const SLOWEST_READER: Duration = Duration::from_secs(10);

async fn metrics(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let Ok(page) = Arc::clone(&admin.pages).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many readers of metrics\n").into_response();
    };
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, format) = if accept.contains("application/openmetrics-text") {
        (OPEN_METRICS, Format::OpenMetrics)
    } else {
        (PROMETHEUS, Format::Prometheus)
    };
    let (pieces, written) = mpsc::channel::<Option<String>>(WAITING_PIECES);
    let runtime = Handle::current();
    // Collectors may compute for a while, and may wait for an actor's answer.
    tokio::task::spawn_blocking(move || {
        let send = |piece| match runtime.block_on(pieces.send_timeout(piece, SLOWEST_READER)) {
            Ok(()) => Ok(()),
            Err(_) => Err(fmt::Error),
        };
        // Without the mark of its end the reader is told that the page is incomplete.
        let _ = admin.metrics.write(format, |piece| send(Some(piece))).and_then(|()| send(None));
        drop(page);
    });
    let body = futures::stream::unfold(Some(written), |written| async {
        let mut written = written?;
        match written.recv().await {
            Some(Some(piece)) => Some((Ok(piece), Some(written))),
            Some(None) => None,
            None => Some((Err(io::Error::other("this page of metrics is incomplete")), None)),
        }
    });
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(body)).into_response()
}

async fn ready(State(admin): State<Admin>) -> Response {
    let (missing, notes) = (admin.readiness.missing(), admin.readiness.notes());
    let lines =
        |first: Vec<String>| first.into_iter().chain(notes).map(|line| line + "\n").collect::<String>();
    if missing.is_empty() {
        return lines(vec!["ok".to_owned()]).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, lines(missing)).into_response()
}

async fn tasks() -> String {
    let runtime = tokio::runtime::Handle::current();
    let metrics = runtime.metrics();
    format!(
        "workers {}\nalive tasks {}\nglobal queue depth {}\n",
        metrics.num_workers(),
        metrics.num_alive_tasks(),
        metrics.global_queue_depth()
    )
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::Service;

    async fn get(admin: &Admin, path: &str, accept: &str) -> (StatusCode, String, String) {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty()).unwrap();
        let response = admin.clone().routes().oneshot(request).await.unwrap();
        let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, kind.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
    }

    fn admin(profiling: bool) -> Admin {
        Admin::new(Metrics::new(Service::Termination), Readiness::default(), profiling)
    }

    #[tokio::test]
    async fn readyz_lists_what_is_missing_and_healthz_does_not_care() {
        let admin = admin(false);
        let nodes = admin.readiness.check("nodes", "first list");
        admin.readiness.check("leases", "first answer");
        let (status, _, body) = get(&admin, "/readyz", "").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "leases: first answer\nnodes: first list\n");
        assert_eq!(get(&admin, "/healthz", "").await.0, StatusCode::OK);
        nodes.ready();
        admin.readiness.check("leases", "").ready();
        assert_eq!(get(&admin, "/readyz", "").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_scraper_gets_the_format_it_asks_for() {
        let admin = admin(false);
        let (_, kind, body) =
            get(&admin, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain").await;
        assert_eq!(kind, OPEN_METRICS);
        assert!(body.ends_with("# EOF\n"));
        let (_, kind, body) = get(&admin, "/metrics", "*/*").await;
        assert_eq!(kind, PROMETHEUS);
        assert!(body.contains("# TYPE process_cpu_seconds_total counter"));
    }

    #[tokio::test]
    async fn debug_pages_are_there_only_when_switched_on() {
        assert_eq!(get(&admin(false), "/debug/tasks", "").await.0, StatusCode::NOT_FOUND);
        assert_eq!(get(&admin(true), "/debug/tasks", "").await.0, StatusCode::OK);
    }

    /// What is answered to these bytes until the server closes the connection.
    async fn exchange(admin: Admin, sent: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        exchange_on(listener, admin, sent).await
    }

    async fn exchange_on(listener: TcpListener, admin: Admin, sent: &[u8]) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (addr, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let asking = async {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            stream.write_all(sent).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            stop.cancel();
            String::from_utf8(answer).unwrap()
        };
        let (served, answer) = tokio::join!(admin.serve(listener, stop.clone()), asking);
        served.unwrap();
        answer
    }

    #[tokio::test]
    async fn probes_and_metrics_are_served_over_ipv6_where_ipv4_is_refused() {
        for path in ["/healthz", "/readyz", "/metrics"] {
            let listener = crate::listen::bind("[::1]:0".parse().unwrap()).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "only IPv6 listens");
            let request = format!("GET {path} HTTP/1.1\r\nhost: [::1]:{port}\r\nconnection: close\r\n\r\n");
            let answer = exchange_on(listener, admin(false), request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path}: {answer}");
        }
    }

    #[tokio::test]
    async fn who_connects_and_says_nothing_is_sent_away() {
        let whole = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let answer = exchange(admin(false), whole).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"), "{answer}");
        let impatient = Admin { slowest_head: Duration::from_millis(20), ..admin(false) };
        let answer = exchange(impatient, &whole[..20]).await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }

    #[tokio::test]
    async fn readers_of_metrics_beyond_the_limit_are_refused_and_probes_are_not() {
        let admin = admin(false);
        let held = Arc::clone(&admin.pages).try_acquire_many_owned(PAGES as u32).unwrap();
        assert_eq!(get(&admin, "/metrics", "").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(get(&admin, "/readyz", "").await.0, StatusCode::OK);
        drop(held);
        assert_eq!(get(&admin, "/metrics", "").await.0, StatusCode::OK);
    }
}

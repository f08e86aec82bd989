//! A server of the InterruptionWatcher contract whose `Replay` does what its body says, and callers for it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use opentelemetry::trace::TracerProvider as _;
use proto::interruptionwatcher::v1::{
    GetStatsRequest, GetStatsResponse, ListEventsRequest, ListEventsResponse, ReplayRequest, ReplayResponse,
    WatchEventsRequest, WatchEventsResponse,
    interruption_watcher_client::InterruptionWatcherClient,
    interruption_watcher_server::{self, InterruptionWatcher, InterruptionWatcherServer},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
};

use crate::{
    Metrics, Readiness, Service,
    grpc::{
        Access, Caller, Current, GrpcServer, Humans, Methods, Outgoing, Peers, Subject, TokenFile,
        discovery::{LeaderIndex, TrustIndex},
        published::{Content, Replica},
        tls::Issued,
    },
    testing::{Asked, Reply, api_server},
};

pub(super) const CALLEE: Service = Service::InterruptionWatcher;
const NAMESPACE: &str = "kube-system";

#[derive(Default)]
pub(super) struct Handler {
    pub(super) onward: Option<Caller>,
    /// Told when a call begins to sleep.
    pub(super) sleeps: Arc<Notify>,
}

#[tonic::async_trait]
impl InterruptionWatcher for Handler {
    async fn list_events(
        &self,
        _: Request<ListEventsRequest>,
    ) -> Result<Response<ListEventsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    type WatchEventsStream = futures::stream::Empty<Result<WatchEventsResponse, Status>>;

    async fn watch_events(
        &self,
        _: Request<WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        Ok(Response::new(futures::stream::empty()))
    }

    async fn get_stats(&self, _: Request<GetStatsRequest>) -> Result<Response<GetStatsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn replay(&self, request: Request<ReplayRequest>) -> Result<Response<ReplayResponse>, Status> {
        let explanation = match request.get_ref().body.as_str() {
            "sleep" => {
                self.sleeps.notify_one();
                tokio::time::sleep(Duration::from_secs(3600)).await;
                String::new()
            }
            "panic" => panic!("as asked"),
            "caller" => crate::grpc::caller(&request).to_string(),
            "request id" => crate::grpc::current_request_id().unwrap_or_default(),
            "trace id" => crate::trace::current_trace_id().unwrap_or_default(),
            "trace id and onward" => {
                let caller = self.onward.clone().expect("the test gave one");
                let further = ask(caller, "trace id").await?;
                format!("{} {further}", crate::trace::current_trace_id().unwrap_or_default())
            }
            "request id of the next" => {
                ask(self.onward.clone().expect("the test gave one"), "request id").await?
            }
            other => return Err(crate::grpc::errors::not_found("answer to", other)),
        };
        Ok(Response::new(ReplayResponse { explanation, ..ReplayResponse::default() }))
    }
}

pub(super) async fn ask(caller: Caller, body: &str) -> Result<String, Status> {
    let request = ReplayRequest { body: body.to_owned() };
    Ok(InterruptionWatcherClient::new(caller).replay(request).await?.into_inner().explanation)
}

pub(super) fn access() -> Access {
    let name = interruption_watcher_server::SERVICE_NAME;
    Access::new()
        .allow(name, "ListEvents", &[Service::Provisioner], Humans::Read)
        .allow(name, "WatchEvents", &[], Humans::Read)
        .allow(name, "GetStats", &[Service::Termination], Humans::No)
        .allow(name, "Replay", &[Service::Provisioner], Humans::Granted)
}

/// A token as the API server makes them, unsigned, for `subject`: `ns/account` or a plain user.
pub(super) fn token(subject: &str) -> String {
    token_for(subject, &CALLEE.audience(), jiff::Timestamp::now().as_second() + 3600)
}

pub(super) fn token_for(subject: &str, audience: &str, expires: i64) -> String {
    let claims = json!({ "sub": subject, "aud": [audience], "exp": expires }).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

fn subject_of(token: &str) -> String {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    claims["sub"].as_str().unwrap().to_owned()
}

/// Tokens are those of [`token`]; the user `granted` has every grant, `viewer` that of reading. Counts what it is asked.
#[derive(Clone, Default)]
pub(super) struct Reviews {
    pub(super) tokens: Arc<AtomicUsize>,
    pub(super) grants: Arc<Mutex<Vec<serde_json::Value>>>,
    pub(super) away: Arc<std::sync::atomic::AtomicBool>,
}

impl Reviews {
    pub(super) fn client(&self) -> kube::Client {
        let reviews = self.clone();
        api_server(move |asked| reviews.answer(&asked))
    }

    fn answer(&self, asked: &Asked) -> Reply {
        if self.away.load(Ordering::SeqCst) {
            return Reply::Broken;
        }
        let mut review = asked.body.clone();
        if asked.target.contains("tokenreviews") {
            self.tokens.fetch_add(1, Ordering::SeqCst);
            let audience = CALLEE.audience();
            assert_eq!(review["spec"]["audiences"], json!([audience]));
            let token = subject_of(review["spec"]["token"].as_str().unwrap());
            review["status"] = match token.split_once('/') {
                _ if token == "bad" => json!({ "authenticated": false, "error": "token has expired" }),
                _ if token == "no-audiences" => {
                    json!({ "authenticated": true, "audiences": ["https://kubernetes"], "user": { "username": "x" } })
                }
                Some((namespace, account)) => json!({
                    "authenticated": true, "audiences": [audience],
                    "user": { "username": format!("system:serviceaccount:{namespace}:{account}"), "groups": ["g"] }
                }),
                None => json!({
                    "authenticated": true, "audiences": [audience],
                    "user": {
                        "username": token, "uid": format!("uid-of-{token}"), "groups": ["people"],
                        "extra": { "example.org/team": ["blue", "green"] },
                    }
                }),
            };
        } else {
            self.grants.lock().unwrap().push(review["spec"].clone());
            let verb = &review["spec"]["resourceAttributes"]["verb"];
            let allowed = match review["spec"]["user"].as_str() {
                Some("granted") => true,
                Some("viewer") => verb == "get",
                _ => false,
            };
            review["status"] = json!({ "allowed": allowed });
        }
        Reply::Json(201, review)
    }
}

pub(super) fn subject(addr: SocketAddr) -> Subject {
    Subject { service: CALLEE, namespace: NAMESPACE.to_owned(), advertised: addr }
}

/// A running server. Stops when dropped.
pub(super) struct Running {
    pub(super) addr: SocketAddr,
    pub(super) current: Current,
    pub(super) issued: Issued,
    pub(super) metrics: Metrics,
    pub(super) readiness: Readiness,
    pub(super) stop: CancellationToken,
    pub(super) reviews: Reviews,
    pub(super) sleeps: Arc<Notify>,
    pub(super) task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Spans and warnings are recorded for the whole test process, before any server has made one. A subscriber for a single test
/// is not enough: the process remembers whether anybody wants the spans of a line of code, and two tests that reach a line for
/// the first time at the same moment can make it remember "nobody".
fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
        let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let all = tracing_subscriber::registry().with(spans).with(Warnings);
        tracing::subscriber::set_global_default(all).unwrap();
    });
}

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What was logged as a warning so far by any test, one text per line of the log.
pub(super) fn warnings() -> Vec<String> {
    WARNINGS.lock().unwrap().clone()
}

struct Warnings;

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            let mut text = String::new();
            event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                text += &format!("{field}={value:?} ");
            });
            WARNINGS.lock().unwrap().push(text);
        }
    }
}

pub(super) async fn serve(onward: Option<Caller>) -> Running {
    serve_with(onward, SystemTime::now(), |server| server).await
}

/// As [`serve`], on another address than IPv4's loopback.
pub(super) async fn serve_at(addr: &str) -> Running {
    let listener = TcpListener::bind(addr).await.unwrap();
    serve_on(listener, None, SystemTime::now(), |server| server)
}

pub(super) async fn serve_with(
    onward: Option<Caller>,
    issued_at: SystemTime,
    adjust: impl FnOnce(GrpcServer) -> GrpcServer,
) -> Running {
    serve_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), onward, issued_at, adjust)
}

#[allow(clippy::disallowed_methods, reason = "the test holds the handle")]
fn serve_on(
    listener: TcpListener,
    onward: Option<Caller>,
    issued_at: SystemTime,
    adjust: impl FnOnce(GrpcServer) -> GrpcServer,
) -> Running {
    record();
    let addr = listener.local_addr().unwrap();
    let issued = subject(addr).issue(issued_at, Duration::from_secs(3600)).unwrap();
    let current = Current::new(&issued);
    let (metrics, readiness, stop, reviews) =
        (Metrics::new(CALLEE), Readiness::default(), CancellationToken::new(), Reviews::default());
    let sleeps = Arc::new(Notify::new());
    let handler = Handler { onward, sleeps: Arc::clone(&sleeps) };
    let server = adjust(GrpcServer::new(access()).add_service(InterruptionWatcherServer::new(handler)));
    let assembled = server.assemble(CALLEE, NAMESPACE, &metrics, Some(reviews.client())).unwrap();
    let tls = current.server_config().unwrap();
    let drain = Duration::from_secs(5);
    let task = tokio::spawn(assembled.serve(listener, Some(tls), readiness.clone(), stop.clone(), drain));
    Running { addr, current, issued, metrics, readiness, stop, reviews, sleeps, task }
}

/// Callers with their own metrics and a token file.
pub(super) struct Calling {
    pub(super) peers: Peers,
    pub(super) trust: TrustIndex,
    pub(super) leader: LeaderIndex,
    pub(super) metrics: Metrics,
    token: PathBuf,
}

impl Drop for Calling {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.token);
    }
}

impl Calling {
    /// `token` is the subject of the token that is shown.
    pub(super) fn to(servers: &[(&str, &Running)], token: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("karpenter-grpc-{}-{number}", std::process::id()));
        let text = if token.is_empty() { String::new() } else { self::token(token) };
        std::fs::write(&path, text).unwrap();
        let metrics = Metrics::new(Service::Provisioner);
        let outgoing = Outgoing {
            token: Some(Arc::new(TokenFile::new(&path))),
            families: metrics.rpc_client.clone(),
            methods: Arc::new(Methods::read(&[proto::FILE_DESCRIPTOR_SET]).unwrap()),
        };
        let lease = CALLEE.lease("karpenter");
        let (peers, trust, leader) = Peers::new(CALLEE, NAMESPACE, lease, true, outgoing);
        let calling = Self { peers, trust, leader, metrics, token: path };
        calling.publish(servers);
        calling
    }

    pub(super) fn publish(&self, servers: &[(&str, &Running)]) {
        let published = servers.iter().map(|(name, server)| {
            let replica = Replica { addr: server.addr, certificates: vec![server.issued.certificate()] };
            ((*name).to_owned(), replica)
        });
        self.trust.set(published.collect::<BTreeMap<_, _>>());
    }
}

/// Nothing in it is malformed.
impl From<BTreeMap<String, Replica>> for Content {
    fn from(replicas: BTreeMap<String, Replica>) -> Self {
        Self { replicas, ..Self::default() }
    }
}

/// A token that the scripted API server takes for the provisioner's.
pub(super) const PROVISIONER: &str = "kube-system/karpenter-provisioner";

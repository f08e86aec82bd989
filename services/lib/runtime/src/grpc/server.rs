//! A gRPC server as all five services run it: their handlers, health, reflection, and the stack that every call goes
//! through. It is told its access table and refuses to start when a method is missing from it.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use http::Request;
use proto::shadow::v1::shadow_server::{self, ShadowServer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    server::NamedService,
    service::{Routes, RoutesBuilder},
    transport::{
        Server,
        server::{Connected, Router},
    },
};
use tonic_health::{
    ServingStatus,
    server::{HealthReporter, HealthService},
};
use tower::Service as TowerService;

use super::{
    access::{Access, Humans},
    guard::Guard,
    listen,
    methods::Methods,
    pacing::{Pacing, PacingLimits},
    stack::{Shared, StackLayer},
    turns::Turns,
};
use crate::{Metrics, Readiness, Service, readiness::Changes, shadow::Record};

/// A call that names no deadline, or a longer one, gets this.
const LONGEST: Duration = Duration::from_secs(120);
const CONCURRENCY: usize = 512;
/// Calls of people at once, streams included, so that they never take the turns of services.
const OF_PEOPLE: usize = 64;
/// Calls of one person at once.
const OF_ONE_PERSON: usize = 16;
/// Calls under way on one connection; without it there would be no limit.
const STREAMS: u32 = 256;

/// What a service wants to serve. Handed to [`crate::Shell::serve`].
pub struct GrpcServer {
    routes: RoutesBuilder,
    names: Vec<&'static str>,
    descriptors: Vec<&'static [u8]>,
    access: Access,
    shared_account: Option<String>,
    longest: Duration,
    concurrency: usize,
    costly: Vec<(Vec<&'static str>, usize)>,
    pacing: PacingLimits,
}

impl GrpcServer {
    pub fn new(access: Access) -> Self {
        Self {
            routes: Routes::builder(),
            names: Vec::new(),
            descriptors: vec![
                proto::FILE_DESCRIPTOR_SET,
                tonic_health::pb::FILE_DESCRIPTOR_SET,
                tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
                // With it, grpcurl prints the reasons in our errors instead of base64.
                tonic_types::pb::FILE_DESCRIPTOR_SET,
            ],
            access,
            shared_account: None,
            longest: LONGEST,
            concurrency: CONCURRENCY,
            costly: Vec::new(),
            pacing: PacingLimits::default(),
        }
    }

    #[must_use]
    pub fn add_service<S>(mut self, service: S) -> Self
    where
        S: TowerService<Request<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes.add_service(service);
        self.names.push(S::NAME);
        self
    }

    /// The longest time a handler may take until it answers (for streams: until its first byte).
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Handlers that run at once; others wait for their turn, within their deadline.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Methods that compute for long: of people's calls to all of them, this many are answered at once. May be called for
    /// several groups of methods.
    #[must_use]
    pub fn costly(mut self, methods: &[&'static str], at_once: usize) -> Self {
        self.costly.push((methods.to_vec(), at_once));
        self
    }

    #[cfg(test)]
    pub(crate) fn pacing(mut self, limits: PacingLimits) -> Self {
        self.pacing = limits;
        self
    }

    /// Tells people what was not stored in shadow mode.
    pub(crate) fn telling_of(mut self, record: Record) -> Self {
        self.access = self.access.allow(shadow_server::SERVICE_NAME, "ListWrites", &[], Humans::Read);
        self.add_service(ShadowServer::new(record))
    }

    /// The ServiceAccount that all services run as, if they share one.
    pub(crate) fn shared_account(mut self, account: Option<String>) -> Self {
        self.shared_account = account;
        self
    }

    pub(crate) fn assemble(
        mut self,
        callee: Service,
        namespace: &str,
        metrics: &Metrics,
        client: Option<kube::Client>,
    ) -> anyhow::Result<Assembled> {
        let methods = Methods::read(&self.descriptors)?;
        for name in &self.names {
            let mut described = methods.of_service(name).peekable();
            if described.peek().is_none() {
                bail!("gRPC service {name} is not in any descriptor set: reflection would not show it");
            }
            if let Some((path, _)) = described.find(|(path, _)| self.access.rule(path).is_none()) {
                bail!("the access table says nothing about {path}");
            }
        }
        let health = HealthReporter::new();
        self.routes.add_service(tonic_health::pb::health_server::HealthServer::new(
            HealthService::from_health_reporter(health.clone()),
        ));
        self.routes.add_service(self.reflection().build_v1().context("set up reflection")?);
        self.routes.add_service(self.reflection().build_v1alpha().context("set up reflection v1alpha")?);
        let shared = Shared {
            methods,
            guard: Guard::new(callee, namespace, self.access, metrics.clone(), client)
                .with_shared_account(self.shared_account),
            families: metrics.rpc_server.clone(),
            turns: Turns::new(self.concurrency, OF_PEOPLE, OF_ONE_PERSON, self.costly),
            pacing: Pacing::new(self.pacing),
            longest: self.longest,
        };
        Ok(Assembled {
            routes: self.routes.routes(),
            stack: StackLayer(Arc::new(shared)),
            health: Health { reporter: health, names: self.names },
        })
    }

    fn reflection(&self) -> tonic_reflection::server::Builder<'static> {
        let empty = tonic_reflection::server::Builder::configure().include_reflection_service(false);
        let ours = self
            .descriptors
            .iter()
            .fold(empty, |builder, set| builder.register_encoded_file_descriptor_set(set));
        // Only what is served here: the descriptors know the other four services too.
        let served = self.names.iter().copied().chain([
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ]);
        served.fold(ours, |builder, name| builder.with_service_name(name))
    }
}

/// Ready to be served on a listener.
pub(crate) struct Assembled {
    routes: Routes,
    stack: StackLayer,
    health: Health,
}

impl Assembled {
    /// Serves until `stop`, then lets calls under way finish for as long as `drain`.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        readiness: Readiness,
        stop: CancellationToken,
        drain: Duration,
    ) -> anyhow::Result<()> {
        let Self { routes, stack, health } = self;
        let router = Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(30)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .max_concurrent_streams(STREAMS)
            .layer(stack)
            .add_routes(routes);
        let follow = health.follow(readiness.subscribe(), stop.clone());
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(drain).await;
        };
        let served = async {
            match tls {
                Some(config) => {
                    let acceptor = TlsAcceptor::from(config);
                    serve_on(router, listener, move |stream| acceptor.accept(stream), &stop).await
                }
                None => serve_on(router, listener, |stream| std::future::ready(Ok(stream)), &stop).await,
            }
        };
        tokio::select! {
            served = served => served.context("serve gRPC"),
            () = follow => Ok(()),
            () = late => {
                tracing::warn!(?drain, "calls still under way at the end of the drain time are cut off");
                Ok(())
            }
        }
    }
}

async fn serve_on<C, F>(
    router: Router<tower::layer::util::Stack<StackLayer, tower::layer::util::Identity>>,
    listener: TcpListener,
    upgrade: impl Fn(TcpStream) -> F,
    stop: &CancellationToken,
) -> Result<(), tonic::transport::Error>
where
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    F: Future<Output = io::Result<C>> + Send + 'static,
{
    let (ready, incoming) = mpsc::channel::<io::Result<listen::Admitted<C>>>(64);
    let accepting = listen::accept(listener, upgrade, ready, stop.clone());
    let serving =
        router.serve_with_incoming_shutdown(ReceiverStream::new(incoming), stop.clone().cancelled_owned());
    tokio::join!(accepting, serving).1
}

/// The gRPC health service, following the process's readiness.
struct Health {
    reporter: HealthReporter,
    names: Vec<&'static str>,
}

impl Health {
    /// Never ends.
    async fn follow(self, mut readiness: Changes, stop: CancellationToken) {
        loop {
            let status = match readiness.is_ready() && !stop.is_cancelled() {
                true => ServingStatus::Serving,
                false => ServingStatus::NotServing,
            };
            for name in std::iter::once(&"").chain(&self.names) {
                self.reporter.set_service_status(*name, status).await;
            }
            tokio::select! {
                () = readiness.changed() => {}
                () = stop.cancelled(), if !stop.is_cancelled() => {}
            }
        }
    }
}

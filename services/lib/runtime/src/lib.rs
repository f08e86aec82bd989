//! The shell every service stands on: process and signals, configuration, logs, traces and metrics, admin HTTP, gRPC with
//! TLS and caller authentication, leader election, watches that feed an index. It decides nothing about nodes or pods and
//! knows no cloud.
//!
//! A service is three small files on top of it:
//!
//! ```no_run
//! # use proto::interruptionwatcher::v1::{
//! #     *, interruption_watcher_server::{SERVICE_NAME, InterruptionWatcher, InterruptionWatcherServer},
//! # };
//! # use runtime::{Service, grpc::{Access, GrpcServer, Humans}, watch::{Change, Watch}};
//! # use k8s_openapi::api::core::v1::Node;
//! // config.rs
//! #[derive(Debug, clap::Parser)]
//! pub struct Config {
//!     #[command(flatten)]
//!     pub process: runtime::ProcessConfig,
//!     #[command(flatten)]
//!     pub settings: runtime::Settings,
//! }
//! impl runtime::ServiceConfig for Config {
//!     fn process(&self) -> &runtime::ProcessConfig {
//!         &self.process
//!     }
//! }
//!
//! // lib.rs: the whole wiring
//! pub async fn start(config: Config, shell: &mut runtime::Shell) -> anyhow::Result<()> {
//!     let (actor, events) = Events::new(config.settings.interruption_queue, shell.events());
//!     shell.watch("nodes", Watch::<Node>::all(shell.kube.clone()), events.clone());
//!     let termination = shell.peers(Service::Termination)?; // TerminationClient::new(termination.leader())
//!     let (leadership, stop) = (shell.leadership(), shell.stop());
//!     shell.process.spawn("events", leadership.lead(stop.clone(), manage_rules));
//!     shell.process.spawn("queue", actor.run(stop));
//!
//!     let access = Access::new()
//!         .allow(SERVICE_NAME, "ListEvents", &[], Humans::Read)
//!         .allow(SERVICE_NAME, "WatchEvents", &[], Humans::Read)
//!         .allow(SERVICE_NAME, "GetStats", &[Service::Termination], Humans::Read)
//!         .allow(SERVICE_NAME, "Replay", &[], Humans::Granted);
//!     shell.serve(GrpcServer::new(access).add_service(InterruptionWatcherServer::new(Handler))).await?;
//!     Ok(())
//! }
//!
//! // main.rs
//! fn main() -> std::process::ExitCode {
//!     runtime::main(Service::InterruptionWatcher, start)
//! }
//! # struct Events;
//! # enum Command { Nodes }
//! # impl From<Change<Node>> for Command { fn from(_: Change<Node>) -> Self { Self::Nodes } }
//! # impl Events {
//! #     fn new(_: String, _: runtime::events::Recorder) -> (Self, tokio::sync::mpsc::Sender<Command>) {
//! #         (Self, tokio::sync::mpsc::channel(1).0)
//! #     }
//! #     async fn run(self, stop: tokio_util::sync::CancellationToken) -> anyhow::Result<()> {
//! #         stop.cancelled().await;
//! #         Ok(())
//! #     }
//! # }
//! # async fn manage_rules(lost: tokio_util::sync::CancellationToken) -> anyhow::Result<()> {
//! #     lost.cancelled().await;
//! #     Ok(())
//! # }
//! # struct Handler;
//! # #[tonic::async_trait]
//! # impl InterruptionWatcher for Handler {
//! #     async fn list_events(&self, _: tonic::Request<ListEventsRequest>) -> Result<tonic::Response<ListEventsResponse>, tonic::Status> {
//! #         Ok(tonic::Response::new(Default::default()))
//! #     }
//! #     type WatchEventsStream = futures::stream::Empty<Result<WatchEventsResponse, tonic::Status>>;
//! #     async fn watch_events(&self, _: tonic::Request<WatchEventsRequest>) -> Result<tonic::Response<Self::WatchEventsStream>, tonic::Status> {
//! #         Ok(tonic::Response::new(futures::stream::empty()))
//! #     }
//! #     async fn get_stats(&self, _: tonic::Request<GetStatsRequest>) -> Result<tonic::Response<GetStatsResponse>, tonic::Status> {
//! #         Ok(tonic::Response::new(Default::default()))
//! #     }
//! #     async fn replay(&self, _: tonic::Request<ReplayRequest>) -> Result<tonic::Response<ReplayResponse>, tonic::Status> {
//! #         Ok(tonic::Response::new(Default::default()))
//! #     }
//! # }
//! ```

pub mod admin;
mod api_path;
pub mod config;
mod config_values;
pub mod events;
pub mod flow;
pub mod grpc;
mod kube_calls;
pub mod kube_client;
mod kube_limits;
pub mod lease;
mod listen;
mod log_format;
pub mod metrics;
mod metrics_page;
mod notes;
pub mod process;
mod process_metrics;
#[cfg(target_os = "linux")]
mod profiles;
pub mod readiness;
mod service;
mod settings;
mod shadow;
mod shell;
pub mod summary;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod watch;
pub mod writes;

use std::process::ExitCode;

pub use config::{ProcessConfig, ServiceConfig};
pub use lease::Leadership;
pub use metrics::Metrics;
pub use process::Process;
pub use readiness::{Check, Readiness};
pub use service::Service;
pub use settings::{FeatureGates, MinValuesPolicy, PreferencePolicy, Settings};
pub use shell::{Addresses, Shell};
#[doc(hidden)]
#[cfg(not(target_os = "linux"))]
pub use std::alloc::System as Allocator;
pub use telemetry::Telemetry;
#[doc(hidden)]
#[cfg(target_os = "linux")]
pub use tikv_jemallocator::Jemalloc as Allocator;

/// Two threads are enough for services that mostly wait, and keep the idle process small; heavy computing has its own pool.
const WORKERS: usize = 2;

/// The process of one service: `runtime::process!(Termination, termination::start);` is all of its `main.rs`.
///
/// With its allocator: following 150,000 pods took a quarter less CPU with it than with glibc's. At rest a process is some
/// megabytes larger.
#[macro_export]
macro_rules! process {
    ($service:ident, $start:path) => {
        #[global_allocator]
        static ALLOCATOR: $crate::Allocator = $crate::Allocator;

        fn main() -> std::process::ExitCode {
            $crate::main($crate::Service::$service, $start)
        }
    };
}

/// The whole of a service's `main`: read the configuration, start telemetry, connect to the API server, let `start` wire
/// the service, run until a signal or a failure.
pub fn main<C: ServiceConfig>(
    service: Service,
    start: impl AsyncFnOnce(C, &mut Shell) -> anyhow::Result<()>,
) -> ExitCode {
    let config = match config::parse::<C>() {
        Ok(config) => config,
        Err(status) => return status,
    };
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let status = runtime.block_on(run(service, config, start));
    // Tasks left behind after the grace period must not hold up the exit.
    runtime.shutdown_background();
    status
}

async fn run<C: ServiceConfig>(
    service: Service,
    config: C,
    start: impl AsyncFnOnce(C, &mut Shell) -> anyhow::Result<()>,
) -> ExitCode {
    let telemetry = match Telemetry::init(service, config.process()) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    #[cfg(target_os = "linux")]
    if config.process().enable_profiling {
        profiles::start().await;
    }
    let outcome = async {
        let mut shell = Shell::new(service, config.process().clone()).await?;
        start(config, &mut shell).await?;
        shell.process.run().await
    };
    let outcome = Box::pin(outcome).await;
    let status = match outcome {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "{service} ends");
            ExitCode::FAILURE
        }
    };
    // Blocks for up to a second when no collector answers; the runtime must still turn meanwhile.
    tokio::task::block_in_place(|| drop(telemetry));
    status
}

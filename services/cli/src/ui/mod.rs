//! `kubectl karpenter ui`: one page that shows what the autoscaler does, and why, while it does it.
//!
//! ```text
//!  provisioner   WatchCluster   ─┐
//!  disruption    WatchCommands   │  follow: which replica, and again after pauses
//!                WatchCandidates ├─> streams: one service's ──> picture (pure merge) ──> hub ──> serve (server-sent events) ──> page
//!  termination   WatchDrain      │                                                       ├──> --snapshot FILE
//!  interruption-watcher          │                                                       └──> top --watch
//!                WatchEvents     │
//!  pricing-cache WatchCatalog   ─┘
//! ```
//! It runs on the person's machine, with the person's rights; nothing of it is in the cluster, and it changes nothing there.

mod bound;
#[cfg(test)]
mod chromium_tests;
mod command;
#[cfg(test)]
mod contrast_tests;
mod convert;
mod document;
mod drain;
pub(crate) mod follow;
pub mod frames;
mod guard;
pub(crate) mod hub;
mod interruption;
mod launches;
mod objects;
mod open;
pub(crate) mod picture;
mod question;
mod serve;
mod shortages;
pub(crate) mod shown;
mod streams;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use runtime::Service;
use tokio::net::TcpListener;

use crate::connect::{Connection, Transport};
pub(crate) use document::page;
use guard::Guard;
use hub::Hub;
pub(crate) use shown::{DAEMON, Node as ShownNode, Pod as ShownPod};

#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Address to listen on; beyond loopback a token is needed, which is made and printed unless --page-token gives one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Token that the page asks for [default: none on loopback, a new one elsewhere]
    #[arg(long, env = "KARPENTER_PAGE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    page_token: Option<String>,

    /// Only show: no what-if questions and no objects of the cluster in an editor. For a shared screen
    #[arg(long)]
    read_only: bool,

    /// Do not open a browser
    #[arg(long)]
    no_open: bool,

    /// Write the page as it is now to one file, and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "read_only", "page_token"])]
    snapshot: Option<PathBuf>,

    /// Where Jaeger is, for links to the trace of each decision
    #[arg(long, env = "JAEGER_URL", value_name = "URL")]
    jaeger: Option<String>,

    #[command(flatten)]
    sources: Sources,
}

/// Where the streams come from: the connection, and addresses in the environment as the local stack leaves them.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Sources {
    // `--address` is the provisioner's.
    #[command(flatten)]
    pub(crate) connection: Connection,

    #[arg(long, env = "GRPC_PROVISIONER", hide = true)]
    pub(crate) grpc_provisioner: Option<String>,
    #[arg(long, env = "GRPC_DISRUPTION", hide = true)]
    pub(crate) grpc_disruption: Option<String>,
    #[arg(long, env = "GRPC_TERMINATION", hide = true)]
    pub(crate) grpc_termination: Option<String>,
    #[arg(long, env = "GRPC_INTERRUPTION_WATCHER", hide = true)]
    pub(crate) grpc_interruption_watcher: Option<String>,
    #[arg(long, env = "GRPC_PRICING_CACHE", hide = true)]
    pub(crate) grpc_pricing_cache: Option<String>,
}

/// How long `--snapshot` waits for each service.
const FIRST_PICTURE: Duration = Duration::from_secs(15);

impl Sources {
    /// To a replica that answers.
    pub(crate) async fn transport(&self, service: Service) -> Result<Transport> {
        self.connection_to(service).open(service, self.address_of(service)).await
    }

    fn address_of(&self, service: Service) -> Option<&str> {
        let from_env = match service {
            Service::Provisioner => &self.grpc_provisioner,
            Service::Disruption => &self.grpc_disruption,
            Service::Termination => &self.grpc_termination,
            Service::InterruptionWatcher => &self.grpc_interruption_watcher,
            Service::PricingCache => &self.grpc_pricing_cache,
        };
        from_env.as_deref()
    }

    fn connection_to(&self, service: Service) -> Connection {
        if service == Service::Provisioner {
            return self.connection.clone();
        }
        // Behind `--address` is the provisioner.
        Connection { address: None, ..self.connection.clone() }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(async {
        match &args.snapshot {
            Some(file) => write_snapshot(args, file).await,
            None => serve_page(args).await,
        }
    });
    runtime.shutdown_background();
    outcome
}

async fn serve_page(args: &Args) -> Result<()> {
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    let token = match (&args.page_token, address.ip().is_loopback()) {
        (Some(token), _) if token.trim().len() < guard::SHORTEST_TOKEN => {
            bail!("--page-token is too short: {} characters at least", guard::SHORTEST_TOKEN)
        }
        (Some(token), _) => Some(token.trim().to_owned()),
        (None, true) => None,
        (None, false) => Some(guard::new_token()?),
    };
    let query = token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
    let url = format!("http://{}/{query}", open::reachable(address));
    let hub = Arc::new(Hub::new(args.jaeger.clone(), args.read_only));
    let mut followers = follow::all(&args.sources, &hub);
    followers.spawn(bound::follow(args.sources.clone(), Arc::clone(&hub)));
    println!("{url}");
    std::io::stdout().flush()?;
    eprintln!("the page is open until Ctrl-C");
    if !args.no_open {
        open::browser(&url);
    }
    let serving = serve::run(listener, hub, Guard::new(address, token), args.sources.clone());
    let outcome = tokio::select! {
        ended = serving => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    drop(followers);
    outcome
}

async fn write_snapshot(args: &Args, file: &Path) -> Result<()> {
    let hub = Arc::new(Hub::new(args.jaeger.clone(), true));
    let followers = follow::all(&args.sources, &hub);
    let complete =
        tokio::time::timeout(FIRST_PICTURE, hub.until(picture::Picture::is_complete)).await.is_ok();
    if hub.has_nodes() {
        bound::compute(&args.sources, &hub).await;
    }
    drop(followers);
    if !complete {
        eprintln!("services that did not answer are missing: {}", hub.troubles());
    }
    store(&hub, file)?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

/// The page as one file, with everything that is known in it.
fn store(hub: &Hub, file: &Path) -> Result<()> {
    if !hub.has_nodes() {
        bail!("the provisioner did not answer within {} s: {}", FIRST_PICTURE.as_secs(), hub.troubles());
    }
    std::fs::write(file, document::page(&hub.full())).with_context(|| format!("write {}", file.display()))
}

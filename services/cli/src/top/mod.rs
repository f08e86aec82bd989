//! `kubectl karpenter top`: what nodes cost, how much of that is used, and what disruption could save.
//!
//! The picture is the provisioner's snapshot; what could be saved is what disruption found at its last look. Without disruption
//! the rest is still shown. `--watch` follows the streams of the live page instead.

mod figures;
mod table;
mod watch;

use std::io::{self, Write as _};

use anyhow::Result;
use clap::ValueEnum;
use proto::disruption::v1::ListCandidatesRequest;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::provisioner::v1::{GetSnapshotRequest, GetSnapshotResponse};
use runtime::Service;

use crate::connect::{Connection, explain};
use crate::output::{Output, write_json};
use crate::progress::while_running;
use crate::ui::Sources;
use figures::Top;

/// Snapshots of thousands of nodes fill a few megabytes.
const LARGEST_ANSWER: usize = 64 << 20;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only nodes of this NodePool
    #[arg(long, short = 'p', value_name = "NAME")]
    nodepool: Option<String>,

    /// Follow on a full screen until q: nodes, cost, pending pods and drains. Without a terminal, one line per node that
    /// changed
    #[arg(long, short = 'w', conflicts_with_all = ["by", "limit"])]
    watch: bool,

    /// Order of the nodes, largest first
    #[arg(long, default_value = "waste")]
    by: By,

    /// Most nodes to list; 0 lists all
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,

    /// With --watch, json is one line per node that changed
    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_PROVISIONER", hide = true)]
    grpc_provisioner: Option<String>,

    /// Address of disruption; `--address` is the provisioner's
    #[arg(long, env = "GRPC_DISRUPTION", value_name = "HOST:PORT", help_heading = "Connection")]
    disruption_address: Option<String>,

    #[arg(long, env = "GRPC_TERMINATION", hide = true)]
    grpc_termination: Option<String>,

    #[arg(long, env = "GRPC_INTERRUPTION_WATCHER", hide = true)]
    grpc_interruption_watcher: Option<String>,
    #[arg(long, env = "GRPC_PRICING_CACHE", hide = true)]
    grpc_pricing_cache: Option<String>,

    /// Any text: the screen of --watch has no colours (https://no-color.org).
    #[arg(long, env = "NO_COLOR", hide = true)]
    no_color: Option<String>,
}

impl Args {
    fn sources(&self) -> Sources {
        Sources {
            connection: self.connection.clone(),
            grpc_provisioner: self.grpc_provisioner.clone(),
            grpc_disruption: self.disruption_address.clone(),
            grpc_termination: self.grpc_termination.clone(),
            grpc_interruption_watcher: self.grpc_interruption_watcher.clone(),
            grpc_pricing_cache: self.grpc_pricing_cache.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// What is paid for and not requested
    Waste,
    Cost,
    /// What disruption could save
    Saving,
}

pub fn run(args: &Args) -> Result<()> {
    if args.watch {
        return watch::run(args);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut top = while_running("querying provisioner and disruption", || runtime.block_on(ask(args)))?;
    top.order(args.by);
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => write_json(&mut out, &top)?,
        Output::Table => table::print(&mut out, &top, args.limit)?,
    }
    out.flush()?;
    Ok(())
}

async fn ask(args: &Args) -> Result<Top> {
    let pool = args.nodepool.clone().unwrap_or_default();
    let (snapshot, candidates) = tokio::join!(snapshot(args), candidates(args, pool.clone()));
    let mut top = Top::new(&snapshot?, &pool)?;
    match candidates {
        Ok(candidates) => top.add_candidates(&candidates),
        Err(error) => top.without_disruption(&error),
    }
    Ok(top)
}

async fn snapshot(args: &Args) -> Result<GetSnapshotResponse> {
    let transport = args.connection.open(Service::Provisioner, args.grpc_provisioner.as_deref()).await?;
    let mut client = ProvisionerClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    let request = GetSnapshotRequest { with_nodes: true, with_pending: false };
    Ok(client.get_snapshot(request).await.map_err(|status| explain(&status))?.into_inner())
}

async fn candidates(args: &Args, node_pool: String) -> Result<Vec<proto::disruption::v1::Candidate>> {
    // Behind `--address` is the provisioner.
    let connection = Connection { address: args.disruption_address.clone(), ..args.connection.clone() };
    let transport = connection.open(Service::Disruption, None).await?;
    let mut client = DisruptionClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    let request = ListCandidatesRequest { node_pool };
    let answer = client.list_candidates(request).await.map_err(|status| explain(&status))?;
    Ok(answer.into_inner().candidates)
}

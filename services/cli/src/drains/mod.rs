//! `kubectl karpenter drains`: which nodes are being removed, how far each is, and what it waits for, as the running
//! termination service sees it; once, or live with `--watch`.

mod rows;
mod table;
mod watch;

use std::io::{self, Write as _};

use anyhow::Result;
use jiff::Timestamp;
use proto::termination::v1::ListDrainsRequest;
use proto::termination::v1::termination_client::TerminationClient;
use runtime::Service;

use crate::connect::{Connection, Transport, explain};
use crate::output::{Output, write_json};
use crate::progress::while_running;
use rows::Drain;

/// Thousands of nodes with dozens of pods each.
const LARGEST_ANSWER: usize = 64 << 20;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Node or NodeClaim; all when absent
    name: Option<String>,

    /// Follow until the named one is gone, or until interrupted
    #[arg(long, short = 'w')]
    watch: bool,

    /// Only nodes of this NodePool
    #[arg(long, value_name = "NAME")]
    nodepool: Option<String>,

    /// Everything a drain waits for, not only the first few
    #[arg(long, short = 'A')]
    all: bool,

    /// With --watch, json is one line per drain that changed
    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_TERMINATION", hide = true)]
    grpc_termination: Option<String>,
}

impl Args {
    async fn client(&self) -> Result<TerminationClient<Transport>> {
        let from_env = self.grpc_termination.as_deref();
        let transport = self.connection.open(Service::Termination, from_env).await?;
        Ok(TerminationClient::new(transport).max_decoding_message_size(LARGEST_ANSWER))
    }

    fn wants(&self, drain: &Drain) -> bool {
        let named = self.name.as_ref().is_none_or(|name| drain.node == *name || drain.node_claim == *name);
        let of_pool = self.nodepool.as_ref().is_none_or(|pool| drain.node_pool == *pool);
        named && of_pool
    }

    fn waits_shown(&self) -> usize {
        if self.all { usize::MAX } else { table::FEW }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.watch {
        return runtime.block_on(watch::follow(args));
    }
    let drains = while_running("asking termination", || runtime.block_on(ask(args)))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => write_json(&mut out, &drains)?,
        Output::Table if drains.is_empty() => writeln!(out, "no node is being removed")?,
        Output::Table => table::print(&mut out, &drains, args.waits_shown(), Timestamp::now())?,
    }
    out.flush()?;
    Ok(())
}

async fn ask(args: &Args) -> Result<Vec<Drain>> {
    let request = ListDrainsRequest { node_pool: args.nodepool.clone().unwrap_or_default() };
    let answer = args.client().await?.list_drains(request).await.map_err(|status| explain(&status))?;
    let all = answer.into_inner().drains.into_iter().map(Drain::from);
    Ok(all.filter(|drain| args.wants(drain)).collect())
}

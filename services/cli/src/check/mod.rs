//! `kubectl karpenter check`: the self-test of an installation. It asks the cluster and the running services, changes nothing, and says of
//! everything that is wrong how to fix it. `--before-takeover` examines a running Karpenter instead, before its release is upgraded. What is judged is in the other files, as pure functions of what was read.

mod definitions;
mod finding;
mod leases;
mod pools;
mod rights;
mod services;
mod sources;
mod takeover;

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use jiff::Timestamp;

use crate::connect::Connection;
use crate::progress::while_running;
use finding::{Finding, Verdict};

#[derive(clap::Args, Debug)]
pub struct Args {
    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    /// First part of the Leases' names, where the services were started with another
    #[arg(long, env = "LEADER_ELECTION_NAME", default_value = "karpenter")]
    leader_election_name: String,

    /// Check the Karpenter that runs in the namespace for obstacles to taking over its release
    #[arg(long)]
    before_takeover: bool,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let findings = while_running("checking", || runtime.block_on(look(args)))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &findings)?;
            writeln!(out)?;
        }
        Output::Table => finding::print(&mut out, &findings)?,
    }
    out.flush()?;
    let wrong = findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count();
    anyhow::ensure!(wrong == 0, "{wrong} of {} checks failed", findings.len());
    Ok(())
}

async fn look(args: &Args) -> Result<Vec<Finding>> {
    let connection = &args.connection;
    let client = connection.client().await?;
    let version = client.apiserver_version().await.context("reach the API server")?;
    let mut findings =
        vec![Finding::good("cluster", "API server", format!("answers, version {}", version.git_version))];
    let namespace = &connection.namespace;
    if args.before_takeover {
        findings.extend(takeover::check(&client, namespace, &version).await?);
        return Ok(findings);
    }
    let (definitions, services, leases, rights, sources, pools) = tokio::try_join!(
        definitions::check(&client),
        services::check(connection, &client),
        leases::check(&client, namespace, &args.leader_election_name, Timestamp::now()),
        rights::check(&client, namespace),
        async { Ok(sources::check(connection).await) },
        pools::check(&client),
    )?;
    findings.extend([definitions, services, leases, rights, sources, pools].into_iter().flatten());
    Ok(findings)
}

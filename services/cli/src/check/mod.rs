//! `kubectl karpenter check`: the self-test of an installation. It asks the cluster and the running services, changes nothing, and says of
//! everything that is wrong how to fix it. `--before-takeover` examines a running Karpenter instead, and the values
//! given with `--values`, before its release is upgraded. What is judged is in the other files, as pure functions of what was read.

mod definitions;
mod finding;
mod leases;
mod pools;
mod right;
mod rights;
mod services;
mod sources;
mod takeover;
#[cfg(test)]
mod tests;
mod values;

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use jiff::Timestamp;

use crate::connect::Connection;
use crate::output::{Output, write_json};
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

    /// Values file written for Karpenter, to be examined too; repeat it in the order that helm gets them
    #[arg(long, value_name = "FILE", requires = "before_takeover")]
    values: Vec<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let findings = while_running("checking", || runtime.block_on(look(args)))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => write_json(&mut out, &findings)?,
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
        findings.extend(takeover::check(&client, namespace, &version).await);
        findings.extend(values::check(&args.values)?);
        return Ok(without_repetition(findings));
    }
    let (definitions, services, leases, rights, sources, pools) = tokio::join!(
        definitions::check(&client, namespace),
        services::check(connection, &client),
        leases::check(&client, namespace, &args.leader_election_name, Timestamp::now()),
        rights::check(&client, namespace),
        sources::check(connection),
        pools::check(&client),
    );
    findings.extend([definitions, services, leases, rights?, sources, pools].into_iter().flatten());
    Ok(without_repetition(findings))
}

/// A right that is missing for several objects is reported once.
fn without_repetition(findings: Vec<Finding>) -> Vec<Finding> {
    let mut once: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        if !once.contains(&finding) {
            once.push(finding);
        }
    }
    once
}

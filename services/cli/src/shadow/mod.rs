//! `kubectl karpenter shadow`: what an installation in shadow mode would have done, beside what really happened since.
//!
//! Every replica of every service is asked for the writes that it did not store; prices come from the shadow's own
//! pricing-cache.

mod decisions;
mod happened;
mod prices;
mod table;

use std::io::{self, Write as _};

use anyhow::{Context as _, Result, bail};
use futures::future::join_all;
use jiff::Timestamp;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::pricingcache::v1::{GetPricesRequest, Price};
use proto::shadow::v1::shadow_client::ShadowClient;
use proto::shadow::v1::{ListWritesRequest, ListWritesResponse};
use runtime::Service;
use serde::Serialize;
use tonic::Code;

use crate::connect::{Connection, Transport, explain};
use crate::output::{Output, write_json};
use crate::progress::while_running;
use decisions::Decision;
use happened::Happened;
use prices::Prices;

/// A thousand writes with their bodies, and thousands of NodeClaims.
const LARGEST_ANSWER: usize = 64 << 20;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only decisions about this NodePool
    #[arg(long, short = 'p', value_name = "NAME")]
    nodepool: Option<String>,

    /// Also writes that launch and remove nothing: conditions, labels, taints
    #[arg(long, short = 'A')]
    all: bool,

    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    #[command(flatten)]
    addresses: Addresses,
}

/// In the environment, as the local stack leaves them. Without one, every replica that published itself is asked.
#[derive(clap::Args, Debug)]
struct Addresses {
    #[arg(long, env = "GRPC_PROVISIONER", hide = true)]
    grpc_provisioner: Option<String>,
    #[arg(long, env = "GRPC_DISRUPTION", hide = true)]
    grpc_disruption: Option<String>,
    #[arg(long, env = "GRPC_TERMINATION", hide = true)]
    grpc_termination: Option<String>,
    #[arg(long, env = "GRPC_INTERRUPTION_WATCHER", hide = true)]
    grpc_interruption_watcher: Option<String>,
    #[arg(long, env = "GRPC_PRICING_CACHE", hide = true)]
    grpc_pricing_cache: Option<String>,
}

impl Addresses {
    fn of(&self, service: Service) -> Option<&str> {
        let address = match service {
            Service::Provisioner => &self.grpc_provisioner,
            Service::Disruption => &self.grpc_disruption,
            Service::Termination => &self.grpc_termination,
            Service::InterruptionWatcher => &self.grpc_interruption_watcher,
            Service::PricingCache => &self.grpc_pricing_cache,
        };
        address.as_deref().filter(|text| !text.is_empty())
    }
}

/// The comparison.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Since when every part of it is known.
    since: Option<Timestamp>,
    decisions: Vec<Decision>,
    happened: Vec<Happened>,
    /// Writes that were dropped to make room.
    forgotten: u64,
    /// What could not be asked.
    problems: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    if args.connection.address.is_some() {
        bail!("shadow asks all five services: use GRPC_<SERVICE> for addresses, not --address");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = while_running("asking the five services", || runtime.block_on(ask(args)))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => write_json(&mut out, &report)?,
        Output::Table => table::print(&mut out, &report, Timestamp::now())?,
    }
    out.flush()?;
    Ok(())
}

async fn ask(args: &Args) -> Result<Report> {
    let asked = join_all(Service::ALL.map(|service| writes_of(args, service))).await;
    let mut report = Report::default();
    let mut answers: Vec<(Service, ListWritesResponse)> = Vec::new();
    for (service, outcome) in Service::ALL.into_iter().zip(asked) {
        match outcome {
            Ok((all, problems)) => {
                report.problems.extend(problems);
                answers.extend(all.into_iter().map(|answer| (service, answer)));
            }
            Err(error) => report.problems.push(format!("{service}: {error:#}")),
        }
    }
    if answers.is_empty() {
        bail!("no service answered:\n  {}", report.problems.join("\n  "));
    }
    let prices = match prices(args).await {
        Ok(prices) => prices,
        Err(error) => {
            report.problems.push(format!("no prices: {error:#}"));
            Prices::default()
        }
    };
    report.forgotten = answers.iter().map(|(_, answer)| answer.forgotten).sum();
    report.since = answers.iter().filter_map(|(_, answer)| prices::time(answer.since.as_ref())).max();
    let claims: Vec<_> = answers.iter().flat_map(|(_, answer)| answer.node_claims.clone()).collect();
    let writes = answers
        .into_iter()
        .flat_map(|(service, answer)| answer.writes.into_iter().map(move |write| (service, write)));
    report.decisions = decisions::of(writes.collect(), &claims, &prices);
    report.decisions.retain(|decision| {
        (args.all || decision.changes_nodes())
            && args.nodepool.as_ref().is_none_or(|pool| decision.node_pool == *pool)
    });
    report.happened = happened::since(report.since, &claims, &prices);
    report.happened.retain(|each| args.nodepool.as_ref().is_none_or(|pool| each.node_pool == *pool));
    Ok(report)
}

/// What the replicas of one service answered, and which did not.
async fn writes_of(args: &Args, service: Service) -> Result<(Vec<ListWritesResponse>, Vec<String>)> {
    let replicas = args.connection.open_each(service, args.addresses.of(service)).await?;
    let (mut answers, mut problems) = (Vec::new(), Vec::new());
    for (replica, outcome) in replicas {
        let answer = match outcome {
            Ok(transport) => list_writes(transport).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) => problems.push(format!("{service} {replica}: {error:#}")),
        }
    }
    if answers.is_empty() {
        bail!("{}", problems.join("; "));
    }
    Ok((answers, problems))
}

async fn list_writes(transport: Transport) -> Result<ListWritesResponse> {
    let mut client = ShadowClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    match client.list_writes(ListWritesRequest { limit: 0 }).await {
        Ok(answer) => Ok(answer.into_inner()),
        Err(status) if status.code() == Code::Unimplemented => {
            bail!("does not run in shadow mode (chart: settings.shadow; flag: --shadow-mode)")
        }
        Err(status) => Err(explain(&status)),
    }
}

async fn prices(args: &Args) -> Result<Prices> {
    let service = Service::PricingCache;
    let transport = args.connection.open(service, args.addresses.of(service)).await?;
    let mut client = PricingCacheClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    let answer = client.get_prices(GetPricesRequest::default()).await.map_err(|status| explain(&status));
    let all: Vec<Price> = answer.context("ask pricing-cache")?.into_inner().prices;
    Ok(Prices::new(all))
}

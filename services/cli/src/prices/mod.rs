//! `kubectl karpenter prices`: what EC2 offers and for how much, as the running pricing-cache sees it now.

mod rows;
mod table;

use std::io::{self, Write as _};

use anyhow::Result;
use clap::ValueEnum;
use jiff::Timestamp;
use proto::pricingcache::v1::GetPricesRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use runtime::Service;

use crate::connect::{Connection, explain};
use crate::output::{Output, write_json};
use crate::progress::while_running;
use rows::{Answer, Pattern};

/// Prices of a large region fill a few megabytes.
const LARGEST_ANSWER: usize = 64 << 20;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Instance types; `*` stands for anything, as in `m7g.*`
    #[arg(long = "type", short = 't', value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,

    /// Zones, by name or id
    #[arg(long = "zone", short = 'z', value_name = "ZONE", value_delimiter = ',')]
    zones: Vec<String>,

    /// Capacity types
    #[arg(long, short = 'c', value_name = "TYPE", value_delimiter = ',')]
    capacity_type: Vec<CapacityType>,

    /// Cheapest first instead of by name
    #[arg(long)]
    by_price: bool,

    #[arg(long, short = 'o', default_value = "table")]
    output: Output,

    #[command(flatten)]
    connection: Connection,

    /// Address in the environment, as the local stack leaves it.
    #[arg(long, env = "GRPC_PRICING_CACHE", hide = true)]
    grpc_pricing_cache: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CapacityType {
    OnDemand,
    Spot,
    Reserved,
}

pub fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = while_running("asking pricing-cache", || runtime.block_on(ask(args)))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match args.output {
        Output::Json => write_json(&mut out, &answer)?,
        Output::Table => table::print(&mut out, &answer, Timestamp::now())?,
    }
    out.flush()?;
    anyhow::ensure!(!answer.prices.is_empty(), "no offering matches");
    Ok(())
}

async fn ask(args: &Args) -> Result<Answer> {
    let types: Vec<Pattern> = args.types.iter().map(|text| Pattern::new(text)).collect();
    // The service knows exact names only; patterns are matched here.
    let exact = types.iter().all(|pattern| pattern.exact().is_some());
    let wanted = |kind: &CapacityType| match kind {
        CapacityType::OnDemand => proto::types::v1::CapacityType::OnDemand,
        CapacityType::Spot => proto::types::v1::CapacityType::Spot,
        CapacityType::Reserved => proto::types::v1::CapacityType::Reserved,
    };
    let request = GetPricesRequest {
        instance_types: if exact { args.types.clone() } else { Vec::new() },
        zones: Vec::new(),
        capacity_types: args.capacity_type.iter().map(|kind| wanted(kind).into()).collect(),
    };
    let from_env = args.grpc_pricing_cache.as_deref();
    let transport = args.connection.open(Service::PricingCache, from_env).await?;
    let mut client = PricingCacheClient::new(transport).max_decoding_message_size(LARGEST_ANSWER);
    let answer = client.get_prices(request).await.map_err(|status| explain(&status))?;
    let mut answer = Answer::from(answer.into_inner());
    answer.keep(&types, &args.zones);
    if args.by_price {
        answer.sort_by_price();
    }
    Ok(answer)
}

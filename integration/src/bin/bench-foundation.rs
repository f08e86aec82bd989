//! What every service costs before it has work: start, idle memory and load, one call between two services.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use integration::figures::{Figure, FiguresFile, Report};
use integration::rpc::Impersonation;
use integration::{Service, Stack};
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;

/// Calls measured, after as many that warm up the connection and the token cache.
const CALLS: usize = 2_000;
/// How long an idle service is watched.
const IDLE: Duration = Duration::from_secs(20);

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    figures: FiguresFile,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let stack = Stack::up_in("bench")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(all(&stack));
    stack.down()?;
    report?.write(&options.figures)
}

async fn all(stack: &Stack) -> Result<Report> {
    let mut report = Report::default();
    let mut services = Vec::new();
    // The provisioner is ready once it has a catalogue, so pricing-cache goes first.
    let mut order = runtime::Service::ALL;
    order.sort_by_key(|service| *service != runtime::Service::PricingCache);
    for service in order {
        let began = Instant::now();
        let started = start(stack, service.as_str())?;
        let ready = began.elapsed().as_secs_f64() * 1e3;
        report.add(Figure::new(format!("{service}: start to SERVING"), ready, "ms").at_most(1_000.0));
        services.push(started);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before: Vec<u64> = services.iter().map(Service::cpu_ticks).collect::<Result<_>>()?;
    tokio::time::sleep(IDLE).await;
    for (service, before) in services.iter().zip(before) {
        let ticks = service.cpu_ticks()? - before;
        let resident = service.resident_bytes()? as f64 / 1e6;
        report.add(Figure::new(format!("{}: idle, resident", service.name), resident, "MB").at_most(25.0));
        let share = ticks as f64 / IDLE.as_secs_f64();
        report.add(Figure::new(format!("{}: idle, share of a core", service.name), share, "%").at_most(1.0));
    }
    let (p50, p99) = calls(stack).await?;
    let call = |name: &str, took: Duration| {
        let what = format!("unary RPC with TLS and authentication, {name}");
        Figure::new(what, took.as_secs_f64() * 1e3, "ms")
    };
    report.add(call("p50", p50).at_most(1.0));
    report.add(call("p99", p99));
    for service in services {
        service.stop(stack)?;
    }
    Ok(report)
}

/// The binaries of the same build as this program: a release build measures release binaries.
fn start(stack: &Stack, name: &str) -> Result<Service> {
    let directory = std::env::current_exe()?.parent().context("the program lies in a directory")?.to_owned();
    let directory = directory.to_str().context("a path in UTF-8")?;
    Service::start_with(stack, name, 1, &["--bin-dir", directory])
}

async fn calls(stack: &Stack) -> Result<(Duration, Duration)> {
    let (from, to) = (runtime::Service::Provisioner, runtime::Service::PricingCache);
    let caller = Impersonation::new(stack, from, to).await?;
    let mut client = PricingCacheClient::new(caller.peers.any());
    let mut times = Vec::with_capacity(CALLS);
    for round in 0..2 * CALLS {
        let began = Instant::now();
        client.list_unavailable(ListUnavailableRequest {}).await.context("ListUnavailable")?;
        if round >= CALLS {
            times.push(began.elapsed());
        }
    }
    times.sort();
    Ok((times[CALLS / 2], times[CALLS * 99 / 100]))
}

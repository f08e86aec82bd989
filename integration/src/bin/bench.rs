//! `make bench`: what the foundation costs, measured on real processes beside its bars. Prints a table and ends with status 1
//! when a bar is missed, so that a regression is seen.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
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
    /// Print figures as JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

struct Figure {
    what: String,
    measured: f64,
    bar: f64,
    unit: &'static str,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match measure() {
        Ok(figures) => {
            show(&figures, options.json);
            let missed = figures.iter().any(|figure| figure.measured > figure.bar);
            if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<Vec<Figure>> {
    let stack = Stack::up_in("bench")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(all(&stack));
    stack.down()?;
    figures
}

async fn all(stack: &Stack) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut services = Vec::new();
    // The provisioner is ready once it has a catalogue, so pricing-cache goes first.
    let mut order = runtime::Service::ALL;
    order.sort_by_key(|service| *service != runtime::Service::PricingCache);
    for service in order {
        let began = Instant::now();
        let started = start(stack, service.as_str())?;
        let ready = began.elapsed();
        figures.push(Figure {
            what: format!("{service}: start to SERVING"),
            measured: ready.as_secs_f64() * 1e3,
            bar: 1_000.0,
            unit: "ms",
        });
        services.push(started);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before: Vec<u64> = services.iter().map(Service::cpu_ticks).collect::<Result<_>>()?;
    tokio::time::sleep(IDLE).await;
    for (service, before) in services.iter().zip(before) {
        let ticks = service.cpu_ticks()? - before;
        figures.push(Figure {
            what: format!("{}: idle, resident", service.name),
            measured: service.resident_bytes()? as f64 / 1e6,
            bar: 25.0,
            unit: "MB",
        });
        figures.push(Figure {
            what: format!("{}: idle, share of a core", service.name),
            measured: ticks as f64 / IDLE.as_secs_f64(),
            bar: 1.0,
            unit: "%",
        });
    }
    let (p50, p99) = calls(stack).await?;
    for (name, value, bar) in [("p50", p50, 1.0), ("p99", p99, f64::INFINITY)] {
        let what = format!("unary RPC with TLS and authentication, {name}");
        figures.push(Figure { what, measured: value.as_secs_f64() * 1e3, bar, unit: "ms" });
    }
    for service in services {
        service.stop(stack)?;
    }
    Ok(figures)
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

fn show(figures: &[Figure], json: bool) {
    for Figure { what, measured, bar, unit } in figures {
        if json {
            let line = serde_json::json!({"what": what, "measured": measured, "bar": bar, "unit": unit});
            println!("{line}");
        } else {
            let verdict = if measured <= bar { "ok" } else { "MISSED" };
            let bar = if bar.is_finite() { format!("< {bar}") } else { "-".to_owned() };
            println!("{what:<55} {measured:>9.2} {unit:<3} bar {bar:<7} {verdict}");
        }
    }
}

//! The API server goes away and comes back: services neither end nor spin, and are of use again by themselves.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration::rpc::Impersonation;
use integration::{Service, Stack, Test, eventually, test};
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use tonic::Code;

/// An API server that starts refuses everybody until it has read its roles.
const RESTARTED: &[&str] = &[" may not "];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("outage", alone, services_sit_out_an_absent_api_server).expecting(RESTARTED),
        test!("outage", soak, services_sit_out_a_minute_without_api_server).expecting(RESTARTED),
    ]
}

async fn services_sit_out_an_absent_api_server(stack: Stack) -> Result<()> {
    sit_out(&stack, Duration::from_secs(15)).await
}

async fn services_sit_out_a_minute_without_api_server(stack: Stack) -> Result<()> {
    sit_out(&stack, Duration::from_secs(60)).await
}

/// The length of the outage is the point here, so this is the one place that waits for time to pass.
async fn sit_out(stack: &Stack, outage: Duration) -> Result<()> {
    let services =
        [Service::start(stack, "pricing-cache", 1, &[])?, Service::start(stack, "disruption", 1, &[])?];
    let pid: i32 = std::fs::read_to_string(stack.dir().join("pid/kube-apiserver"))?
        .split_whitespace()
        .next()
        .context("a pid file begins with the pid")?
        .parse()?;
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status()?;
    ensure!(killed.success(), "could not kill the API server");

    let before: Vec<u64> = services.iter().map(Service::cpu_ticks).collect::<Result<_>>()?;
    tokio::time::sleep(outage).await;
    for (service, before) in services.iter().zip(before) {
        let ticks = service.cpu_ticks().with_context(|| format!("{} ended", service.identity()))? - before;
        // 100 ticks are a second of processor time: a tenth of one core would be a busy loop.
        let share = ticks as f64 / (outage.as_secs_f64() * 100.0);
        ensure!(share < 0.1, "{} used {:.0} % of a core while waiting", service.identity(), share * 100.0);
    }

    stack.command(["up", "--services", "none"])?;
    let (from, to) = (runtime::Service::Provisioner, runtime::Service::PricingCache);
    let caller = Impersonation::new(stack, from, to).await?;
    eventually("an authenticated call to be answered again", || async {
        let mut client = PricingCacheClient::new(caller.peers.any());
        let code =
            client.list_unavailable(ListUnavailableRequest {}).await.map_or_else(|s| s.code(), |_| Code::Ok);
        Ok((!matches!(code, Code::Unavailable | Code::Unauthenticated | Code::DeadlineExceeded))
            .then_some(()))
    })
    .await?;
    for service in &services {
        eventually("the service to be ready again", || async {
            Ok(service.admin_get("/readyz").is_ok().then_some(()))
        })
        .await?;
    }
    services.iter().try_for_each(|service| service.stop(stack))
}

//! Services that have an IPv6 address and no other.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

use anyhow::{Context as _, Result, ensure};
use integration::rpc::Impersonation;
use integration::{Service, Stack, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use proto::disruption::v1::ListCandidatesRequest;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::interruptionwatcher::v1::ListEventsRequest;
use proto::interruptionwatcher::v1::interruption_watcher_client::InterruptionWatcherClient;
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::provisioner::v1::GetSnapshotRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::termination::v1::ListDrainsRequest;
use proto::termination::v1::termination_client::TerminationClient;

use super::ORDER;

pub(super) async fn services_reach_each_other_over_ipv6_alone(stack: Stack) -> Result<()> {
    let running: Vec<Service> = ORDER.iter().map(|name| start(&stack, name)).collect::<Result<_>>()?;
    for service in &running {
        // The provisioner is ready only when it has the catalogue from pricing-cache, and disruption when it has reached the
        // provisioner: they call each other over IPv6.
        eventually(&format!("{} to be ready", service.name), || async {
            Ok(service.admin_get("/readyz").is_ok().then_some(()))
        })
        .await?;
        ensure!(service.admin_get("/metrics")?.contains("karpenter_build_info"), "{}", service.name);
        let port = service.admin.rsplit(':').next().context("a port")?.parse::<u16>()?;
        let over_ipv4 = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        ensure!(over_ipv4.is_err(), "the admin port of {} is open over IPv4", service.name);
    }
    let trust: Api<ConfigMap> = Api::namespaced(stack.admin().await?, "kube-system");
    for callee in runtime::Service::ALL {
        let published = trust.get(&callee.trust_config_map()).await?.data.unwrap_or_default();
        let own = format!("{callee}-1.addr");
        let address = published.get(&own).with_context(|| format!("{own} among {:?}", published.keys()))?;
        ensure!(address.starts_with("[::1]:"), "{callee} published {address}");
        // As a person and with the addresses that are published, so that the call goes to that address.
        is_answered(&stack, callee).await.with_context(|| format!("call {callee} at {address}"))?;
    }
    running.iter().rev().try_for_each(|service| service.stop(&stack))
}

fn start(stack: &Stack, name: &str) -> Result<Service> {
    let port = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).context("listen on ::1")?.local_addr()?.port();
    let admin = format!("[::1]:{port}");
    let on = format!("--arg=--admin-addr={admin}");
    // The stack looks at the admin port over IPv4, and would wait in vain.
    let options = ["--no-wait", "--arg=--grpc-addr=[::1]:0", &on];
    Ok(Service { admin, ..Service::start_with(stack, name, 1, &options)? })
}

async fn is_answered(stack: &Stack, callee: runtime::Service) -> Result<()> {
    use runtime::Service as S;

    let person = Impersonation::person(stack, callee).await?;
    let any = person.peers.any();
    let answer = match callee {
        S::Provisioner => {
            ProvisionerClient::new(any).get_snapshot(GetSnapshotRequest::default()).await.map(drop)
        }
        S::Disruption => {
            DisruptionClient::new(any).list_candidates(ListCandidatesRequest::default()).await.map(drop)
        }
        S::Termination => {
            TerminationClient::new(any).list_drains(ListDrainsRequest::default()).await.map(drop)
        }
        S::InterruptionWatcher => {
            InterruptionWatcherClient::new(any).list_events(ListEventsRequest::default()).await.map(drop)
        }
        S::PricingCache => {
            PricingCacheClient::new(any).list_unavailable(ListUnavailableRequest {}).await.map(drop)
        }
    };
    Ok(answer?)
}

//! Opens a connection to a replica in two ways at once: straight to the address it published, which works inside the cluster's
//! network, and through the API server's port-forward to its pod, which works wherever kubectl does. The first one that
//! answers with the replica's own certificate is used, so an address that means another host here does no harm.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::DuplexStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};

const CONNECT: Duration = Duration::from_secs(5);
const CALL: Duration = Duration::from_secs(60);
/// A connection whose other end went without a word (a machine that slept, a network that changed) looks like a quiet one. Every
/// so often the other end is asked for a sign of life, and must give it within this time.
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBE_ANSWER: Duration = Duration::from_secs(20);

/// One replica of a service, as the service's trust ConfigMap has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// In a cluster also the name of its pod.
    pub(crate) name: String,
    address: String,
    pem: String,
}

/// The replicas in the data of a trust ConfigMap: keys are `<replica>.addr` and `<replica>.pem`.
pub(crate) fn replicas(published: &BTreeMap<String, String>) -> Vec<Replica> {
    let addresses = published.iter().filter_map(|(key, value)| Some((key.strip_suffix(".addr")?, value)));
    addresses
        .map(|(name, address)| Replica {
            name: name.to_owned(),
            address: address.trim().to_owned(),
            pem: published.get(&format!("{name}.pem")).cloned().unwrap_or_default(),
        })
        .collect()
}

/// Connects to `address` without TLS.
pub(super) async fn insecurely(address: &str) -> Result<Channel> {
    Ok(endpoint(&format!("http://{address}"))?.connect().await?)
}

/// Connects to `address`, behind which any of the replicas may be: a forwarded port, for instance.
pub(super) async fn at(address: &str, domain: &str, replicas: &[Replica]) -> Result<Channel> {
    let pems: String = replicas.iter().map(|replica| replica.pem.as_str()).collect();
    let endpoint = endpoint(&format!("https://{address}"))?.tls_config(tls(domain, pems))?;
    within_time(async { Ok(endpoint.connect().await?) }).await
}

/// Connects to the first of the replicas that answers.
pub(crate) async fn to_any(pods: &Api<Pod>, domain: &str, replicas: &[Replica]) -> Result<Channel> {
    let mut ways: FuturesUnordered<BoxFuture<'_, (String, Result<Channel>)>> = FuturesUnordered::new();
    for replica in replicas {
        let direct = at(&replica.address, domain, std::slice::from_ref(replica));
        ways.push(direct.map(move |outcome| (replica.address.clone(), outcome)).boxed());
        let forwarded = through_api_server(pods.clone(), domain, replica);
        ways.push(
            forwarded.map(move |outcome| (format!("port-forward to {}", replica.name), outcome)).boxed(),
        );
    }
    let mut failures = Vec::new();
    while let Some((way, outcome)) = ways.next().await {
        match outcome {
            Ok(channel) => return Ok(channel),
            Err(error) => failures.push(format!("{way}: {error:#}")),
        }
    }
    failures.sort();
    bail!("{}", failures.join("; "))
}

async fn through_api_server(pods: Api<Pod>, domain: &str, replica: &Replica) -> Result<Channel> {
    let address: SocketAddr =
        replica.address.parse().with_context(|| format!("{} is not an address", replica.address))?;
    let port = address.port();
    let endpoint =
        endpoint(&format!("https://{domain}:{port}"))?.tls_config(tls(domain, replica.pem.clone()))?;
    let pod = replica.name.clone();
    // Called again whenever the channel has lost its connection.
    let connector = tower::service_fn(move |_: Uri| forward(pods.clone(), pod.clone(), port));
    within_time(async { Ok(endpoint.connect_with_connector(connector).await?) }).await
}

async fn forward(pods: Api<Pod>, pod: String, port: u16) -> io::Result<TokioIo<DuplexStream>> {
    let mut forwarder = pods.portforward(&pod, &[port]).await.map_err(io::Error::other)?;
    let stream = forwarder.take_stream(port).ok_or_else(|| io::Error::other("the port was not forwarded"))?;
    Ok(TokioIo::new(stream))
}

async fn within_time(connecting: impl Future<Output = Result<Channel>>) -> Result<Channel> {
    tokio::time::timeout(CONNECT, connecting).await.context("no answer in 5 s")?
}

fn tls(domain: &str, pem: String) -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)).domain_name(domain)
}

fn endpoint(address: &str) -> Result<Endpoint> {
    let endpoint =
        Endpoint::from_shared(address.to_owned()).with_context(|| format!("{address} is not an address"))?;
    Ok(endpoint
        .connect_timeout(CONNECT)
        .timeout(CALL)
        .http2_keep_alive_interval(PROBE_EVERY)
        .keep_alive_timeout(PROBE_ANSWER)
        .keep_alive_while_idle(true))
}

#[cfg(test)]
mod tests;

//! Strangers and people who call without end, while EC2 takes nodes back: what services hand each other is not held up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration::kubernetes::namespace;
use integration::{Service, Stack, Test, test};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, ObjectMeta, PostParams};
use proto::termination::v1::ListDrainsRequest;
use proto::termination::v1::termination_client::TerminationClient;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::interruption_scene::Interruptions;

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("rpc_flood", soak, an_interruption_is_handed_over_within_a_second_of_a_flood_of_calls)]
}

/// Of each kind of caller.
const CONNECTIONS: usize = 4;
const CALLS_AT_ONCE: usize = 16;
const WARNED: usize = 10;

/// What a caller shows.
#[derive(Clone)]
enum Shown {
    Nothing,
    /// A real token of an account that may call nothing.
    Valid(String),
    /// Another one each time: in form a token for this service, of a signature that nobody made.
    Random,
}

async fn an_interruption_is_handed_over_within_a_second_of_a_flood_of_calls(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "flood", &[]).await?;
    let quiet = slowest(&all, 0).await?;

    let (calls, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let mut flood = JoinSet::new();
    let kinds = [Shown::Nothing, Shown::Valid(ordinary_token(all.stack()).await?), Shown::Random];
    for shown in kinds {
        for _ in 0..CONNECTIONS {
            let channel = connect(all.stack(), &all.scene.service).await?;
            for _ in 0..CALLS_AT_ONCE {
                flood.spawn(call_without_end(channel.clone(), shown.clone(), calls.clone(), stop.clone()));
            }
        }
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let loud = slowest(&all, WARNED).await?;
    stop.cancel();
    while flood.join_next().await.is_some() {}
    let refused = all.scene.service.metric("karpenter_rpc_refused_total", "")?;
    println!(
        "{WARNED} warnings: handed over in {quiet:?} at most, under a flood of {calls:?} calls in {loud:?}"
    );
    ensure!(refused > 1000.0, "that was no flood: {refused} calls were refused");
    ensure!(
        loud < Duration::from_secs(1),
        "an interruption was handed over after {loud:?}, {quiet:?} without the flood"
    );
    all.end()
}

/// Warns of some nodes, one after the other, and says how long the slowest took from receipt to the deletion being stored.
async fn slowest(all: &Interruptions, first: usize) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for number in first..first + WARNED {
        let name = all.scene.name(number);
        let instance = all.spot_node(&name).await?;
        all.scene.node_is_ready(&name, true).await?;
        all.warn("spot", &instance)?;
        let event = all.told_once(&instance, "MESSAGE_KIND_SPOT_INTERRUPTED").await?;
        let text = event["handledIn"].as_str().context("handledIn")?;
        slowest = slowest.max(Duration::from_secs_f64(text.trim_end_matches('s').parse()?));
        all.scene.is_gone(&name, &instance).await?;
    }
    Ok(slowest)
}

async fn ordinary_token(stack: &Stack) -> Result<String> {
    let client = stack.admin().await?;
    let space = namespace(&client, "flood").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &space);
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some("ordinary".to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &account).await?;
    let audiences = vec![runtime::Service::Termination.audience()];
    let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let issued = accounts.create_token_request("ordinary", &PostParams::default(), &request).await?;
    Ok(issued.status.context("a token was issued")?.token)
}

async fn connect(stack: &Stack, service: &Service) -> Result<Channel> {
    let trust = std::fs::read_to_string(stack.dir().join("trust.pem"))?;
    let name = runtime::Service::Termination.dns_name("kube-system");
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trust)).domain_name(name);
    Ok(Endpoint::from_shared(format!("https://{}", service.grpc))?.tls_config(tls)?.connect().await?)
}

async fn call_without_end(channel: Channel, shown: Shown, calls: Arc<AtomicU64>, stop: CancellationToken) {
    let mut client = TerminationClient::new(channel);
    while !stop.is_cancelled() {
        let number = calls.fetch_add(1, Ordering::Relaxed);
        let mut request = tonic::Request::new(ListDrainsRequest::default());
        let token = match &shown {
            Shown::Nothing => None,
            Shown::Valid(token) => Some(token.clone()),
            Shown::Random => Some(forged(number)),
        };
        let token = token.and_then(|token| format!("Bearer {token}").parse::<MetadataValue<Ascii>>().ok());
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", token);
        }
        let _ = tokio::time::timeout(Duration::from_secs(30), client.list_drains(request)).await;
    }
}

/// `{"aud":["termination.rpc.karpenter.sh"],"exp":4102444800}`, and a signature that differs each time.
fn forged(number: u64) -> String {
    let claims = "eyJhdWQiOlsidGVybWluYXRpb24ucnBjLmthcnBlbnRlci5zaCJdLCJleHAiOjQxMDI0NDQ4MDB9";
    format!("eyJhbGciOiJSUzI1NiJ9.{claims}.{number:032x}")
}

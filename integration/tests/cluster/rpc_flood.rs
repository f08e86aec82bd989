//! Strangers and people who call without end, while EC2 takes nodes back and pods wait: what services hand each other is not held
//! up, and no decision is slowed down.

mod decisions;
mod flood;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration::kubernetes::namespace;
use integration::{Service, Stack, Test, test};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, ObjectMeta, PostParams};
use proto::termination::v1::ListDrainsRequest;
use proto::termination::v1::termination_client::TerminationClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::interruption_scene::Interruptions;
use decisions::strangers_slow_no_decision_by_more_than_a_fifth;
use flood::{Call, Callers, Flood};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("rpc_flood", soak, an_interruption_is_handed_over_within_a_second_of_a_flood_of_calls),
        test!("rpc_flood", soak, strangers_slow_no_decision_by_more_than_a_fifth),
    ]
}

/// Of each kind of caller.
const CONNECTIONS: usize = 4;
const CALLS_AT_ONCE: usize = 16;
const WARNED: usize = 10;

/// What a caller shows.
#[derive(Clone)]
enum Shown {
    Nothing,
    /// A real token of an account.
    Valid(String),
    /// Another one each time: in form a token with these claims, of a signature that nobody made.
    Random(&'static str),
}

async fn an_interruption_is_handed_over_within_a_second_of_a_flood_of_calls(stack: Stack) -> Result<()> {
    let all = Interruptions::new(stack, "flood", &[]).await?;
    let quiet = slowest(&all, 0).await?;

    let callee = runtime::Service::Termination;
    let (_, stranger) = token_of(all.stack(), "person", &callee.audience()).await?;
    let callers = [Shown::Nothing, Shown::Valid(stranger), Shown::Random(FORGED)].map(|shown| Callers {
        call: question(shown),
        connections: CONNECTIONS,
        at_once: CALLS_AT_ONCE,
        // As fast as they are answered.
        every: Duration::from_millis(1),
    });
    let flood = Flood::new(endpoint(all.stack(), &all.scene.service, callee)?, callers.into());
    flood.set_loud(true);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let loud = slowest(&all, WARNED).await?;
    let [calls, ..] = flood.counts();
    flood.end()?;
    let refused = all.scene.service.metric("karpenter_rpc_refused_total", "")?;
    println!(
        "{WARNED} warnings: handed over in {quiet:?} at most, under a flood of {calls} calls in {loud:?}"
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

fn question(shown: Shown) -> Call {
    Arc::new(move |channel, number| {
        let request = with_token(ListDrainsRequest::default(), &shown, number);
        Box::pin(async move { TerminationClient::new(channel).list_drains(request).await.map(drop) })
    })
}

/// An account without any grant in a namespace of its own, and its token for that audience.
async fn token_of(stack: &Stack, name: &str, audience: &str) -> Result<(String, String)> {
    let client = stack.admin().await?;
    let space = namespace(&client, "flood").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &space);
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &account).await?;
    let spec = TokenRequestSpec { audiences: vec![audience.to_owned()], ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let issued = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    Ok((space, issued.status.context("a token was issued")?.token))
}

fn endpoint(stack: &Stack, service: &Service, callee: runtime::Service) -> Result<Endpoint> {
    let trust = std::fs::read_to_string(stack.dir().join("trust.pem"))?;
    let name = callee.dns_name("kube-system");
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trust)).domain_name(name);
    Ok(Endpoint::from_shared(format!("https://{}", service.grpc))?.tls_config(tls)?)
}

fn with_token<T>(message: T, shown: &Shown, number: u64) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    let token = match shown {
        Shown::Nothing => None,
        Shown::Valid(token) => Some(token.clone()),
        Shown::Random(claims) => Some(format!("eyJhbGciOiJSUzI1NiJ9.{claims}.{number:032x}")),
    };
    let token = token.and_then(|token| format!("Bearer {token}").parse::<MetadataValue<Ascii>>().ok());
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    request
}

/// `{"aud":["termination.rpc.karpenter.sh"],"exp":4102444800}`.
const FORGED: &str = "eyJhdWQiOlsidGVybWluYXRpb24ucnBjLmthcnBlbnRlci5zaCJdLCJleHAiOjQxMDI0NDQ4MDB9";

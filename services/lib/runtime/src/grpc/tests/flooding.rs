//! What strangers without end cost: their own time.

use std::{
    net::IpAddr,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use futures::{
    StreamExt as _,
    future::{join_all, select_all},
};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use super::fixture::{CALLEE, Calling, PROVISIONER, Reviews, Running, access, ask, serve, serve_with, token};
use crate::{
    Metrics,
    grpc::{errors, guard::Guard, pacing::PacingLimits},
};

const REPLAY: &str = "/karpenter.interruptionwatcher.v1.InterruptionWatcher/Replay";
/// A real token of somebody who may not call.
const STRANGER: &str = "default/stranger";
/// Longer than any test: what is held is not answered.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// A server that answers no refusal, and holds so many of one address.
async fn holding(held_of_one: usize) -> Running {
    let limits = PacingLimits { at_once: 0, held_for: FOR_EVER, most_held: 1024, held_of_one };
    serve_with(None, SystemTime::now(), |server| server.pacing(limits)).await
}

fn refused(server: &Running) -> u64 {
    let text = server.metrics.prometheus_text();
    let counts = text.lines().filter(|line| line.starts_with("karpenter_rpc_refused_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Each caller calls again as soon as it is answered: so what they can cause is one call each.
#[tokio::test]
async fn a_flood_over_a_few_connections_waits_while_known_callers_are_answered() {
    let server = holding(64).await;
    let strangers: Vec<Calling> = (0..4).map(|_| Calling::to(&[("w-1", &server)], STRANGER)).collect();
    let service = Calling::to(&[("w-1", &server)], PROVISIONER);
    ask(service.peers.any(), "caller").await.unwrap();
    let flood = strangers.iter().flat_map(|stranger| (0..8).map(move |_| stranger)).map(|stranger| async {
        loop {
            let _ = ask(stranger.peers.any().deadline(FOR_EVER), "caller").await;
        }
    });
    let known = async {
        while refused(&server) < 32 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..200 {
            assert_eq!(ask(service.peers.any(), "caller").await.unwrap(), "service provisioner");
        }
    };
    tokio::select! {
        _ = join_all(flood) => unreachable!("a flood without end"),
        () = known => {}
    }
    assert_eq!(refused(&server), 32, "one call of each of 32 callers");
}

#[tokio::test]
async fn a_connection_with_more_refused_calls_than_are_held_is_closed_and_others_stand() {
    let server = holding(4).await;
    let service = Calling::to(&[("w-1", &server)], PROVISIONER);
    ask(service.peers.any(), "caller").await.unwrap();
    let stranger = Calling::to(&[("w-1", &server)], STRANGER);
    let calls = (0..5).map(|_| ask(stranger.peers.any().deadline(FOR_EVER), "caller"));
    for answer in join_all(calls).await {
        assert_eq!(
            answer.unwrap_err().code(),
            Code::Unavailable,
            "the connection is gone, with every call on it"
        );
    }
    ask(service.peers.any(), "caller").await.expect("a connection that stands is not touched");
}

#[tokio::test]
async fn people_who_have_too_many_calls_under_way_are_held_too() {
    let server = holding(64).await;
    let person = Calling::to(&[("w-1", &server)], "granted");
    let service = Calling::to(&[("w-1", &server)], PROVISIONER);
    for known in [&person, &service] {
        ask(known.peers.any(), "caller").await.unwrap();
    }
    let calls = (0..40).map(|_| Box::pin(ask(person.peers.any().deadline(FOR_EVER), "sleep")));
    let known = async {
        server.sleeps.notified().await;
        for _ in 0..200 {
            ask(service.peers.any(), "caller").await.unwrap();
        }
    };
    tokio::select! {
        (answer, ..) = select_all(calls) => panic!("16 sleep and 24 are held, but one was answered: {answer:?}"),
        () = known => {}
    }
}

#[tokio::test]
async fn one_address_leaves_the_reviews_of_new_tokens_to_others() {
    let reviews = Reviews::default();
    let guard = Guard::new(CALLEE, "kube-system", access(), Metrics::new(CALLEE), Some(reviews.client()));
    let show = async |token: &str, last: u8| {
        let mut headers = http::HeaderMap::new();
        headers
            .insert(http::header::AUTHORIZATION, format!("Bearer {}", self::token(token)).parse().unwrap());
        guard.admit(REPLAY, &headers, Some(IpAddr::from([10, 0, 0, last]))).await
    };
    // Whoever is slow has more than one second for it, and then more reviews.
    let began = std::time::Instant::now();
    for number in 0..200 {
        let refusal = show(&format!("stranger-{number}"), 1).await.unwrap_err();
        assert!(matches!(refusal.code(), Code::PermissionDenied | Code::Unavailable), "{refusal}");
    }
    let most = 20 * (began.elapsed().as_secs() as usize + 2);
    let asked = reviews.tokens.load(Ordering::SeqCst);
    assert!(asked <= most, "{asked} of 200 tokens were reviewed, {most} at most");
    show(PROVISIONER, 2).await.expect("a new caller from elsewhere is reviewed");
}

#[tokio::test]
async fn one_address_has_few_watches_without_a_token() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let mut watches = Vec::new();
    let refusal: Status = loop {
        let watch = HealthClient::new(calling.peers.any()).watch(HealthCheckRequest::default()).await;
        match watch {
            Ok(watch) => watches.push(watch),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(
        (refusal.code(), errors::reason(&refusal).as_deref(), watches.len()),
        (Code::ResourceExhausted, Some("TOO_MANY_CALLS"), 16)
    );
    ask(calling.peers.any(), "caller").await.expect("calls with a token have turns of their own");
    drop(watches);
    while HealthClient::new(calling.peers.any()).check(HealthCheckRequest::default()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_of_questions_without_a_token_ends() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let questions = futures::stream::repeat(question);
    let mut client = ServerReflectionClient::new(calling.peers.any());
    let mut answers = client.server_reflection_info(questions).await.unwrap().into_inner();
    let mut answered = 0;
    while let Some(Ok(_)) = answers.next().await {
        answered += 1;
    }
    assert!((100..10_000).contains(&answered), "{answered} answers");
}

#[tokio::test]
async fn a_method_that_nobody_serves_is_refused_by_name() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let mut client = proto::termination::v1::termination_client::TerminationClient::new(calling.peers.any());
    let refusal = client.list_drains(proto::termination::v1::ListDrainsRequest::default()).await.unwrap_err();
    assert_eq!(
        (refusal.code(), errors::reason(&refusal).as_deref()),
        (Code::Unimplemented, Some("UNKNOWN_METHOD"))
    );
    assert!(refusal.message().ends_with("/karpenter.termination.v1.Termination/ListDrains"), "{refusal}");
}

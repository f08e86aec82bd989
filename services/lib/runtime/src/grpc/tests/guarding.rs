//! Who is let in, who is not, what they are told, and how often the API server is asked about it.

use std::{sync::atomic::Ordering, time::SystemTime};

use proto::{
    interruptionwatcher::v1::{
        GetStatsRequest, ListEventsRequest, interruption_watcher_client::InterruptionWatcherClient,
    },
    shadow::v1::{ListWritesRequest, shadow_client::ShadowClient},
};
use tonic::{Code, Status};

use super::fixture::{Calling, PROVISIONER, Running, ask, serve, serve_with, token, token_for};
use crate::{
    grpc::errors,
    shadow::{Record, Write},
};

const REPLAY: &str = "/karpenter.interruptionwatcher.v1.InterruptionWatcher/Replay";

async fn replay(server: &Running, token: &str) -> Result<String, Status> {
    ask(Calling::to(&[("w-1", server)], token).peers.any(), "caller").await
}

async fn list_events(server: &Running, token: &str) -> Result<(), Status> {
    let calling = Calling::to(&[("w-1", server)], token);
    InterruptionWatcherClient::new(calling.peers.any())
        .list_events(ListEventsRequest::default())
        .await
        .map(drop)
}

async fn get_stats(server: &Running, token: &str) -> Result<(), Status> {
    let calling = Calling::to(&[("w-1", server)], token);
    InterruptionWatcherClient::new(calling.peers.any()).get_stats(GetStatsRequest {}).await.map(drop)
}

#[tokio::test]
async fn each_method_is_for_the_services_its_table_names() {
    let server = serve(None).await;
    assert_eq!(replay(&server, PROVISIONER).await.unwrap(), "service provisioner");
    get_stats(&server, "kube-system/karpenter-termination").await.unwrap();

    let refused = get_stats(&server, PROVISIONER).await.unwrap_err();
    assert_eq!(
        (refused.code(), errors::reason(&refused).as_deref()),
        (Code::PermissionDenied, Some("NOT_ALLOWED"))
    );
    assert!(refused.message().contains("service provisioner may not call GetStats"), "{refused}");
    assert!(refused.message().contains("termination"), "{refused}");
    // The same account name in another namespace is nobody special.
    assert_eq!(
        get_stats(&server, "evil/karpenter-termination").await.unwrap_err().code(),
        Code::PermissionDenied
    );
    let text = server.metrics.prometheus_text();
    assert!(text.contains("karpenter_rpc_refused_total{reason=\"NOT_ALLOWED\"} 2"), "{text}");
}

#[tokio::test]
async fn in_shadow_mode_alone_people_who_may_read_are_told_what_was_not_stored() {
    let told = async |server: &Running, token: &str| {
        let calling = Calling::to(&[("w-1", server)], token);
        let request = ListWritesRequest { limit: 1 };
        ShadowClient::new(calling.peers.any()).list_writes(request).await.map(tonic::Response::into_inner)
    };
    let record = Record::default();
    let shadow = serve_with(None, SystemTime::now(), |server| server.telling_of(record.clone())).await;
    for name in ["a", "b"] {
        let write = Write { action: "delete".to_owned(), name: name.to_owned(), ..Write::default() };
        record.kept().note(write, &serde_json::json!({}), jiff::Timestamp::now());
    }
    let answer = told(&shadow, "viewer").await.unwrap();
    assert_eq!((answer.writes.len(), answer.writes[0].name.as_str()), (1, "b"));
    for other in ["anna", PROVISIONER] {
        assert_eq!(told(&shadow, other).await.unwrap_err().code(), Code::PermissionDenied, "{other}");
    }
    assert_eq!(told(&serve(None).await, "viewer").await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn people_need_one_grant_to_read_and_another_to_change_something() {
    let server = serve(None).await;
    let refused = list_events(&server, "anna").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("verb get on services/listevents"), "{refused}");
    list_events(&server, "viewer").await.unwrap();
    assert_eq!(replay(&server, "viewer").await.unwrap_err().code(), Code::PermissionDenied);
    // A service of ours that the table does not name has no right that was not given to it there.
    let other = list_events(&server, "kube-system/karpenter-pricing-cache").await.unwrap_err();
    assert_eq!(other.code(), Code::PermissionDenied);
    server.reviews.grants.lock().unwrap().clear();
    assert_eq!(replay(&server, "granted").await.unwrap(), "user granted");
    let refused = replay(&server, "anna").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    for part in ["anna", "services/replay", "rpc.karpenter.sh", "interruption-watcher", "create"] {
        assert!(refused.message().contains(part), "{part} in {refused}");
    }
    let asked = server.reviews.grants.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    let attributes = &asked[0]["resourceAttributes"];
    assert_eq!(attributes["verb"], "create");
    assert_eq!(attributes["group"], "rpc.karpenter.sh");
    assert_eq!((&attributes["resource"], &attributes["subresource"]), (&"services".into(), &"replay".into()));
    assert_eq!(attributes["name"], "interruption-watcher");
    assert_eq!(asked[0]["groups"], serde_json::json!(["people"]));
    // Authorizers other than RBAC may decide by these.
    let [granted, anna] = [&asked[0], &asked[1]];
    assert_eq!((&granted["uid"], &anna["uid"]), (&"uid-of-granted".into(), &"uid-of-anna".into()));
    assert_eq!(granted["extra"], serde_json::json!({ "example.org/team": ["blue", "green"] }));
}

#[tokio::test]
async fn a_bad_token_is_refused_with_the_reason_and_what_to_do() {
    let server = serve(None).await;
    let cases = [
        ("bad", "token has expired"),
        ("no-audiences", "audience is not interruption-watcher.rpc.karpenter.sh"),
    ];
    for (token, why) in cases {
        let refused = replay(&server, token).await.unwrap_err();
        assert_eq!(
            (refused.code(), errors::reason(&refused).as_deref()),
            (Code::Unauthenticated, Some("TOKEN_REJECTED"))
        );
        assert!(
            refused.message().contains(why) && refused.message().contains("kubectl create token"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_call_without_token_is_refused_by_the_server_and_one_without_token_file_by_the_caller() {
    let server = serve(None).await;
    let missing = Calling::to(&[("w-1", &server)], "");
    let refused = ask(missing.peers.any(), "caller").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("--rpc-token-dir"), "{refused}");
    assert_eq!(server.reviews.tokens.load(Ordering::SeqCst), 0);

    let refused = guard(&server).admit(REPLAY, &http::HeaderMap::new(), None).await.unwrap_err();
    assert_eq!(errors::reason(&refused).as_deref(), Some("TOKEN_MISSING"));
}

fn guard(server: &Running) -> crate::grpc::guard::Guard {
    crate::grpc::guard::Guard::new(
        super::fixture::CALLEE,
        "kube-system",
        super::fixture::access(),
        server.metrics.clone(),
        Some(server.reviews.client()),
    )
}

fn shown(token: &str) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    headers
}

#[tokio::test]
async fn what_cannot_be_a_token_for_this_service_is_refused_without_asking() {
    let server = serve(None).await;
    let guard = guard(&server);
    let (now, ours) = (jiff::Timestamp::now().as_second(), super::fixture::CALLEE.audience());
    let mut tokens = vec!["garbage".to_owned(), "a.b.c".to_owned(), "e30.e30.c2ln".to_owned()];
    tokens.push(token_for(PROVISIONER, &ours, now - 7200));
    // What the same caller shows to every other service, and to the API server.
    let others = crate::Service::ALL.iter().filter(|service| **service != super::fixture::CALLEE);
    tokens.extend(others.map(|service| token_for(PROVISIONER, &service.audience(), now + 3600)));
    tokens.push(token_for(PROVISIONER, "rpc.karpenter.sh", now + 3600));
    tokens.push(token_for(PROVISIONER, "https://kubernetes.default.svc", now + 3600));
    for token in tokens {
        let refused = guard.admit(REPLAY, &shown(&token), None).await.unwrap_err();
        assert_eq!(errors::reason(&refused).as_deref(), Some("TOKEN_REJECTED"), "{token}");
    }
    assert_eq!(server.reviews.tokens.load(Ordering::SeqCst), 0);
    // A clock that is ten minutes off is no reason to refuse: the API server decides.
    guard.admit(REPLAY, &shown(&token_for(PROVISIONER, &ours, now - 600)), None).await.unwrap();
    assert_eq!(server.reviews.tokens.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_tokens_is_bounded_and_does_not_cut_off_a_known_caller() {
    let reviews = super::fixture::Reviews::default();
    let guard = crate::grpc::guard::Guard::new(
        super::fixture::CALLEE,
        "kube-system",
        super::fixture::access(),
        crate::Metrics::new(super::fixture::CALLEE),
        Some(reviews.client()),
    );
    let known = shown(&token(PROVISIONER));
    guard.admit(REPLAY, &known, None).await.unwrap();
    for second in 0..150 {
        for number in 0..200 {
            let _ = guard.admit(REPLAY, &shown(&token(&format!("stranger-{second}-{number}"))), None).await;
        }
        guard.admit(REPLAY, &known, None).await.expect("a known caller is let in");
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    let asked = reviews.tokens.load(Ordering::SeqCst);
    assert!(asked <= 150 * 50 + 10, "{asked} reviews in 150 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_clock_ten_minutes_off_in_either_direction_costs_few_reviews_and_no_refusal() {
    let now = jiff::Timestamp::now().as_second();
    let ours = super::fixture::CALLEE.audience();
    // By this machine's clock, of a token that the API server's clock has expire now.
    for expires in [now - 600, now + 600] {
        let reviews = super::fixture::Reviews::default();
        let guard = crate::grpc::guard::Guard::new(
            super::fixture::CALLEE,
            "kube-system",
            super::fixture::access(),
            crate::Metrics::new(super::fixture::CALLEE),
            Some(reviews.client()),
        );
        let good = shown(&token_for(PROVISIONER, &ours, expires));
        for call in 0..600 {
            guard.admit(REPLAY, &good, None).await.unwrap_or_else(|refusal| panic!("call {call}: {refusal}"));
            tokio::time::advance(std::time::Duration::from_millis(100)).await;
        }
        let asked = reviews.tokens.load(Ordering::SeqCst);
        assert!(asked <= 13, "{asked} reviews of one token in a minute");
        let bad = shown(&token_for("bad", &ours, expires));
        let refusal = guard.admit(REPLAY, &bad, None).await.unwrap_err();
        assert_eq!(errors::reason(&refusal).as_deref(), Some("TOKEN_REJECTED"));
        assert!(refusal.message().contains("token has expired"), "{refusal}");
        guard.admit(REPLAY, &good, None).await.expect("whose token is good is let in");
    }
}

#[tokio::test(start_paused = true)]
async fn a_known_token_is_reviewed_again_in_time_and_believed_while_that_fails() {
    let reviews = super::fixture::Reviews::default();
    let guard = crate::grpc::guard::Guard::new(
        super::fixture::CALLEE,
        "kube-system",
        super::fixture::access(),
        crate::Metrics::new(super::fixture::CALLEE),
        Some(reviews.client()),
    );
    let known = shown(&token(PROVISIONER));
    guard.admit(REPLAY, &known, None).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(45)).await;
    guard.admit(REPLAY, &known, None).await.unwrap();
    assert_eq!(reviews.tokens.load(Ordering::SeqCst), 2, "renewed before the minute is over");
    reviews.away.store(true, Ordering::SeqCst);
    tokio::time::advance(std::time::Duration::from_secs(45)).await;
    guard.admit(REPLAY, &known, None).await.expect("still believed");
    tokio::time::advance(std::time::Duration::from_secs(45)).await;
    let late = guard.admit(REPLAY, &known, None).await.unwrap_err();
    assert_eq!(errors::reason(&late).as_deref(), Some("TOKEN_NOT_REVIEWED"));
}

#[tokio::test]
async fn the_api_server_is_asked_once_about_a_token_and_not_trusted_to_be_there() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    for _ in 0..50 {
        ask(calling.peers.any(), "caller").await.unwrap();
    }
    assert_eq!(server.reviews.tokens.load(Ordering::SeqCst), 1);

    server.reviews.away.store(true, Ordering::SeqCst);
    ask(calling.peers.any(), "caller").await.expect("a token that was just reviewed is still believed");
    let unknown = replay(&server, "stranger").await.unwrap_err();
    assert_eq!(
        (unknown.code(), errors::reason(&unknown).as_deref()),
        (Code::Unavailable, Some("TOKEN_NOT_REVIEWED"))
    );
}

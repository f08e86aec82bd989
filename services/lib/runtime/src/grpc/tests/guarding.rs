//! Who is let in, who is not, what they are told, and how often the API server is asked about it.

use std::sync::atomic::Ordering;

use proto::interruptionwatcher::v1::{
    GetStatsRequest, ListEventsRequest, interruption_watcher_client::InterruptionWatcherClient,
};
use tonic::{Code, Status};

use super::fixture::{Calling, PROVISIONER, Running, ask, serve};
use crate::grpc::errors;

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
async fn people_may_read_and_need_a_grant_to_change_something() {
    let server = serve(None).await;
    list_events(&server, "anna").await.unwrap();
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
}

#[tokio::test]
async fn a_bad_token_is_refused_with_the_reason_and_what_to_do() {
    let server = serve(None).await;
    let cases = [("bad", "token has expired"), ("other-audience", "audience is not rpc.karpenter.sh")];
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
    assert!(refused.message().contains("--rpc-token-file"), "{refused}");
    assert_eq!(server.reviews.tokens.load(Ordering::SeqCst), 0);

    let headers = http::HeaderMap::new();
    let guard = crate::grpc::guard::Guard::new(
        super::fixture::CALLEE,
        "kube-system",
        super::fixture::access(),
        server.metrics.clone(),
        Some(server.reviews.client()),
    );
    let path = "/karpenter.interruptionwatcher.v1.InterruptionWatcher/Replay";
    let refused = guard.admit(path, &headers).await.unwrap_err();
    assert_eq!(errors::reason(&refused).as_deref(), Some("TOKEN_MISSING"));
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

//! What every call gets: deadline, request id, trace, metrics, an answer even when the handler panics.

use std::time::{Duration, Instant, SystemTime};

use proto::interruptionwatcher::v1::{ReplayRequest, interruption_watcher_client::InterruptionWatcherClient};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tracing::Instrument as _;

use super::fixture::{CALLEE, Calling, PROVISIONER, ask, serve, serve_with};
use crate::grpc::{Access, GrpcServer, REQUEST_ID, errors};

#[tokio::test]
async fn a_call_over_tls_is_answered_and_counted_on_both_sides() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    assert_eq!(ask(calling.peers.any(), "caller").await.unwrap(), "service provisioner");
    let missing = ask(calling.peers.any(), "nothing").await.unwrap_err();
    assert_eq!((missing.code(), errors::reason(&missing).as_deref()), (Code::NotFound, Some("NOT_FOUND")));

    for (side, metrics) in [("server", &server.metrics), ("client", &calling.metrics)] {
        let text = metrics.prometheus_text();
        for code in ["OK", "NotFound"] {
            let line = format!(
                "grpc_{side}_handled_total{{grpc_service=\"karpenter.interruptionwatcher.v1.InterruptionWatcher\",\
                 grpc_method=\"Replay\",grpc_code=\"{code}\"}} 1\n"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.contains(&format!("grpc_{side}_handling_seconds_count")), "{text}");
    }
}

#[tokio::test]
async fn a_call_that_names_no_deadline_has_one_and_the_server_gives_up_too() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let began = Instant::now();
    let late = ask(calling.peers.any().deadline(Duration::from_millis(200)), "sleep").await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    assert!(began.elapsed() >= Duration::from_millis(150));
    // By its own count or because the caller left: the handler does not sleep on.
    wait_for(|| server.metrics.prometheus_text().contains("grpc_server_handling_seconds_count")).await;
}

#[tokio::test]
async fn the_server_bounds_calls_that_would_wait_longer() {
    let server =
        serve_with(None, SystemTime::now(), |server| server.longest(Duration::from_millis(100))).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let late = ask(calling.peers.any().deadline(Duration::from_secs(3600)), "sleep").await.unwrap_err();
    assert_eq!((late.code(), errors::reason(&late).as_deref()), (Code::DeadlineExceeded, Some("DEADLINE")));
    assert!(late.message().contains("Replay"), "{late}");
}

#[tokio::test]
async fn a_request_id_is_kept_returned_and_handed_on() {
    let last = serve(None).await;
    let onward = Calling::to(&[("w-2", &last)], PROVISIONER);
    let first = serve(Some(onward.peers.any())).await;
    let calling = Calling::to(&[("w-1", &first)], PROVISIONER);

    let mut request = tonic::Request::new(ReplayRequest { body: "request id of the next".into() });
    request.metadata_mut().insert(REQUEST_ID, "from-outside".parse().unwrap());
    let response = InterruptionWatcherClient::new(calling.peers.any()).replay(request).await.unwrap();
    assert_eq!(response.metadata().get(REQUEST_ID).unwrap(), "from-outside");
    assert_eq!(response.into_inner().explanation, "from-outside");
    assert_eq!(ask(calling.peers.any(), "request id").await.unwrap().len(), 32, "a fresh one otherwise");
}

#[tokio::test]
async fn one_trace_crosses_three_processes_worth_of_calls() {
    let last = serve(None).await;
    let onward = Calling::to(&[("w-2", &last)], PROVISIONER);
    let first = serve(Some(onward.peers.any())).await;
    let calling = Calling::to(&[("w-1", &first)], PROVISIONER);
    let span = tracing::info_span!("batch");
    let own = crate::trace::trace_id(&span).unwrap();
    let seen = ask(calling.peers.any(), "trace id and onward").instrument(span).await.unwrap();
    assert_eq!(seen, format!("{own} {own}"));
}

#[tokio::test]
async fn a_panicking_handler_is_an_answer_and_the_server_lives_on() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let failed = ask(calling.peers.any(), "panic").await.unwrap_err();
    assert_eq!((failed.code(), errors::reason(&failed).as_deref()), (Code::Internal, Some("PANIC")));
    assert_eq!(ask(calling.peers.any(), "caller").await.unwrap(), "service provisioner");
}

#[tokio::test]
async fn health_follows_readiness_and_needs_no_token() {
    let server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let mut health = HealthClient::new(calling.peers.any());
    let name = proto::interruptionwatcher::v1::interruption_watcher_server::SERVICE_NAME;
    let nodes = server.readiness.check("nodes", "first list");
    for (ready, expected) in [(false, ServingStatus::NotServing), (true, ServingStatus::Serving)] {
        if ready {
            nodes.ready();
        }
        for service in ["", name] {
            let mut status = None;
            for _ in 0..1000 {
                let request = HealthCheckRequest { service: service.to_owned() };
                status = Some(health.check(request).await.unwrap().into_inner().status());
                if status == Some(expected) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(status, Some(expected), "{service:?}");
        }
    }
    assert_eq!(server.reviews.tokens.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn calls_under_way_finish_when_the_server_stops_and_new_ones_are_refused() {
    let mut server = serve(None).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    ask(calling.peers.any(), "caller").await.unwrap();
    let under_way = ask(calling.peers.any().deadline(Duration::from_secs(2)), "sleep");
    let stop = async {
        server.sleeps.notified().await;
        server.stop.cancel();
    };
    let (answer, ()) = tokio::join!(under_way, stop);
    assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded, "it was let run to its own end");
    (&mut server.task).await.unwrap().unwrap();
    let refused = ask(calling.peers.any(), "caller").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[test]
fn a_server_whose_access_table_forgets_a_method_does_not_start() {
    let service = proto::interruptionwatcher::v1::interruption_watcher_server::InterruptionWatcherServer::new(
        super::fixture::Handler::default(),
    );
    let server = GrpcServer::new(Access::new()).add_service(service);
    let metrics = crate::Metrics::new(CALLEE);
    let error = server.assemble(CALLEE, "kube-system", &metrics, None).err().unwrap();
    assert!(error.to_string().contains("InterruptionWatcher/"), "{error}");
}

pub(super) async fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

//! Deadlines over a real connection, through a proxy that stops passing bytes on.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, routing::get};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::WatchParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{Metrics, Service};

/// A list of one pod, and watches that stay open after one event.
#[allow(clippy::disallowed_methods, reason = "ends with the test")]
async fn api_server() -> SocketAddr {
    let pods = get(|uri: Uri| async move {
        let pod =
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "1"}});
        if !api_path::is_watch(&uri) {
            return axum::body::Body::from(
                json!({"metadata": {"resourceVersion": "1"}, "items": [pod]}).to_string(),
            );
        }
        let line = format!("{}\n", json!({"type": "ADDED", "object": pod}));
        let first = futures::stream::iter([Ok::<_, std::io::Error>(line)]);
        axum::body::Body::from_stream(first.chain(futures::stream::pending()))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let router = Router::new().route("/api/v1/pods", pods);
    tokio::spawn(async move { axum::serve(listener, router).await });
    addr
}

/// Passes bytes on until it is told to swallow them, on connections that stand and on new ones.
#[allow(clippy::disallowed_methods, reason = "ends with the test")]
async fn proxy(server: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let swallows = Arc::new(AtomicBool::new(false));
    let given = swallows.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
            for (mut from, mut to) in [(near_read, far_write), (far_read, near_write)] {
                let swallows = given.clone();
                tokio::spawn(async move {
                    let mut bytes = vec![0; 8192];
                    while let Ok(count @ 1..) = from.read(&mut bytes).await {
                        if !swallows.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
    });
    (addr, swallows)
}

fn client(addr: SocketAddr) -> Client {
    let config = kube::Config::new(format!("http://{addr}").parse().unwrap());
    let process = <Flags as clap::Parser>::parse_from(["test"]).process;
    crate::kube_client::build(Service::Provisioner, &process, config).unwrap()
}

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    process: crate::ProcessConfig,
}

fn silence_of_pods() -> f64 {
    let text = Metrics::new(Service::Provisioner).prometheus_text();
    let line = text.lines().find(|line| line.starts_with("karpenter_watch_silence_seconds{kind=\"pods\"}"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[tokio::test]
async fn a_call_into_a_connection_that_swallows_packets_ends_and_a_watch_is_seen_to_be_silent() {
    let (addr, swallows) = proxy(api_server().await).await;
    let pods: Api<Pod> = Api::all(client(addr));
    assert_eq!(pods.list(&Default::default()).await.unwrap().items.len(), 1);
    let mut watch = pods.watch(&WatchParams::default(), "1").await.unwrap().boxed();
    watch.next().await.unwrap().unwrap();
    assert!(silence_of_pods() < 5.0);

    swallows.store(true, Ordering::SeqCst);
    // From here on only timers can move anything, so that the clock may be moved on to them.
    tokio::time::pause();
    let began = Instant::now();
    pods.list(&Default::default()).await.expect_err("no answer comes through");
    assert!((DEADLINE..DEADLINE * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    let began = Instant::now();
    let opened = pods.watch(&WatchParams::default(), "1").await;
    assert!(opened.is_err(), "no watch opens");
    assert!((OPENING..OPENING * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(silence_of_pods() >= DEADLINE.as_secs_f64(), "{}", silence_of_pods());

    let (readiness, stop) = (crate::Readiness::default(), CancellationToken::new());
    let noting = note_stale(readiness.note("watches"), stop.clone());
    let noted = async {
        tokio::time::sleep(STALE).await;
        stop.cancel();
    };
    tokio::join!(noting, noted).0.unwrap();
    assert!(readiness.notes()[0].contains("of pods"), "{:?}", readiness.notes());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_in_the_middle_ends_too() {
    let server = tower::service_fn(|_: Request<Body>| async {
        let half = futures::stream::iter([Ok::<_, std::io::Error>("{\"items\":")]);
        let body = axum::body::Body::from_stream(half.chain(futures::stream::pending()));
        let body = http_body_util::BodyExt::map_err(body, |error| Box::new(error) as BoxError);
        Ok::<_, BoxError>(Response::new(Box::new(body) as Box<DynBody>))
    });
    let client = Client::new(Deadlines.layer(server), "default");
    let began = Instant::now();
    let pods: Api<Pod> = Api::all(client);
    pods.list(&Default::default()).await.expect_err("half an answer is none");
    assert_eq!(began.elapsed().as_secs(), DEADLINE.as_secs());
}

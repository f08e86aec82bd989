//! What watchers of events are told, by a real server over a connection.

use std::net::SocketAddr;

use proto::interruptionwatcher::v1::interruption_watcher_client::InterruptionWatcherClient;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;

use super::*;
use crate::decision::Policy;
use crate::testing::{REGION, Scene};

type Client = InterruptionWatcherClient<Channel>;

/// Ends when it is dropped.
struct Server {
    scene: Scene,
    address: SocketAddr,
    _serving: JoinSet<Result<(), tonic::transport::Error>>,
}

impl Server {
    async fn start(most_watchers: usize) -> Self {
        let scene = Scene::new(Policy::default());
        let service = Service {
            handler: scene.handler.clone(),
            journal: scene.journal.clone(),
            metrics: scene.metrics.clone(),
            region: REGION.to_owned(),
            event_accounts: Vec::new(),
            queue: scene.state.subscribe(),
            rules: watch::channel(Vec::new()).1,
            watchers: Watchers::new(most_watchers),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder().add_service(InterruptionWatcherServer::new(service));
        let mut serving = JoinSet::new();
        serving.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Self { scene, address, _serving: serving }
    }

    async fn client(&self) -> Client {
        Client::connect(format!("http://{}", self.address)).await.unwrap()
    }

    async fn handles(&self, id: &str, instance: &str) {
        let entry = Entry {
            id: id.to_owned(),
            kind: Some(Kind::SpotInterrupted),
            instances: vec![instance.to_owned()],
            claims: Vec::new(),
            done: Done::Nothing,
            detail: String::new(),
            event_time: None,
            received_at: Timestamp::now(),
            handled_in: Duration::ZERO,
        };
        self.scene.journal.record(entry).await;
    }
}

fn ids(response: &pb::WatchEventsResponse) -> Vec<&str> {
    response.events.iter().map(|event| event.id.as_str()).collect()
}

#[tokio::test]
async fn a_watcher_is_told_what_is_kept_and_then_each_message_as_it_is_handled() {
    let server = Server::start(8).await;
    server.handles("one", "i-1").await;
    server.handles("two", "i-2").await;
    let mut client = server.client().await;
    let mut all = client.watch_events(pb::WatchEventsRequest::default()).await.unwrap().into_inner();
    let about = pb::WatchEventsRequest { instance_id: "i-2".to_owned(), limit: 0 };
    let mut about = client.watch_events(about).await.unwrap().into_inner();
    let latest = pb::WatchEventsRequest { limit: 1, ..Default::default() };
    let mut latest = client.watch_events(latest).await.unwrap().into_inner();

    let first = all.message().await.unwrap().unwrap();
    assert_eq!((first.kept, first.events.len()), (true, 2));
    let first = about.message().await.unwrap().unwrap();
    assert_eq!((first.kept, ids(&first)), (true, vec!["two"]));
    assert_eq!(latest.message().await.unwrap().unwrap().events.len(), 1);

    server.handles("three", "i-3").await;
    let next = all.message().await.unwrap().unwrap();
    assert_eq!((next.kept, ids(&next)), (false, vec!["three"]));
    server.handles("four", "i-2").await;
    let next = about.message().await.unwrap().unwrap();
    assert_eq!((next.kept, ids(&next)), (false, vec!["four"]), "nothing is told of other instances");
    server.scene.stop.cancel();
    while let Some(last) = all.message().await.unwrap() {
        assert_eq!(ids(&last), ["four"]);
    }
}

#[tokio::test]
async fn a_watcher_is_told_that_nothing_is_kept_yet() {
    let server = Server::start(1).await;
    let mut stream =
        server.client().await.watch_events(pb::WatchEventsRequest::default()).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert!(first.kept && first.events.is_empty());
}

#[tokio::test]
async fn watchers_are_limited_and_one_that_leaves_makes_room() {
    let server = Server::start(2).await;
    let mut client = server.client().await;
    let held = [
        client.watch_events(pb::WatchEventsRequest::default()).await.unwrap(),
        client.watch_events(pb::WatchEventsRequest::default()).await.unwrap(),
    ];
    let refused = client.watch_events(pb::WatchEventsRequest::default()).await.unwrap_err();
    assert_eq!(errors::reason(&refused).as_deref(), Some("TOO_MANY_WATCHERS"));
    drop(held);
    // The server learns of it over the connection.
    while client.watch_events(pb::WatchEventsRequest::default()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

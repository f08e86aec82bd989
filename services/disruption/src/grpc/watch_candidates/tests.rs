//! What watchers of candidates are told, and by whom: the actor itself, and a real server over a connection.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use model::labels;
use proto::disruption::v1::disruption_client::DisruptionClient;
use proto::disruption::v1::disruption_server::DisruptionServer;
use runtime::Leadership;
use runtime::grpc::{Watchers, errors};
use runtime::watch::{Change, Streamed};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};

use super::*;
use crate::cluster::{Fact, applied};
use crate::grpc::Handler;
use crate::testing::{api_server, whole};

fn listed(version: u64, nodes: &[(&str, &str, u32)], allowed: u32) -> Listed {
    let candidate = |(name, pool, percent): &(&str, &str, u32)| {
        let candidate = pb::Candidate {
            node: (*name).to_owned(),
            node_pool: (*pool).to_owned(),
            cpu_percent: *percent,
            ..pb::Candidate::default()
        };
        ((*name).to_owned(), candidate)
    };
    let budget = pb::BudgetState { node_pool: "blue".to_owned(), allowed, ..pb::BudgetState::default() };
    let nodes = nodes.iter().map(candidate).collect();
    Listed { version, at: Instant::now(), nodes, budgets: vec![budget] }
}

fn names(response: &pb::WatchCandidatesResponse) -> Vec<&str> {
    response.candidates.iter().map(|candidate| candidate.node.as_str()).collect()
}

#[test]
fn everything_is_told_once_and_then_only_what_is_different() {
    let first = listed(1, &[("a", "blue", 10), ("b", "red", 10)], 1);
    let told = difference(None, &first, "").unwrap();
    assert_eq!((told.full, names(&told), told.budgets.len()), (true, vec!["a", "b"], 1));

    assert_eq!(difference(Some(&first), &listed(2, &[("a", "blue", 10), ("b", "red", 10)], 1), ""), None);

    let busier = listed(3, &[("a", "blue", 50), ("c", "red", 10)], 1);
    let told = difference(Some(&first), &busier, "").unwrap();
    assert_eq!((told.full, names(&told)), (false, vec!["a", "c"]));
    assert_eq!(told.removed_nodes, ["b"]);

    let spent = listed(4, &[("a", "blue", 50), ("c", "red", 10)], 0);
    let told = difference(Some(&busier), &spent, "").unwrap();
    assert!(told.candidates.is_empty() && told.budgets[0].allowed == 0, "{told:?}");
}

#[test]
fn a_watcher_of_one_pool_hears_nothing_of_others() {
    let first = listed(1, &[("a", "blue", 10), ("b", "red", 10)], 1);
    assert_eq!(names(&difference(None, &first, "red").unwrap()), ["b"]);
    let other = listed(2, &[("b", "red", 10)], 0);
    assert_eq!(difference(Some(&first), &other, "red"), None);
    let empty = difference(None, &other, "green").unwrap();
    assert!(empty.full && empty.candidates.is_empty(), "a pool without nodes is told once too");
}

fn node(name: &str, conditions: &Value) -> Fact {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "5",
            "labels": {labels::NODEPOOL: "general", labels::EC2NODECLASS: "default", labels::REGISTERED: "true",
                labels::INITIALIZED: "true", labels::INSTANCE_TYPE: "m5.large", labels::ZONE: "zone-a",
                labels::CAPACITY_TYPE: "on-demand"}},
        "spec": {"providerID": format!("aws:///z/{name}")}, "status": {"conditions": conditions},
    }))
    .unwrap();
    applied(node)
}

/// A disruption that sees an empty cluster, and its server. Ends when it is dropped.
struct Running {
    facts: mpsc::Sender<Fact>,
    disruptions: Disruptions,
    address: SocketAddr,
    /// Cancelled, it ceases to lead in the eyes of those who watch.
    term: CancellationToken,
    stop: CancellationToken,
    _tasks: JoinSet<()>,
}

impl Running {
    async fn start(most_watchers: usize) -> Self {
        let list = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList",
            "metadata": {"resourceVersion": "9"}, "items": []});
        let (client, _) = api_server(move |_| (200, list.clone()));
        let (actor, disruptions, facts) = whole(client, &[]);
        let (term, stop) = (CancellationToken::new(), CancellationToken::new());
        let handler =
            Handler::new(disruptions.clone(), Leadership::always(&term), Watchers::new(most_watchers));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(DisruptionServer::new(handler));
        let mut tasks = JoinSet::new();
        let stopped = stop.clone();
        tasks.spawn(async move { actor.run(stopped).await.unwrap() });
        tasks.spawn(async move { server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap() });
        let running = Self { facts, disruptions, address, term, stop, _tasks: tasks };
        running.tell(Change::<Node>::Reset(Vec::new()).into()).await;
        running.tell(Change::<api::NodeClaim>::Reset(Vec::new()).into()).await;
        running.tell(Change::<PodDisruptionBudget>::Reset(Vec::new()).into()).await;
        running.tell(Change::<api::NodePool>::Reset(Vec::new()).into()).await;
        running.tell(Change::<api::EC2NodeClass>::Reset(Vec::new()).into()).await;
        running
    }

    /// The last kind of object is listed: it knows the whole cluster.
    async fn is_synced(&self) {
        self.tell(Streamed::<Pod>::Listed.into()).await;
    }

    async fn tell(&self, fact: Fact) {
        self.facts.send(fact).await.unwrap();
    }

    async fn client(&self) -> DisruptionClient<Channel> {
        DisruptionClient::connect(format!("http://{}", self.address)).await.unwrap()
    }
}

fn of_leader() -> pb::WatchCandidatesRequest {
    pb::WatchCandidatesRequest { leader_only: true, ..Default::default() }
}

#[tokio::test]
async fn a_watcher_is_told_the_candidates_and_what_becomes_of_them() {
    let running = Running::start(4).await;
    let mut stream = running.client().await.watch_candidates(of_leader()).await.unwrap().into_inner();
    running.tell(node("n", &json!([]))).await;
    // Nothing is told of half a cluster.
    running.is_synced().await;
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!((first.full, names(&first)), (true, vec!["n"]));
    running.tell(node("n", &json!([{"type": "Ready", "status": "False"}]))).await;
    let next = stream.message().await.unwrap().unwrap();
    assert_eq!((next.full, names(&next)), (false, vec!["n"]));
    let conditions = &next.candidates[0].conditions;
    assert!(conditions.iter().any(|each| each.r#type == "Ready" && each.status == "False"), "{next:?}");
    running.term.cancel();
    let end = stream.message().await.unwrap_err();
    assert_eq!(errors::reason(&end).as_deref(), Some("NOT_LEADER"));
    let refused = running.client().await.watch_candidates(of_leader()).await.unwrap_err();
    assert_eq!(errors::reason(&refused).as_deref(), Some("NOT_LEADER"));
    let of_leader = pb::WatchCommandsRequest { leader_only: true };
    let refused = running.client().await.watch_commands(of_leader).await.unwrap_err();
    assert_eq!(errors::reason(&refused).as_deref(), Some("NOT_LEADER"));
    let any = running.client().await.watch_candidates(pb::WatchCandidatesRequest::default()).await.unwrap();
    assert!(
        any.into_inner().message().await.unwrap().unwrap().full,
        "a follower tells those who ask anybody"
    );
}

#[tokio::test]
async fn watchers_are_limited_and_their_streams_end_with_the_process() {
    let running = Running::start(1).await;
    running.is_synced().await;
    let mut client = running.client().await;
    let mut held = client.watch_candidates(of_leader()).await.unwrap().into_inner();
    let refused = client.watch_candidates(of_leader()).await.unwrap_err();
    assert_eq!(errors::reason(&refused).as_deref(), Some("TOO_MANY_WATCHERS"));
    assert!(held.message().await.unwrap().unwrap().full);
    running.stop.cancel();
    while held.message().await.unwrap().is_some() {}
    drop(held);
    // The server learns of it over the connection.
    while client.watch_candidates(of_leader()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_list_is_made_once_for_all_and_not_more_often_than_it_may_be() {
    let running = Running::start(4).await;
    running.is_synced().await;
    let listing = Arc::new(Listing::new(running.disruptions.clone()));
    let mut changes = running.disruptions.node_changes();
    changes.wait_for(|version| *version > 0).await.unwrap();
    let first = listing.recent().await.unwrap();
    assert!(Arc::ptr_eq(&first, &listing.recent().await.unwrap()), "made a moment ago");
    running.tell(node("n", &json!([]))).await;
    let version = *changes.wait_for(|version| *version > first.version).await.unwrap();
    let (one, other) = tokio::join!(listing.with(version), listing.with(version));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(Arc::ptr_eq(&one, &other) && one.nodes.contains_key("n"));
    assert!(one.at.duration_since(first.at) >= AT_MOST_EVERY, "{:?}", one.at.duration_since(first.at));
}

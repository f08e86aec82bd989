//! Which replicas are read, and what is shown when they change: scripted replicas behind real servers.

use std::net::SocketAddr;
use std::sync::Mutex;

use clap::Parser as _;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use proto::disruption::v1 as disruption;
use proto::disruption::v1::disruption_server::{Disruption, DisruptionServer};
use proto::interruptionwatcher::v1 as watcher;
use proto::interruptionwatcher::v1::interruption_watcher_server::{
    InterruptionWatcher, InterruptionWatcherServer,
};
use proto::types::v1::ObjectRef;
use runtime::Leadership;
use runtime::grpc::while_leading;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response};

use super::super::picture::Picture;
use super::*;

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    sources: Sources,
}

/// The replicas of one service; nobody is where the others should be.
fn sources(flag: &str, replicas: &[SocketAddr]) -> Sources {
    let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
    let flags = ["page", "--insecure", "--address", "127.0.0.1:1", flag, &replicas.join(",")];
    Flags::parse_from(flags).sources
}

fn follow_all(sources: &Sources) -> (Arc<Hub>, JoinSet<()>) {
    let hub = Arc::new(Hub::new(None, true));
    let tasks = all(sources, &hub);
    (hub, tasks)
}

fn is(picture: &Picture, service: Service, state: &str, detail: &str) -> bool {
    let known = picture.services.get(service.as_str());
    known.is_some_and(|known| known.state == state && known.detail.contains(detail))
}

/// One replica of disruption, which knows one command and one node.
struct Replica {
    leadership: Mutex<Leadership>,
    name: &'static str,
}

impl Replica {
    fn following(name: &'static str) -> Arc<Self> {
        let over = CancellationToken::new();
        over.cancel();
        Arc::new(Self { leadership: Mutex::new(Leadership::always(&over)), name })
    }

    /// Until what is returned is cancelled.
    fn leads(&self) -> CancellationToken {
        let term = CancellationToken::new();
        *self.leadership.lock().unwrap() = Leadership::always(&term);
        term
    }

    fn command(&self) -> disruption::Command {
        disruption::Command {
            id: self.name.to_owned(),
            phase: disruption::CommandPhase::Validating.into(),
            ..disruption::Command::default()
        }
    }

    fn answer<T: Send + 'static>(&self, leader_only: bool, first: T) -> Stream<T> {
        let all = stream::once(std::future::ready(Ok(first))).chain(stream::pending()).boxed();
        let leadership = self.leadership.lock().unwrap().clone();
        Ok(Response::new(if leader_only { while_leading(&leadership, all)? } else { all }))
    }
}

type Stream<T> = Result<Response<BoxStream<'static, Result<T, Status>>>, Status>;

#[tonic::async_trait]
impl Disruption for Replica {
    type WatchCandidatesStream = BoxStream<'static, Result<disruption::WatchCandidatesResponse, Status>>;
    type WatchCommandsStream = BoxStream<'static, Result<disruption::WatchCommandsResponse, Status>>;

    async fn watch_candidates(
        &self,
        request: Request<disruption::WatchCandidatesRequest>,
    ) -> Stream<disruption::WatchCandidatesResponse> {
        let candidate =
            disruption::Candidate { node: format!("node-of-{}", self.name), ..Default::default() };
        let first = disruption::WatchCandidatesResponse {
            full: true,
            candidates: vec![candidate],
            ..Default::default()
        };
        self.answer(request.get_ref().leader_only, first)
    }

    async fn watch_commands(
        &self,
        request: Request<disruption::WatchCommandsRequest>,
    ) -> Stream<disruption::WatchCommandsResponse> {
        let first = disruption::WatchCommandsResponse { command: Some(self.command()) };
        self.answer(request.get_ref().leader_only, first)
    }

    async fn list_commands(
        &self,
        _: Request<disruption::ListCommandsRequest>,
    ) -> Result<Response<disruption::ListCommandsResponse>, Status> {
        Ok(Response::new(disruption::ListCommandsResponse { commands: vec![self.command()] }))
    }

    async fn list_candidates(
        &self,
        _: Request<disruption::ListCandidatesRequest>,
    ) -> Result<Response<disruption::ListCandidatesResponse>, Status> {
        Err(Status::internal("the page has a stream for it"))
    }

    async fn explain_node(
        &self,
        _: Request<disruption::ExplainNodeRequest>,
    ) -> Result<Response<disruption::ExplainNodeResponse>, Status> {
        Err(Status::internal("nobody asks"))
    }

    async fn cancel_command(
        &self,
        _: Request<disruption::CancelCommandRequest>,
    ) -> Result<Response<disruption::CancelCommandResponse>, Status> {
        Err(Status::internal("nobody asks"))
    }
}

async fn serve(replica: &Arc<Replica>, servers: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(DisruptionServer::from_arc(Arc::clone(replica)));
    servers.spawn(async move { server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap() });
    address
}

#[tokio::test]
async fn the_leader_is_read_and_when_another_leads_only_its_story_goes_on() {
    let mut servers = JoinSet::new();
    let (follower, leader) = (Replica::following("b"), Replica::following("a"));
    let term = leader.leads();
    let addresses = [serve(&follower, &mut servers).await, serve(&leader, &mut servers).await];
    let (hub, _tasks) = follow_all(&sources("--grpc-disruption", &addresses));
    hub.until(|picture| is(picture, Service::Disruption, "live", "")).await;
    let picture = hub.picture();
    assert_eq!(picture.decisions.keys().collect::<Vec<_>>(), ["command/a"], "only the leader is read");
    assert!(hub.full().contains("node-of-a") && !hub.full().contains("node-of-b"));

    follower.leads();
    term.cancel();
    hub.until(|picture| picture.decisions.contains_key("command/b")).await;
    let picture = hub.picture();
    let (before, now) = (&picture.decisions["command/a"], &picture.decisions["command/b"]);
    assert!(before.ended && !now.ended, "{before:?} {now:?}");
    hub.until(|picture| is(picture, Service::Disruption, "live", "")).await;
    assert!(hub.full().contains("node-of-b") && !hub.full().contains("node-of-a"));
}

#[tokio::test]
async fn where_nobody_leads_any_replica_is_shown_and_the_page_says_so() {
    let mut servers = JoinSet::new();
    let replicas = [Replica::following("a"), Replica::following("b")];
    let addresses = [serve(&replicas[0], &mut servers).await, serve(&replicas[1], &mut servers).await];
    let (hub, _tasks) = follow_all(&sources("--grpc-disruption", &addresses));
    hub.until(|picture| is(picture, Service::Disruption, "live", "no replica leads")).await;
    assert_eq!(hub.picture().decisions.len(), 1, "one story at a time");
}

/// One replica of interruption-watcher, which has handled one warning.
struct Witness {
    claim: &'static str,
    gone: CancellationToken,
}

#[tonic::async_trait]
impl InterruptionWatcher for Witness {
    type WatchEventsStream = BoxStream<'static, Result<watcher::WatchEventsResponse, Status>>;

    async fn watch_events(
        &self,
        _: Request<watcher::WatchEventsRequest>,
    ) -> Stream<watcher::WatchEventsResponse> {
        let event = watcher::InterruptionEvent {
            id: self.claim.to_owned(),
            node_claims: vec![ObjectRef { name: self.claim.to_owned(), uid: String::new() }],
            ..Default::default()
        };
        let kept = stream::once(std::future::ready(Ok(watcher::WatchEventsResponse {
            events: vec![event],
            kept: true,
        })));
        let gone = self.gone.clone().cancelled_owned();
        Ok(Response::new(kept.chain(stream::pending()).take_until(gone).boxed()))
    }

    async fn list_events(
        &self,
        _: Request<watcher::ListEventsRequest>,
    ) -> Result<Response<watcher::ListEventsResponse>, Status> {
        Err(Status::internal("the page has a stream for it"))
    }

    async fn get_stats(
        &self,
        _: Request<watcher::GetStatsRequest>,
    ) -> Result<Response<watcher::GetStatsResponse>, Status> {
        Err(Status::internal("nobody asks"))
    }

    async fn replay(
        &self,
        _: Request<watcher::ReplayRequest>,
    ) -> Result<Response<watcher::ReplayResponse>, Status> {
        Err(Status::internal("nobody asks"))
    }
}

async fn witness(claim: &'static str, servers: &mut JoinSet<()>) -> (SocketAddr, CancellationToken) {
    let gone = CancellationToken::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = InterruptionWatcherServer::new(Witness { claim, gone: gone.clone() });
    let (incoming, stopped) = (TcpIncoming::from(listener), gone.clone().cancelled_owned());
    servers.spawn(async move {
        Server::builder().add_service(service).serve_with_incoming_shutdown(incoming, stopped).await.unwrap();
    });
    (address, gone)
}

#[tokio::test]
async fn warnings_of_all_replicas_are_shown_and_one_that_is_missing_is_named() {
    let mut servers = JoinSet::new();
    let ((one, _), (other, gone)) =
        (witness("one", &mut servers).await, witness("other", &mut servers).await);
    let (hub, _tasks) = follow_all(&sources("--grpc-interruption-watcher", &[one, other]));
    hub.until(|picture| is(picture, Service::InterruptionWatcher, "live", "")).await;
    assert_eq!(hub.picture().decisions.len(), 2);
    gone.cancel();
    let missing = format!("missing: at {other}");
    hub.until(|picture| is(picture, Service::InterruptionWatcher, "live", &missing)).await;
    assert_eq!(hub.picture().decisions.len(), 2, "what it told stays true");
}

#[tokio::test]
async fn a_service_that_stays_away_is_lost_since_the_first_time_and_asked_ever_more_rarely() {
    let (hub, _tasks) = follow_all(&sources("--grpc-termination", &["127.0.0.1:1".parse().unwrap()]));
    let state = |hub: &Hub| Arc::clone(&hub.picture().services[Service::Termination.as_str()]);
    hub.until(|picture| is(picture, Service::Termination, "lost", "asking again in 1 s")).await;
    let first = state(&hub);
    hub.until(|picture| is(picture, Service::Termination, "lost", "asking again in 4 s")).await;
    let third = state(&hub);
    assert_eq!(first.since, third.since);
    let since = |detail: &str| detail.split_once(": ").map(|(since, _)| since.to_owned());
    let (first, third) = (since(&first.detail).unwrap(), since(&third.detail).unwrap());
    assert!(first.starts_with("reconnecting since ") && first == third, "{first}, then {third}");
}

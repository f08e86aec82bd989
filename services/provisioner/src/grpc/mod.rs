//! The gRPC server: who may call what, and the handlers. Each converts, asks a handle or a pure function, and converts back.

mod consolidate;
mod explain;
mod limits;
mod misses;
mod plan;
mod replacements;
mod simulate;
mod snapshot;
mod watch;
mod wire;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use proto::provisioner::v1::provisioner_server::{Provisioner, ProvisionerServer, SERVICE_NAME};
use proto::provisioner::v1::{
    CreateReplacementsRequest, CreateReplacementsResponse, ExplainPodRequest, ExplainPodResponse,
    GetSnapshotRequest, GetSnapshotResponse, PlanRequest, PlanResponse, SimulateManyRequest,
    SimulateManyResponse, SimulateRequest, SimulateResponse, WatchClusterRequest, WatchClusterResponse,
};
use runtime::Service;
use runtime::grpc::{Access, GrpcServer, Humans, errors};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::claims::Creator;
use crate::cluster::ClusterView;
use crate::deps::Deps;
use crate::schedule::VerdictsHandle;
use std::sync::Arc;

pub(crate) fn server(deps: Deps, creator: Creator, verdicts: VerdictsHandle) -> GrpcServer {
    let access = Access::new()
        .allow(SERVICE_NAME, "Simulate", &[Service::Disruption, Service::InterruptionWatcher], Humans::Read)
        .allow(SERVICE_NAME, "SimulateMany", &[Service::Disruption], Humans::Read)
        .allow(
            SERVICE_NAME,
            "CreateReplacements",
            &[Service::Disruption, Service::InterruptionWatcher],
            Humans::Granted,
        )
        .allow(SERVICE_NAME, "Plan", &[], Humans::Read)
        .allow(SERVICE_NAME, "ExplainPod", &[], Humans::Read)
        .allow(SERVICE_NAME, "GetSnapshot", &[Service::Disruption], Humans::Read)
        .allow(SERVICE_NAME, "WatchCluster", &[], Humans::Read);
    GrpcServer::new(access)
        .add_service(ProvisionerServer::new(Handler { deps, creator, verdicts }))
        .costly(&["Plan", "Simulate", "SimulateMany", "ExplainPod"], 2)
        .costly(&["GetSnapshot"], 1)
}

#[derive(Clone)]
struct Handler {
    deps: Deps,
    creator: Creator,
    verdicts: VerdictsHandle,
}

impl Handler {
    /// The cluster as it is now; nothing is answered from a half-filled one.
    async fn view(&self) -> Result<Arc<ClusterView>, Status> {
        self.view_with(0).await
    }

    /// The same, with the NodeClaims in this version at least: what a caller has written is part of its answer.
    async fn view_with(&self, claims_version: u64) -> Result<Arc<ClusterView>, Status> {
        let view = self.deps.cluster.with_claims(claims_version).await;
        let view = view.ok_or_else(|| {
            errors::unavailable(
                "NOT_YET",
                format!("this replica has not seen NodeClaims in version {claims_version} yet; ask again"),
            )
        })?;
        if view.synced {
            return Ok(view);
        }
        Err(errors::unavailable(
            "NOT_SYNCED",
            "the cluster's state is not complete yet; see /readyz for what is missing",
        ))
    }
}

/// Runs what computes for long on the pool for that. A call is dropped when its caller disconnects: the token is cancelled then,
/// and work that has not begun never does.
async fn computed<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, Status> {
    let span = tracing::Span::current();
    let gone = CancellationToken::new();
    let _caller = gone.clone().drop_guard();
    let begin = move || (!gone.is_cancelled()).then(|| span.in_scope(|| work(&gone)));
    let outcome = tokio::task::spawn_blocking(begin).await;
    let outcome = outcome.map_err(|error| Status::internal(format!("the computation failed: {error}")))?;
    outcome.ok_or_else(|| Status::cancelled("the caller has disconnected"))
}

#[tonic::async_trait]
impl Provisioner for Handler {
    async fn simulate(
        &self,
        request: Request<SimulateRequest>,
    ) -> Result<Response<SimulateResponse>, Status> {
        let request = request.into_inner();
        let claims_version = request.min_claim_version;
        let question = simulate::Question::read(request)?;
        let view = self.view_with(claims_version).await?;
        let view = simulate::with_added(view, &question).await?;
        let (settings, replica) = (Arc::clone(&self.deps.settings), Arc::clone(&self.deps.replica));
        let answer =
            computed(move |gone| simulate::answer(&view, &question, &settings, &replica, gone)).await??;
        Ok(Response::new(answer))
    }

    type SimulateManyStream = BoxStream<'static, Result<SimulateManyResponse, Status>>;

    async fn simulate_many(
        &self,
        request: Request<Streaming<SimulateManyRequest>>,
    ) -> Result<Response<Self::SimulateManyStream>, Status> {
        let view = self.view().await?;
        let handler = self.clone();
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        // Dropped with the stream of answers, when the caller disconnects: so are the questions that are being computed.
        let answers = request.into_inner().enumerate().map(move |(index, asked)| {
            let (view, handler) = (Arc::clone(&view), handler.clone());
            async move {
                limits::check_question(index)?;
                let asked = asked?;
                let wanted = asked.request.as_ref().map_or(0, |request| request.min_claim_version);
                let view =
                    if view.claims_version >= wanted { view } else { handler.view_with(wanted).await? };
                simulate::one_of_many(view, handler.deps, asked).await
            }
        });
        Ok(Response::new(answers.buffer_unordered(at_once).boxed()))
    }

    async fn create_replacements(
        &self,
        request: Request<CreateReplacementsRequest>,
    ) -> Result<Response<CreateReplacementsResponse>, Status> {
        let Some(term) = self.deps.leadership.held() else {
            return Err(errors::not_leader(None));
        };
        let view = self.view().await?;
        let orders = replacements::orders(&request.into_inner(), &view)?;
        let made = self.creator.create(orders, &term.lost()).await;
        Ok(Response::new(replacements::answer(made)?))
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let change = plan::Change::read(request.into_inner())?;
        let view = self.view().await?;
        let holding = match change.consolidate {
            true => Some(
                self.deps
                    .cluster
                    .holding()
                    .await
                    .ok_or_else(|| errors::unavailable("STOPPING", "this replica is stopping"))?,
            ),
            false => None,
        };
        let (deps, offer) = (self.deps.clone(), self.deps.catalog.latest());
        let answer =
            computed(move |gone| plan::answer(&view, &offer, &change, holding, &deps, gone)).await??;
        Ok(Response::new(answer))
    }

    async fn explain_pod(
        &self,
        request: Request<ExplainPodRequest>,
    ) -> Result<Response<ExplainPodResponse>, Status> {
        let pod = request.into_inner().pod.ok_or_else(|| errors::invalid("pod", "name a pod"))?;
        if pod.namespace.is_empty() || pod.name.is_empty() {
            return Err(errors::invalid("pod", "give namespace and name"));
        }
        let view = self.view().await?;
        let Some(facts) = self.deps.cluster.pod(&pod.namespace, &pod.name).await else {
            return Err(errors::not_found(
                "pod",
                &format!("{}/{} (or it has finished)", pod.namespace, pod.name),
            ));
        };
        if !pod.uid.is_empty() && *facts.pod.uid != *pod.uid {
            return Err(errors::not_found(
                "pod",
                &format!("{}/{} with uid {}", pod.namespace, pod.name, pod.uid),
            ));
        }
        let (settings, replica) = (Arc::clone(&self.deps.settings), Arc::clone(&self.deps.replica));
        let decided = Arc::clone(&self.verdicts.borrow());
        let answer = computed(move |gone| {
            explain::answer(&view, &facts, &decided.verdicts, &settings, &replica, gone)
        })
        .await?;
        Ok(Response::new(answer))
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        let view = self.deps.cluster.fresh().await;
        let decided = Arc::clone(&self.verdicts.borrow());
        let leader = self.deps.leadership.is_leader();
        let (offer, replica) = (self.deps.catalog.latest(), Arc::clone(&self.deps.replica));
        let asked = request.into_inner();
        // With all nodes it is as long as the cluster is large.
        let answer =
            computed(move |_| snapshot::answer(&view, &decided, &offer, leader, &replica, &asked)).await?;
        Ok(Response::new(answer))
    }

    type WatchClusterStream = BoxStream<'static, Result<WatchClusterResponse, Status>>;

    async fn watch_cluster(
        &self,
        request: Request<WatchClusterRequest>,
    ) -> Result<Response<Self::WatchClusterStream>, Status> {
        let follower =
            watch::Follower::new(&self.deps, self.verdicts.clone(), request.into_inner().with_pods);
        Ok(Response::new(follower.stream().boxed()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A call whose computation ends with its caller only, and what reports its beginning and its end.
    fn endless() -> (impl Future<Output = Result<(), Status>>, oneshot::Receiver<()>, oneshot::Receiver<bool>)
    {
        let (began, beginning) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let call = computed(move |gone| {
            began.send(()).expect("the test waits");
            let given_up = std::time::Instant::now() + LONG;
            while !gone.is_cancelled() && std::time::Instant::now() < given_up {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = ended.send(gone.is_cancelled());
        });
        (call, beginning, end)
    }

    #[tokio::test]
    async fn a_dropped_call_ends_its_computation() {
        let (call, beginning, end) = endless();
        let mut call = Box::pin(call);
        tokio::select! {
            _ = &mut call => panic!("nobody has disconnected"),
            began = beginning => began.expect("it begins"),
        }
        drop(call);
        assert!(end.await.expect("it ends"), "by cancellation");
    }

    #[tokio::test]
    async fn a_dropped_stream_ends_the_computations_of_its_questions() {
        let (call, beginning, end) = endless();
        let questions = futures::stream::iter([Box::pin(call)]).chain(futures::stream::pending());
        let mut answers = Box::pin(questions.buffer_unordered(2));
        tokio::select! {
            _ = answers.next() => panic!("nobody has disconnected"),
            began = beginning => began.expect("it begins"),
        }
        drop(answers);
        assert!(end.await.expect("it ends"), "by cancellation");
    }

    #[tokio::test]
    async fn a_computation_that_is_waited_for_is_not_cancelled() {
        assert!(!computed(|gone| gone.is_cancelled()).await.expect("an answer"));
    }
}

//! The gRPC server: who may call what, and the handlers.

use futures::stream::BoxStream;
use proto::provisioner::v1::provisioner_server::{Provisioner, ProvisionerServer, SERVICE_NAME};
use proto::provisioner::v1::{
    CreateReplacementsRequest, CreateReplacementsResponse, ExplainPodRequest, ExplainPodResponse,
    GetSnapshotRequest, GetSnapshotResponse, PlanRequest, PlanResponse, SimulateManyRequest,
    SimulateManyResponse, SimulateRequest, SimulateResponse,
};
use runtime::Service;
use runtime::grpc::{Access, GrpcServer, Humans};
use tonic::{Request, Response, Status, Streaming};

use crate::claims::Creator;
use crate::deps::Deps;
use crate::schedule::VerdictsHandle;

pub(crate) fn server(_deps: Deps, _creator: Creator, _verdicts: VerdictsHandle) -> GrpcServer {
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
        .allow(SERVICE_NAME, "GetSnapshot", &[Service::Disruption], Humans::Read);
    GrpcServer::new(access).add_service(ProvisionerServer::new(Handler))
}

struct Handler;

fn not_yet(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not served by this version"))
}

#[tonic::async_trait]
impl Provisioner for Handler {
    async fn simulate(
        &self,
        _request: Request<SimulateRequest>,
    ) -> Result<Response<SimulateResponse>, Status> {
        Err(not_yet("Simulate"))
    }

    type SimulateManyStream = BoxStream<'static, Result<SimulateManyResponse, Status>>;

    async fn simulate_many(
        &self,
        _request: Request<Streaming<SimulateManyRequest>>,
    ) -> Result<Response<Self::SimulateManyStream>, Status> {
        Err(not_yet("SimulateMany"))
    }

    async fn create_replacements(
        &self,
        _request: Request<CreateReplacementsRequest>,
    ) -> Result<Response<CreateReplacementsResponse>, Status> {
        Err(not_yet("CreateReplacements"))
    }

    async fn plan(&self, _request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        Err(not_yet("Plan"))
    }

    async fn explain_pod(
        &self,
        _request: Request<ExplainPodRequest>,
    ) -> Result<Response<ExplainPodResponse>, Status> {
        Err(not_yet("ExplainPod"))
    }

    async fn get_snapshot(
        &self,
        _request: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        Err(not_yet("GetSnapshot"))
    }
}

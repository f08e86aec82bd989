//! The gRPC server: who may call what, and the handlers.

use futures::stream::BoxStream;
use proto::termination::v1::termination_server::{SERVICE_NAME, Termination, TerminationServer};
use proto::termination::v1::{
    ListDrainsRequest, ListDrainsResponse, TerminateRequest, TerminateResponse, WatchDrainRequest,
    WatchDrainResponse,
};
use runtime::Service;
use runtime::grpc::{Access, GrpcServer, Humans};
use tonic::{Request, Response, Status};

pub(crate) fn server() -> GrpcServer {
    let access = Access::new()
        .allow(
            SERVICE_NAME,
            "Terminate",
            &[Service::Disruption, Service::InterruptionWatcher],
            Humans::Granted,
        )
        .allow(SERVICE_NAME, "ListDrains", &[Service::Disruption], Humans::Read)
        .allow(SERVICE_NAME, "WatchDrain", &[Service::Disruption], Humans::Read);
    GrpcServer::new(access).add_service(TerminationServer::new(Handler))
}

struct Handler;

fn not_yet(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not served by this version"))
}

#[tonic::async_trait]
impl Termination for Handler {
    async fn terminate(
        &self,
        _request: Request<TerminateRequest>,
    ) -> Result<Response<TerminateResponse>, Status> {
        Err(not_yet("Terminate"))
    }

    async fn list_drains(
        &self,
        _request: Request<ListDrainsRequest>,
    ) -> Result<Response<ListDrainsResponse>, Status> {
        Err(not_yet("ListDrains"))
    }

    type WatchDrainStream = BoxStream<'static, Result<WatchDrainResponse, Status>>;

    async fn watch_drain(
        &self,
        _request: Request<WatchDrainRequest>,
    ) -> Result<Response<Self::WatchDrainStream>, Status> {
        Err(not_yet("WatchDrain"))
    }
}

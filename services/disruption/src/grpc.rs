//! The gRPC server: who may call what, and the handlers.

use futures::stream::BoxStream;
use proto::disruption::v1::disruption_server::{Disruption, DisruptionServer, SERVICE_NAME};
use proto::disruption::v1::{
    ExplainNodeRequest, ExplainNodeResponse, ListCandidatesRequest, ListCandidatesResponse,
    ListCommandsRequest, ListCommandsResponse, WatchCommandsRequest, WatchCommandsResponse,
};

use runtime::grpc::{Access, GrpcServer, Humans};
use tonic::{Request, Response, Status};

pub(crate) fn server() -> GrpcServer {
    let access = Access::new()
        .allow(SERVICE_NAME, "ListCandidates", &[], Humans::Read)
        .allow(SERVICE_NAME, "ExplainNode", &[], Humans::Read)
        .allow(SERVICE_NAME, "ListCommands", &[], Humans::Read)
        .allow(SERVICE_NAME, "WatchCommands", &[], Humans::Read);
    GrpcServer::new(access).add_service(DisruptionServer::new(Handler))
}

struct Handler;

fn not_yet(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not served by this version"))
}

#[tonic::async_trait]
impl Disruption for Handler {
    async fn list_candidates(
        &self,
        _request: Request<ListCandidatesRequest>,
    ) -> Result<Response<ListCandidatesResponse>, Status> {
        Err(not_yet("ListCandidates"))
    }

    async fn explain_node(
        &self,
        _request: Request<ExplainNodeRequest>,
    ) -> Result<Response<ExplainNodeResponse>, Status> {
        Err(not_yet("ExplainNode"))
    }

    async fn list_commands(
        &self,
        _request: Request<ListCommandsRequest>,
    ) -> Result<Response<ListCommandsResponse>, Status> {
        Err(not_yet("ListCommands"))
    }

    type WatchCommandsStream = BoxStream<'static, Result<WatchCommandsResponse, Status>>;

    async fn watch_commands(
        &self,
        _request: Request<WatchCommandsRequest>,
    ) -> Result<Response<Self::WatchCommandsStream>, Status> {
        Err(not_yet("WatchCommands"))
    }
}

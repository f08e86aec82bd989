//! The gRPC server: who may call what, and the handlers.

use proto::interruptionwatcher::v1::interruption_watcher_server::{
    InterruptionWatcher, InterruptionWatcherServer, SERVICE_NAME,
};
use proto::interruptionwatcher::v1::{
    GetStatsRequest, GetStatsResponse, ListEventsRequest, ListEventsResponse, ReplayRequest, ReplayResponse,
};

use runtime::grpc::{Access, GrpcServer, Humans};
use tonic::{Request, Response, Status};

pub(crate) fn server() -> GrpcServer {
    let access = Access::new()
        .allow(SERVICE_NAME, "ListEvents", &[], Humans::Read)
        .allow(SERVICE_NAME, "GetStats", &[], Humans::Read)
        .allow(SERVICE_NAME, "Replay", &[], Humans::Read);
    GrpcServer::new(access).add_service(InterruptionWatcherServer::new(Handler))
}

struct Handler;

fn not_yet(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not served by this version"))
}

#[tonic::async_trait]
impl InterruptionWatcher for Handler {
    async fn list_events(
        &self,
        _request: Request<ListEventsRequest>,
    ) -> Result<Response<ListEventsResponse>, Status> {
        Err(not_yet("ListEvents"))
    }

    async fn get_stats(
        &self,
        _request: Request<GetStatsRequest>,
    ) -> Result<Response<GetStatsResponse>, Status> {
        Err(not_yet("GetStats"))
    }

    async fn replay(&self, _request: Request<ReplayRequest>) -> Result<Response<ReplayResponse>, Status> {
        Err(not_yet("Replay"))
    }
}

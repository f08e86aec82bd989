//! The gRPC server: who may call what, and the handlers.

use futures::stream::BoxStream;
use proto::pricingcache::v1::pricing_cache_server::{PricingCache, PricingCacheServer, SERVICE_NAME};
use proto::pricingcache::v1::{
    CatalogUpdate, GetPricesRequest, GetPricesResponse, ListInstanceTypesRequest, ListInstanceTypesResponse,
    ListUnavailableRequest, ListUnavailableResponse, ReportUnavailableRequest, ReportUnavailableResponse,
    WatchCatalogRequest,
};
use runtime::Service;
use runtime::grpc::{Access, GrpcServer, Humans};
use tonic::{Request, Response, Status};

pub(crate) fn server() -> GrpcServer {
    let access = Access::new()
        .allow(SERVICE_NAME, "WatchCatalog", &[Service::Provisioner, Service::Disruption], Humans::Read)
        .allow(SERVICE_NAME, "ListInstanceTypes", &[Service::Provisioner, Service::Disruption], Humans::Read)
        .allow(SERVICE_NAME, "GetPrices", &[Service::Provisioner, Service::Disruption], Humans::Read)
        .allow(
            SERVICE_NAME,
            "ReportUnavailable",
            &[Service::Provisioner, Service::InterruptionWatcher],
            Humans::Granted,
        )
        .allow(SERVICE_NAME, "ListUnavailable", &[Service::Provisioner, Service::Disruption], Humans::Read);
    GrpcServer::new(access).add_service(PricingCacheServer::new(Handler))
}

struct Handler;

fn not_yet(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not served by this version"))
}

#[tonic::async_trait]
impl PricingCache for Handler {
    type WatchCatalogStream = BoxStream<'static, Result<CatalogUpdate, Status>>;

    async fn watch_catalog(
        &self,
        _request: Request<WatchCatalogRequest>,
    ) -> Result<Response<Self::WatchCatalogStream>, Status> {
        Err(not_yet("WatchCatalog"))
    }

    async fn list_instance_types(
        &self,
        _request: Request<ListInstanceTypesRequest>,
    ) -> Result<Response<ListInstanceTypesResponse>, Status> {
        Err(not_yet("ListInstanceTypes"))
    }

    async fn get_prices(
        &self,
        _request: Request<GetPricesRequest>,
    ) -> Result<Response<GetPricesResponse>, Status> {
        Err(not_yet("GetPrices"))
    }

    async fn report_unavailable(
        &self,
        _request: Request<ReportUnavailableRequest>,
    ) -> Result<Response<ReportUnavailableResponse>, Status> {
        Err(not_yet("ReportUnavailable"))
    }

    async fn list_unavailable(
        &self,
        _request: Request<ListUnavailableRequest>,
    ) -> Result<Response<ListUnavailableResponse>, Status> {
        Err(not_yet("ListUnavailable"))
    }
}

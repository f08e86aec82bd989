//! The gRPC server: who may call what, and the handlers. Questions about types and prices are answered in `answers`.

use std::sync::Arc;
use std::time::Duration;

use cloud::derive::Settings;
use cloud::unavailable::Scope;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::SignedDuration;
use prometheus_client::metrics::gauge::Gauge;
use prost::bytes::Bytes;
use proto::pricingcache::v1::pricing_cache_server::{PricingCache, SERVICE_NAME};
use proto::pricingcache::v1::{
    CatalogUpdate, GetPricesRequest, GetPricesResponse, ListInstanceTypesRequest, ListInstanceTypesResponse,
    ListUnavailableRequest, ListUnavailableResponse, ReportUnavailableRequest, ReportUnavailableResponse,
    WatchCatalogRequest,
};
use runtime::Service;
use runtime::grpc::{Access, GrpcServer, Humans, errors};
use tonic::{Request, Response, Status};

use crate::metrics::PricingMetrics;
use crate::owner::CatalogueHandle;
use crate::published::{Published, follow};
use crate::streams::SharedStreams;
use crate::{answers, wire};

/// A report is acknowledged when its marks are stored, or after this long: they are in force here already.
const STORED_WITHIN: Duration = Duration::from_secs(1);
const MOST_MARKS: usize = 1000;
const LONGEST_NAME: usize = 128;

pub(crate) fn server(
    catalogue: CatalogueHandle,
    metrics: PricingMetrics,
    derivation: Settings,
) -> GrpcServer {
    let readers = [Service::Provisioner, Service::Disruption];
    let access = Access::new()
        .allow(SERVICE_NAME, "WatchCatalog", &readers, Humans::Read)
        .allow(SERVICE_NAME, "ListInstanceTypes", &readers, Humans::Read)
        .allow(SERVICE_NAME, "GetPrices", &readers, Humans::Read)
        .allow(
            SERVICE_NAME,
            "ReportUnavailable",
            &[Service::Provisioner, Service::InterruptionWatcher],
            Humans::Granted,
        )
        .allow(
            SERVICE_NAME,
            "ListUnavailable",
            &[Service::Provisioner, Service::Disruption, Service::Termination],
            Humans::Read,
        );
    let handler = Arc::new(Handler { catalogue, metrics, derivation: Arc::new(derivation) });
    GrpcServer::new(access)
        .add_service(SharedStreams::new(handler))
        .costly(&["ListInstanceTypes", "GetPrices"], 2)
}

pub(crate) struct Handler {
    catalogue: CatalogueHandle,
    metrics: PricingMetrics,
    derivation: Arc<Settings>,
}

impl Handler {
    /// Updates for one subscriber, counted as long as somebody holds them.
    pub(crate) fn updates(&self, asked: WatchCatalogRequest) -> BoxStream<'static, Bytes> {
        let counted = Counted::new(&self.metrics.subscribers);
        let updates = follow(self.catalogue.subscribe(), asked.epoch, asked.version);
        updates
            .map(move |update| {
                let _ = &counted;
                update
            })
            .boxed()
    }

    fn latest(&self) -> Result<Arc<Published>, Status> {
        self.catalogue.latest().ok_or_else(|| {
            errors::unavailable(
                "CATALOG_INCOMPLETE",
                "the catalogue is not complete yet; /readyz says what is missing",
            )
        })
    }
}

#[tonic::async_trait]
impl PricingCache for Handler {
    type WatchCatalogStream = BoxStream<'static, Result<CatalogUpdate, Status>>;

    /// Before the catalogue is complete the stream is open and silent.
    /// Not how streams are answered: [`SharedStreams`] takes them first.
    async fn watch_catalog(
        &self,
        request: Request<WatchCatalogRequest>,
    ) -> Result<Response<Self::WatchCatalogStream>, Status> {
        let updates = self.updates(request.into_inner());
        Ok(Response::new(updates.map(|update| Ok(wire::unframed(&update))).boxed()))
    }

    async fn list_instance_types(
        &self,
        request: Request<ListInstanceTypesRequest>,
    ) -> Result<Response<ListInstanceTypesResponse>, Status> {
        let filter = answers::Filter::try_from(request.into_inner())?;
        let (published, derivation) = (self.latest()?, Arc::clone(&self.derivation));
        // Derives every type: some milliseconds that must not hold up the streams.
        let listed =
            tokio::task::spawn_blocking(move || answers::instance_types(&published, &derivation, &filter));
        let listed =
            listed.await.map_err(|error| Status::internal(format!("list instance types: {error}")))?;
        Ok(Response::new(listed))
    }

    async fn get_prices(
        &self,
        request: Request<GetPricesRequest>,
    ) -> Result<Response<GetPricesResponse>, Status> {
        let wanted = answers::Wanted::try_from(request.into_inner())?;
        Ok(Response::new(answers::prices(&*self.latest()?, &wanted)))
    }

    async fn report_unavailable(
        &self,
        request: Request<ReportUnavailableRequest>,
    ) -> Result<Response<ReportUnavailableResponse>, Status> {
        let (scopes, hold) = reported(&request.into_inner())?;
        let ending = || errors::unavailable("STOPPING", "this replica is stopping; ask another");
        let reported = self.catalogue.report(scopes, hold).await.ok_or_else(ending)?;
        if tokio::time::timeout(STORED_WITHIN, reported.stored).await.is_err() {
            tracing::warn!("unavailable offerings are in effect here but not stored yet; still writing");
        }
        let unavailable = reported.marks.iter().map(wire::unavailable).collect();
        Ok(Response::new(ReportUnavailableResponse { unavailable, version: reported.version }))
    }

    async fn list_unavailable(
        &self,
        _request: Request<ListUnavailableRequest>,
    ) -> Result<Response<ListUnavailableResponse>, Status> {
        let published = self.latest()?;
        let mut marks: Vec<_> = published.catalogue.marks.values().collect();
        marks.sort_by_key(|mark| mark.until);
        let unavailable = marks.into_iter().map(wire::unavailable).collect();
        let shifted = published.catalogue.zones.iter().filter(|zone| zone.shifted);
        let shifted_zones = shifted.map(|zone| zone.name.clone()).collect();
        Ok(Response::new(ListUnavailableResponse { unavailable, shifted_zones }))
    }
}

type Report = (Vec<(Scope, String)>, Option<SignedDuration>);

fn reported(request: &ReportUnavailableRequest) -> Result<Report, Status> {
    if request.unavailable.is_empty() || request.unavailable.len() > MOST_MARKS {
        return Err(errors::invalid(
            "unavailable",
            format!("give between 1 and {MOST_MARKS} unavailable offerings"),
        ));
    }
    let mut scopes = Vec::with_capacity(request.unavailable.len());
    for (at, mark) in request.unavailable.iter().enumerate() {
        let field = format!("unavailable[{at}]");
        let names = [
            &mark.instance_type,
            &mark.zone,
            &mark.subnet_id,
            &mark.reservation_id,
            &mark.placement_group_id,
        ];
        // They become part of a ConfigMap's keys.
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
        if names.iter().any(|name| name.len() > LONGEST_NAME || !plain(name))
            || mark.reason.len() > LONGEST_NAME
        {
            let why = format!("names are letters, digits, '-' and '.', none is longer than {LONGEST_NAME}");
            return Err(errors::invalid(&field, why));
        }
        let scope = wire::scope(mark).map_err(|why| errors::invalid(&field, why))?;
        scopes.push((scope, mark.reason.clone()));
    }
    Ok((scopes, request.hold.map(asked_hold).transpose()?.flatten()))
}

/// `None` for the cache's own period. A caller may send any pair of numbers, also such as are no duration.
fn asked_hold(hold: prost_types::Duration) -> Result<Option<SignedDuration>, Status> {
    match (hold.seconds, hold.nanos) {
        (seconds @ 0.., nanos @ 0..=999_999_999) => {
            Ok(Some(SignedDuration::new(seconds, nanos)).filter(|hold| !hold.is_zero()))
        }
        _ => Err(errors::invalid("hold", "must be above 0, or absent for the cache's own period")),
    }
}

/// An open stream in the count of subscribers.
struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pair_of_numbers_that_a_caller_sends_as_a_duration_is_a_panic() {
        let asked = |seconds, nanos| asked_hold(prost_types::Duration { seconds, nanos });
        assert_eq!(asked(0, 0).unwrap(), None);
        assert_eq!(asked(90, 0).unwrap(), Some(SignedDuration::from_secs(90)));
        assert_eq!(asked(0, 5_000_000).unwrap(), Some(SignedDuration::from_millis(5)));
        assert!(asked(-1, 0).is_err() && asked(0, -1).is_err() && asked(1, -1).is_err());
        for seconds in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            for nanos in [i32::MIN, -1_000_000_000, -1, 0, 1, 999_999_999, 1_000_000_000, i32::MAX] {
                let _ = asked(seconds, nanos);
            }
        }
    }
}

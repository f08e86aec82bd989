//! Reports unavailable offerings to pricing-cache. One actor gathers what comes together into one call: a reclaimed zone is
//! hundreds of warnings about a few pools.
//!
//! A report is a hint: no caller waits while pricing-cache is unreachable. The report is kept and sent as soon as pricing-cache
//! answers again, unless it is out of date by then.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud::unavailable::Scope;
use model::catalog::CapacityType;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::pricingcache::v1::{ReportUnavailableRequest, Unavailable};
use proto::types::v1::CapacityType as WireCapacityType;
use runtime::grpc::Caller;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::metrics::Metrics;

const MAILBOX: usize = 1024;
/// In one call; pricing-cache takes more.
const MOST: usize = 100;
const DEADLINE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(2);
/// How long pricing-cache holds a first report; one that is sent later says nothing about now.
const STALE: Duration = Duration::from_secs(180);

/// Where reports go; the real one is any replica of pricing-cache.
pub(crate) trait PricingCache: Send + Sync + 'static {
    fn report(&self, unavailable: Vec<Unavailable>) -> impl Future<Output = Result<(), Status>> + Send;
}

impl PricingCache for Caller {
    async fn report(&self, unavailable: Vec<Unavailable>) -> Result<(), Status> {
        let mut client = PricingCacheClient::new(self.clone().deadline(DEADLINE));
        client.report_unavailable(ReportUnavailableRequest { unavailable, hold: None }).await.map(drop)
    }
}

struct Report {
    scope: Scope,
    reason: &'static str,
    reply: oneshot::Sender<bool>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct UnavailableReports {
    mailbox: mpsc::Sender<Report>,
}

impl UnavailableReports {
    /// Whether the report is in force when this returns. If not, it is sent later.
    pub(crate) async fn report(&self, scope: Scope, reason: &'static str) -> bool {
        let (reply, answer) = oneshot::channel();
        if self.mailbox.send(Report { scope, reason, reply }).await.is_err() {
            return false;
        }
        answer.await.unwrap_or(false)
    }
}

struct Pending {
    reason: &'static str,
    since: Instant,
    waiting: Vec<oneshot::Sender<bool>>,
}

pub(crate) struct Actor<L> {
    pricing_cache: L,
    mailbox: mpsc::Receiver<Report>,
    metrics: Metrics,
    pending: BTreeMap<Scope, Pending>,
    /// Set while the last call failed.
    retry_at: Option<Instant>,
}

impl<L: PricingCache> Actor<L> {
    pub(crate) fn new(pricing_cache: L, metrics: Metrics) -> (Self, UnavailableReports) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let actor = Self { pricing_cache, mailbox, metrics, pending: BTreeMap::new(), retry_at: None };
        (actor, UnavailableReports { mailbox: sender })
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let due = self.retry_at.filter(|_| !self.pending.is_empty());
            let retry = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(report) = self.mailbox.recv() => {
                    self.gather(report);
                    while let Ok(more) = self.mailbox.try_recv() {
                        self.gather(more);
                    }
                    if self.retry_at.is_some_and(|at| Instant::now() < at) {
                        self.release_callers();
                        continue;
                    }
                }
                () = retry => {}
            }
            self.send().await;
        }
    }

    fn gather(&mut self, report: Report) {
        let Report { scope, reason, reply } = report;
        let since = Instant::now();
        let pending =
            self.pending.entry(scope).or_insert_with(|| Pending { reason, since, waiting: Vec::new() });
        pending.since = since;
        pending.waiting.push(reply);
    }

    async fn send(&mut self) {
        self.drop_stale();
        while !self.pending.is_empty() {
            let some: Vec<Scope> = self.pending.keys().take(MOST).cloned().collect();
            let reports =
                some.iter().filter_map(|scope| Some(wire(scope, self.pending.get(scope)?.reason))).collect();
            match self.pricing_cache.report(reports).await {
                Ok(()) => {
                    if self.retry_at.take().is_some() {
                        tracing::info!("pricing-cache accepts unavailable offerings again");
                    }
                    for scope in &some {
                        let sent = self.pending.remove(scope);
                        sent.into_iter().flat_map(|sent| sent.waiting).for_each(|reply| answer(reply, true));
                    }
                }
                Err(error) => {
                    if self.retry_at.is_none() {
                        tracing::warn!(%error, waiting = self.pending.len(), "could not report unavailable offerings to pricing-cache; retrying");
                    }
                    self.retry_at = Some(Instant::now() + AGAIN);
                    self.release_callers();
                    return;
                }
            }
        }
    }

    fn release_callers(&mut self) {
        for pending in self.pending.values_mut() {
            pending.waiting.drain(..).for_each(|reply| answer(reply, false));
        }
    }

    fn drop_stale(&mut self) {
        let (before, now) = (self.pending.len(), Instant::now());
        self.pending.retain(|_, pending| now.duration_since(pending.since) < STALE);
        self.metrics.reports_lost.inc_by((before - self.pending.len()) as u64);
    }
}

fn answer(reply: oneshot::Sender<bool>, told: bool) {
    // Who report may be gone.
    let _ = reply.send(told);
}

fn wire(scope: &Scope, reason: &str) -> Unavailable {
    let capacity_type = scope.capacity_type.map_or(WireCapacityType::Unspecified, |kind| match kind {
        CapacityType::OnDemand => WireCapacityType::OnDemand,
        CapacityType::Spot => WireCapacityType::Spot,
        CapacityType::Reserved => WireCapacityType::Reserved,
    });
    Unavailable {
        instance_type: scope.instance_type.clone().unwrap_or_default(),
        zone: scope.zone.clone().unwrap_or_default(),
        capacity_type: capacity_type.into(),
        reservation_id: scope.reservation_id.clone().unwrap_or_default(),
        reason: reason.to_owned(),
        ..Unavailable::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::task::JoinSet;

    use super::*;

    #[derive(Default)]
    struct Remembered {
        calls: Mutex<Vec<Vec<String>>>,
        away: Mutex<bool>,
    }

    impl PricingCache for Arc<Remembered> {
        async fn report(&self, unavailable: Vec<Unavailable>) -> Result<(), Status> {
            if *self.away.lock().unwrap() {
                return Err(Status::unavailable("away"));
            }
            let offerings =
                unavailable.into_iter().map(|each| format!("{} {}", each.instance_type, each.zone)).collect();
            self.calls.lock().unwrap().push(offerings);
            Ok(())
        }
    }

    fn start() -> (Arc<Remembered>, UnavailableReports, Metrics, JoinSet<anyhow::Result<()>>) {
        let ledger = Arc::new(Remembered::default());
        let metrics = Metrics::register(&runtime::Metrics::new(runtime::Service::InterruptionWatcher));
        let (actor, reports) = Actor::new(Arc::clone(&ledger), metrics.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(actor.run(CancellationToken::new()));
        (ledger, reports, metrics, tasks)
    }

    fn spot(zone: &str) -> Scope {
        Scope::offering(CapacityType::Spot, "m5.large", zone)
    }

    #[tokio::test(start_paused = true)]
    async fn warnings_about_one_offering_are_reported_once_for_all_callers() {
        let (ledger, reports, _, _tasks) = start();
        let all =
            (0..50).map(|n| reports.report(spot(if n % 2 == 0 { "a" } else { "b" }), "SpotInterruption"));
        assert!(futures::future::join_all(all).await.into_iter().all(|is_reported| is_reported));
        let calls = ledger.calls.lock().unwrap();
        assert_eq!(calls.iter().flatten().count(), 2, "{calls:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_caller_waits_for_an_unreachable_cache_and_the_report_is_sent_when_it_is_back() {
        let (ledger, reports, metrics, _tasks) = start();
        *ledger.away.lock().unwrap() = true;
        assert!(!reports.report(spot("a"), "SpotInterruption").await);
        let began = Instant::now();
        assert!(!reports.report(spot("b"), "SpotInterruption").await);
        assert_eq!(began.elapsed(), Duration::ZERO, "it is known to be unreachable");
        *ledger.away.lock().unwrap() = false;
        tokio::time::sleep(AGAIN + Duration::from_millis(1)).await;
        assert_eq!(*ledger.calls.lock().unwrap(), [["m5.large a", "m5.large b"]]);
        assert_eq!(metrics.reports_lost.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_that_was_not_accepted_in_time_is_dropped_and_counted() {
        let (ledger, reports, metrics, _tasks) = start();
        *ledger.away.lock().unwrap() = true;
        assert!(!reports.report(spot("a"), "SpotInterruption").await);
        tokio::time::sleep(STALE + AGAIN * 2).await;
        *ledger.away.lock().unwrap() = false;
        tokio::time::sleep(AGAIN * 2).await;
        assert!(ledger.calls.lock().unwrap().is_empty());
        assert_eq!(metrics.reports_lost.get(), 1);
    }
}

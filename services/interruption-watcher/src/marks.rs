//! Telling pricing-cache what EC2 is short of. One actor gathers what comes together into one call: a reclaimed zone is
//! hundreds of warnings about a few pools.
//!
//! A mark is a hint: when pricing-cache is away nobody waits for it. The mark is kept and told as soon as somebody listens, unless
//! it has lost its point by then.

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
/// The cache's own first hold; a mark that is told later says nothing about now.
const STALE: Duration = Duration::from_secs(180);

/// Where reports go; the real one is any replica of pricing-cache.
pub(crate) trait Ledger: Send + Sync + 'static {
    fn report(&self, marks: Vec<Unavailable>) -> impl Future<Output = Result<(), Status>> + Send;
}

impl Ledger for Caller {
    async fn report(&self, marks: Vec<Unavailable>) -> Result<(), Status> {
        let mut client = PricingCacheClient::new(self.clone().deadline(DEADLINE));
        client.report_unavailable(ReportUnavailableRequest { unavailable: marks, hold: None }).await.map(drop)
    }
}

struct Asked {
    scope: Scope,
    reason: &'static str,
    reply: oneshot::Sender<bool>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Marks {
    mailbox: mpsc::Sender<Asked>,
}

impl Marks {
    /// Whether the mark is in force when this returns. If not, it will be told later.
    pub(crate) async fn report(&self, scope: Scope, reason: &'static str) -> bool {
        let (reply, answer) = oneshot::channel();
        if self.mailbox.send(Asked { scope, reason, reply }).await.is_err() {
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
    ledger: L,
    mailbox: mpsc::Receiver<Asked>,
    metrics: Metrics,
    pending: BTreeMap<Scope, Pending>,
    /// Set while the last call failed.
    retry_at: Option<Instant>,
}

impl<L: Ledger> Actor<L> {
    pub(crate) fn new(ledger: L, metrics: Metrics) -> (Self, Marks) {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let actor = Self { ledger, mailbox, metrics, pending: BTreeMap::new(), retry_at: None };
        (actor, Marks { mailbox: sender })
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
                Some(asked) = self.mailbox.recv() => {
                    self.take(asked);
                    while let Ok(more) = self.mailbox.try_recv() {
                        self.take(more);
                    }
                    if self.retry_at.is_some_and(|at| Instant::now() < at) {
                        self.nobody_waits();
                        continue;
                    }
                }
                () = retry => {}
            }
            self.tell().await;
        }
    }

    fn take(&mut self, asked: Asked) {
        let Asked { scope, reason, reply } = asked;
        let since = Instant::now();
        let pending =
            self.pending.entry(scope).or_insert_with(|| Pending { reason, since, waiting: Vec::new() });
        pending.since = since;
        pending.waiting.push(reply);
    }

    async fn tell(&mut self) {
        self.drop_stale();
        while !self.pending.is_empty() {
            let some: Vec<Scope> = self.pending.keys().take(MOST).cloned().collect();
            let marks =
                some.iter().filter_map(|scope| Some(wire(scope, self.pending.get(scope)?.reason))).collect();
            match self.ledger.report(marks).await {
                Ok(()) => {
                    if self.retry_at.take().is_some() {
                        tracing::info!("pricing-cache accepts unavailable offerings again");
                    }
                    for scope in &some {
                        let told = self.pending.remove(scope);
                        told.into_iter().flat_map(|told| told.waiting).for_each(|reply| answer(reply, true));
                    }
                }
                Err(error) => {
                    if self.retry_at.is_none() {
                        tracing::warn!(%error, marks = self.pending.len(), "could not report unavailable offerings to pricing-cache; retrying");
                    }
                    self.retry_at = Some(Instant::now() + AGAIN);
                    self.nobody_waits();
                    return;
                }
            }
        }
    }

    fn nobody_waits(&mut self) {
        for pending in self.pending.values_mut() {
            pending.waiting.drain(..).for_each(|reply| answer(reply, false));
        }
    }

    fn drop_stale(&mut self) {
        let (before, now) = (self.pending.len(), Instant::now());
        self.pending.retain(|_, pending| now.duration_since(pending.since) < STALE);
        self.metrics.marks_lost.inc_by((before - self.pending.len()) as u64);
    }
}

fn answer(reply: oneshot::Sender<bool>, told: bool) {
    // Who asked may be gone.
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

    impl Ledger for Arc<Remembered> {
        async fn report(&self, marks: Vec<Unavailable>) -> Result<(), Status> {
            if *self.away.lock().unwrap() {
                return Err(Status::unavailable("away"));
            }
            let told =
                marks.into_iter().map(|mark| format!("{} {}", mark.instance_type, mark.zone)).collect();
            self.calls.lock().unwrap().push(told);
            Ok(())
        }
    }

    fn start() -> (Arc<Remembered>, Marks, Metrics, JoinSet<anyhow::Result<()>>) {
        let ledger = Arc::new(Remembered::default());
        let metrics = Metrics::register(&runtime::Metrics::new(runtime::Service::InterruptionWatcher));
        let (actor, marks) = Actor::new(Arc::clone(&ledger), metrics.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(actor.run(CancellationToken::new()));
        (ledger, marks, metrics, tasks)
    }

    fn spot(zone: &str) -> Scope {
        Scope::offering(CapacityType::Spot, "m5.large", zone)
    }

    #[tokio::test(start_paused = true)]
    async fn warnings_about_one_pool_are_told_once_and_all_hear_of_it() {
        let (ledger, marks, _, _tasks) = start();
        let reports =
            (0..50).map(|n| marks.report(spot(if n % 2 == 0 { "a" } else { "b" }), "SpotInterruption"));
        assert!(futures::future::join_all(reports).await.into_iter().all(|told| told));
        let calls = ledger.calls.lock().unwrap();
        assert_eq!(calls.iter().flatten().count(), 2, "{calls:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_cache_that_is_away_and_the_mark_is_told_when_it_is_back() {
        let (ledger, marks, metrics, _tasks) = start();
        *ledger.away.lock().unwrap() = true;
        assert!(!marks.report(spot("a"), "SpotInterruption").await);
        let began = Instant::now();
        assert!(!marks.report(spot("b"), "SpotInterruption").await);
        assert_eq!(began.elapsed(), Duration::ZERO, "it is known to be away");
        *ledger.away.lock().unwrap() = false;
        tokio::time::sleep(AGAIN + Duration::from_millis(1)).await;
        assert_eq!(*ledger.calls.lock().unwrap(), [["m5.large a", "m5.large b"]]);
        assert_eq!(metrics.marks_lost.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_that_nobody_took_in_its_time_is_dropped_and_counted() {
        let (ledger, marks, metrics, _tasks) = start();
        *ledger.away.lock().unwrap() = true;
        assert!(!marks.report(spot("a"), "SpotInterruption").await);
        tokio::time::sleep(STALE + AGAIN * 2).await;
        *ledger.away.lock().unwrap() = false;
        tokio::time::sleep(AGAIN * 2).await;
        assert!(ledger.calls.lock().unwrap().is_empty());
        assert_eq!(metrics.marks_lost.get(), 1);
    }
}

//! Leader election on a Lease: the loop that reads and writes it, and the handle by which parts of a service learn whether they
//! may act. The rules are in [`election`].
//!
//! A replica that loses the Lease stops its leader's work at once and stays as a warm follower. On a clean stop the work
//! ends first, then the Lease is given back, so that the next replica need not wait for it to expire.

mod election;
mod reference;
mod unelected;

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tracing::{debug, info, warn};

use crate::readiness::Note;
use crate::{Metrics, log_format::chain, metrics::Name};
pub use election::{Election, Move, Seen, Timing};
use reference::Reference;
pub use unelected::Unelected;

/// One answer of the API server may take this long; a leader's deadline cuts it shorter.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a stopping leader waits for its own work before it gives the Lease back regardless of it.
const HAND_OVER: Duration = Duration::from_secs(8);

#[derive(Clone, Debug)]
struct Reign {
    until: Instant,
    lost: CancellationToken,
}

/// Whether this replica leads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    reign: watch::Receiver<Option<Reign>>,
    work: TaskTracker,
    /// Keeps the channel of [`Leadership::always`] open.
    _keep: Option<Arc<watch::Sender<Option<Reign>>>>,
}

/// A stretch of time in which this replica leads. The Lease is not given back while one is held.
#[derive(Debug)]
pub struct Term {
    lost: CancellationToken,
    _work: TaskTrackerToken,
}

impl Term {
    /// Cancelled when the Lease is lost or the process stops, before anybody else can lead.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }
}

impl Leadership {
    /// Leads until `stop`, whoever else does: for a shadow, which writes nothing, and for tests.
    pub fn always(stop: &CancellationToken) -> Self {
        // Far enough to never come, near enough to add to.
        let until = Instant::now() + Duration::from_secs(30 * 365 * 86_400);
        let sender = watch::Sender::new(Some(Reign { until, lost: stop.child_token() }));
        Self { reign: sender.subscribe(), work: TaskTracker::new(), _keep: Some(Arc::new(sender)) }
    }

    pub fn is_leader(&self) -> bool {
        self.until_lost().is_some()
    }

    /// Resolves with the new state when leadership was gained or lost.
    pub async fn changed(&mut self) -> bool {
        let before = self.is_leader();
        loop {
            let lost = self.until_lost().unwrap_or_default();
            tokio::select! {
                changed = self.reign.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = lost.cancelled() => {}
            }
            if self.is_leader() != before {
                return !before;
            }
            // A cancelled token stays so; only the channel can bring news now.
            if lost.is_cancelled() && self.reign.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The token of the present term; `None` for a follower.
    pub fn until_lost(&self) -> Option<CancellationToken> {
        // Looked at once: a second look while the first is held waits for a writer that waits for the first.
        let reign = self.reign.borrow();
        let holds = |reign: &&Reign| Instant::now() < reign.until && !reign.lost.is_cancelled();
        reign.as_ref().filter(holds).map(|reign| reign.lost.clone())
    }

    /// The present term; `None` for a follower.
    pub fn held(&self) -> Option<Term> {
        let work = self.work.token();
        self.until_lost().map(|lost| Term { lost, _work: work })
    }

    /// Waits until this replica leads.
    pub async fn term(&mut self) -> Term {
        loop {
            if let Some(term) = self.held() {
                return term;
            }
            if self.reign.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Runs `work` during every term of this replica, one after the other. `work` must end soon after its token is
    /// cancelled.
    pub async fn lead<F, W>(mut self, stop: CancellationToken, mut work: F) -> anyhow::Result<()>
    where
        F: FnMut(CancellationToken) -> W,
        W: Future<Output = anyhow::Result<()>>,
    {
        loop {
            let term = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                term = self.term() => term,
            };
            work(term.lost()).await?;
            // Work that ended early is not started again within the same term.
            tokio::select! {
                () = term.lost.cancelled() => {}
                () = stop.cancelled() => return Ok(()),
            }
        }
    }
}

/// The task that reads and writes the Lease.
pub struct Elector {
    leases: Api<Lease>,
    name: String,
    me: String,
    timing: Timing,
    election: Election,
    /// The object as last read or written: what the next write replaces.
    latest: Option<Lease>,
    reign: watch::Sender<Option<Reign>>,
    work: TaskTracker,
    zero: Instant,
    metrics: Metrics,
    reference: Option<Reference>,
}

impl Elector {
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        me: &str,
        timing: Timing,
        metrics: Metrics,
    ) -> (Self, Leadership) {
        let (reign, seen) = watch::channel(None);
        let work = TaskTracker::new();
        work.close();
        let leadership = Leadership { reign: seen, work: work.clone(), _keep: None };
        let elector = Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            me: me.to_owned(),
            timing,
            election: Election::new(me, timing),
            latest: None,
            reign,
            work,
            zero: Instant::now(),
            metrics,
            reference: None,
        };
        (elector, leadership)
    }

    /// Does not lead while Karpenter itself does, and says so in `note`.
    #[must_use]
    pub fn after_karpenter(mut self, note: Note) -> Self {
        self.reference = Some(Reference::new(note, self.timing));
        self
    }

    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        self.publish();
        let mut complained = false;
        loop {
            let limit = (Instant::now() + CALL_TIMEOUT).min(self.reigns_until().unwrap_or_else(far));
            let attempt = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                attempt = timeout_at(limit, self.attempt()) => attempt,
            };
            match attempt {
                Ok(Ok(())) => complained = false,
                Ok(Err(error)) => {
                    // The next attempt reads the Lease anew.
                    self.latest = None;
                    if !is_conflict(&error) && !std::mem::replace(&mut complained, true) {
                        warn!(
                            lease = self.name,
                            error = chain(&error),
                            "cannot read or write the lease, trying again"
                        );
                    } else {
                        debug!(lease = self.name, error = chain(&error), "lease not written");
                    }
                }
                Err(_) => {
                    self.latest = None;
                    debug!(lease = self.name, "no answer about the lease in time");
                }
            }
            self.publish();
            let next = Instant::now() + jittered(self.timing.retry);
            loop {
                let wake = next.min(self.reigns_until().unwrap_or_else(far));
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = sleep_until(wake) => self.publish(),
                }
                if wake == next {
                    break;
                }
            }
        }
        self.hand_over().await;
        Ok(())
    }

    fn now(&self) -> Duration {
        self.zero.elapsed()
    }

    fn reigns_until(&self) -> Option<Instant> {
        let until = self.zero + self.election.leads_until()?;
        (Instant::now() < until).then_some(until)
    }

    async fn attempt(&mut self) -> kube::Result<()> {
        let now = self.now();
        if let Some(reference) = &mut self.reference
            && reference.leads(&self.leases, now).await?
        {
            self.election.resign();
            return Ok(());
        }
        // A leader's last write is what it would read, unless somebody meddled, and then its next write is refused.
        let lease = match (self.election.leads(self.now()), self.latest.take()) {
            (true, Some(lease)) => Some(lease),
            _ => self.leases.get_opt(&self.name).await?,
        };
        let decision = self.election.decide(self.now(), lease.as_ref().map(seen).as_ref());
        let began = self.now();
        let written = match (decision, lease) {
            (Move::Wait, _) => return Ok(()),
            (Move::Create, _) | (_, None) => {
                self.leases.create(&PostParams::default(), &self.claimed(None, true)).await?
            }
            (Move::Write { taking }, Some(lease)) => {
                let claimed = self.claimed(Some(lease), taking);
                self.leases.replace(&self.name, &PostParams::default(), &claimed).await?
            }
        };
        self.latest = Some(written);
        self.election.written(began);
        Ok(())
    }

    fn claimed(&self, from: Option<Lease>, taking: bool) -> Lease {
        let now = MicroTime(jiff::Timestamp::now());
        let mut lease = from.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if taking {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |count| count.saturating_add(1)));
        }
        spec.holder_identity = Some(self.me.clone());
        spec.lease_duration_seconds = i32::try_from(self.timing.lease_duration.as_secs()).ok();
        spec.renew_time = Some(now);
        lease
    }

    /// Makes the outside agree with the election. A term's token is cancelled here, and nowhere else.
    fn publish(&mut self) {
        let until = self.reigns_until();
        let (name, me) = (&self.name, &self.me);
        self.reign.send_if_modified(|reign| match (reign.as_mut(), until) {
            (Some(reign), Some(until)) => {
                reign.until = until;
                false
            }
            (None, Some(until)) => {
                info!(lease = name, replica = me, "leading");
                *reign = Some(Reign { until, lost: CancellationToken::new() });
                true
            }
            (Some(lost), None) => {
                warn!(lease = name, replica = me, "lost the lease, following");
                lost.lost.cancel();
                *reign = None;
                true
            }
            (None, None) => false,
        });
        self.metrics.leader.get_or_create(&Name { name: name.clone() }).set(i64::from(until.is_some()));
    }

    async fn hand_over(mut self) {
        let Some(reign) = self.reign.send_replace(None) else { return };
        reign.lost.cancel();
        if tokio::time::timeout(HAND_OVER, self.work.wait()).await.is_err() {
            warn!(lease = self.name, "leader's work did not end in time, the lease is left to expire");
            return;
        }
        let held = match self.latest.take() {
            Some(lease) => Some(lease),
            None => self.leases.get_opt(&self.name).await.ok().flatten(),
        };
        let Some(mut lease) = held.filter(|lease| seen(lease).holder == self.me) else { return };
        self.election.resign();
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(String::new());
        // client-go shortens a lease that it gives back; a reader that only looks at times takes it over at once too.
        spec.lease_duration_seconds = Some(1);
        let params = PostParams::default();
        let release = self.leases.replace(&self.name, &params, &lease);
        match tokio::time::timeout(CALL_TIMEOUT, release).await {
            Ok(Ok(_)) => info!(lease = self.name, "gave the lease back"),
            Ok(Err(error)) => {
                warn!(
                    lease = self.name,
                    error = chain(&error),
                    "could not give the lease back, it will expire"
                )
            }
            Err(_) => warn!(lease = self.name, "could not give the lease back in time, it will expire"),
        }
    }
}

fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.clone().unwrap_or_default();
    Seen {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        duration: Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0)),
    }
}

/// Somebody else wrote first: the normal way to lose a race.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}

/// Up to a fifth longer, so that followers do not all come at once.
fn jittered(base: Duration) -> Duration {
    let mut byte = [0];
    let _ = aws_lc_rs::rand::fill(&mut byte);
    base + base.mul_f64(f64::from(byte[0]) / 256.0 / 5.0)
}

#[cfg(test)]
mod tests;

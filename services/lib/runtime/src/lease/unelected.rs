//! Leadership without an election: where only one replica runs, or where all write the same. It ends only while Karpenter
//! itself leads.

use tokio::sync::watch;

use super::{
    Api, CALL_TIMEOUT, CancellationToken, Client, Duration, Instant, Leadership, Lease, Reign, TaskTracker,
    Timing, chain, debug, jittered, reference::Reference, timeout_at, warn,
};
use crate::readiness::Note;

/// Far enough to never come, near enough to add to.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The task that looks at Karpenter's Lease.
pub struct Unelected {
    leases: Api<Lease>,
    reference: Reference,
    retry: Duration,
    zero: Instant,
    reign: watch::Sender<Option<Reign>>,
}

impl Unelected {
    pub fn new(client: Client, namespace: &str, timing: Timing, note: Note) -> (Self, Leadership) {
        let (reign, seen) = watch::channel(None);
        let unelected = Self {
            leases: Api::namespaced(client, namespace),
            reference: Reference::new(note, timing),
            retry: timing.retry,
            zero: Instant::now(),
            reign,
        };
        (unelected, Leadership { reign: seen, work: TaskTracker::new(), _keep: None })
    }

    /// What was seen last holds while the API server is away: nothing can be written then.
    pub async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut complained = false;
        loop {
            let looked = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                looked = timeout_at(
                    Instant::now() + CALL_TIMEOUT,
                    self.reference.leads(&self.leases, self.zero.elapsed()),
                ) => looked,
            };
            let failure = match looked {
                Ok(Ok(karpenter_leads)) => {
                    complained = false;
                    self.publish(!karpenter_leads, &stop);
                    None
                }
                Ok(Err(error)) => Some(chain(&error)),
                Err(_) => Some("no answer in time".to_owned()),
            };
            if let Some(error) = failure {
                match std::mem::replace(&mut complained, true) {
                    false => warn!(error, "cannot see whether Karpenter itself leads, trying again"),
                    true => debug!(error, "still cannot see whether Karpenter itself leads"),
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(jittered(self.retry)) => {}
            }
        }
    }

    fn publish(&self, leads: bool, stop: &CancellationToken) {
        self.reign.send_if_modified(|reign| match (reign.is_some(), leads) {
            (false, true) => {
                *reign = Some(Reign { until: Instant::now() + FOR_EVER, lost: stop.child_token() });
                true
            }
            (true, false) => {
                reign.take().into_iter().for_each(|reign| reign.lost.cancel());
                true
            }
            _ => false,
        });
    }
}

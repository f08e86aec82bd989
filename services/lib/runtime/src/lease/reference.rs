//! Karpenter itself, on whose Lease its one leader writes. While that is alive, two controllers would launch and remove the same
//! nodes, so no replica of ours leads.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tracing::warn;

use super::{Election, Move, Timing, seen};
use crate::readiness::Note;

/// The name that Karpenter gives it where nobody changed `LEADER_ELECTION_NAME`.
pub(crate) const LEASE: &str = "karpenter-leader-election";
/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);
/// A Lease that was not renewed for this long belongs to nobody, however wrong this machine's clock is. A younger one is
/// followed for as long as it lasts.
const ABANDONED: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

pub(super) struct Reference {
    note: Note,
    /// Judges the Lease as a candidate for it would.
    election: Election,
    looked: Option<Duration>,
    leads: bool,
}

impl Reference {
    pub(super) fn new(note: Note, timing: Timing) -> Self {
        // No replica has this name.
        Self { note, election: Election::new("<none>", timing), looked: None, leads: false }
    }

    /// Whether Karpenter leads, or may be leading.
    pub(super) async fn leads(&mut self, leases: &Api<Lease>, now: Duration) -> kube::Result<bool> {
        if self.looked.is_some_and(|at| now < at + LOOK) && !self.leads {
            return Ok(false);
        }
        let lease = match leases.get_opt(LEASE).await {
            // An installation whose rights are older than this program: it goes on as before.
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            lease => lease?,
        };
        self.looked = Some(now);
        let lease = lease.filter(|lease| !is_abandoned(lease));
        let holder = lease.as_ref().map(|lease| seen(lease).holder).unwrap_or_default();
        let leads = self.election.decide(now, lease.as_ref().map(seen).as_ref()) == Move::Wait;
        if leads && !self.leads {
            warn!(lease = LEASE, holder, "Karpenter itself leads here; nothing is written until it is gone");
            self.note.set(&format!(
                "Karpenter itself leads here (Lease {LEASE}, held by {holder}), so this service writes nothing; scale its \
                 Deployment to 0"
            ));
        } else if self.leads && !leads {
            self.note.clear();
        }
        self.leads = leads;
        Ok(leads)
    }
}

fn is_abandoned(lease: &Lease) -> bool {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let age = renewed.map(|at| jiff::Timestamp::now().duration_since(at.0));
    age.is_none_or(|age| age > ABANDONED)
}

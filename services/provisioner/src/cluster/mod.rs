//! The cluster as this replica sees it: one actor takes in every watch and publishes immutable views. Only this actor knows
//! Kubernetes objects of pods and nodes; everything else reads views.
//!
//! ```text
//!  watches ──► state (pods, nodes + claims, pools, …) ──► changes ──► solver snapshot ──► ClusterView
//!  catalog ──►   │ nominations: claims and the pods they were made for
//!                └──► triggers: pods that wait ──► batch
//! ```

mod actor;
mod assumed;
mod backoff;
mod buffers;
mod excerpt;
mod exclusive;
mod in_flight;
mod input;
mod launches;
mod nodes;
mod nominations;
mod pod_rows;
mod pods;
mod pools;
mod refusals;
mod removal_facts;
mod snapshot_place;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod time;
mod view;

use std::sync::Arc;
use std::time::Duration;

use api::NodeClaim;
use jiff::{SignedDuration, Timestamp};
use runtime::watch::Change;
use runtime::{Settings, Shell};
use tokio::sync::{mpsc, oneshot, watch};

use crate::batch::Trigger;
use crate::catalog::CatalogHandle;
use crate::metrics::Metrics;
use crate::observe::PodMetrics;
use actor::Actor;
pub(crate) use actor::Message;
pub(crate) use backoff::{Backoff, LaunchShape, Probes};
pub(crate) use nominations::written as nomination_text;
pub(crate) use pod_rows::PodRow;
use pods::Pods;
pub(crate) use pools::usable as usable_pools;
pub(crate) use removal_facts::RemovalFacts;
use state::State;
#[cfg(test)]
pub(crate) use view::{Burden, Daemons};
pub(crate) use view::{ClusterView, NodeView, PendingPod, PodFacts, PoolUsage};

const MAILBOX: usize = 1024;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClusterHandle {
    latest: watch::Receiver<Arc<ClusterView>>,
    inbox: mpsc::Sender<Message>,
}

/// A watch is behind the API server by less, unless something is wrong with it.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Twice the longest batch, at least ten seconds.
pub(crate) fn nomination_window(settings: &Settings) -> SignedDuration {
    let twice = SignedDuration::try_from(settings.batch_max_duration * 2).unwrap_or(SignedDuration::MAX);
    twice.max(SignedDuration::from_secs(10))
}

/// Feeds the actor; every kind that [`Message`] knows must be watched.
pub(crate) type Inbox = mpsc::Sender<Message>;

/// Starts the actor that takes in all watches.
pub(crate) fn spawn(
    shell: &mut Shell,
    settings: &Settings,
    catalog: &CatalogHandle,
    triggers: mpsc::Sender<Trigger>,
    metrics: Metrics,
    pods: PodMetrics,
) -> (ClusterHandle, Inbox) {
    let (inbox, messages) = mpsc::channel(MAILBOX);
    let (sender, latest) = watch::channel(Arc::new(ClusterView::empty()));
    let actor = Actor {
        inbox: messages,
        latest: sender,
        offers: catalog.subscribe(),
        triggers,
        metrics,
        state: State { window: nomination_window(settings), pods: Pods::new(pods), ..State::default() },
        listed: 0,
        unsynced_since: Timestamp::now(),
    };
    let stop = shell.stop();
    shell.process.spawn("cluster", actor.run(stop));
    (ClusterHandle { latest, inbox: inbox.clone() }, inbox)
}

impl ClusterHandle {
    /// What was published last; at most about a second behind the watches.
    pub(crate) fn latest(&self) -> Arc<ClusterView> {
        Arc::clone(&self.latest.borrow())
    }

    /// Follows every published view.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<ClusterView>> {
        self.latest.clone()
    }

    /// A view with everything in it that has come in so far.
    pub(crate) async fn fresh(&self) -> Arc<ClusterView> {
        let (reply, answer) = oneshot::channel();
        if self.inbox.send(Message::Fresh(reply)).await.is_ok()
            && let Ok(view) = answer.await
        {
            return view;
        }
        // The actor is gone, and the process is ending.
        self.latest()
    }

    /// A fresh view that has the NodeClaims in this version at least; `None` where the watch does not show it in time.
    pub(crate) async fn with_claims(&self, version: u64) -> Option<Arc<ClusterView>> {
        let view = self.fresh().await;
        if view.claims_version >= version {
            return Some(view);
        }
        let mut views = self.latest.clone();
        let shown = views.wait_for(|view| view.claims_version >= version);
        let shown = tokio::time::timeout(CATCH_UP, shown).await.ok()?.ok()?;
        Some(Arc::clone(&shown))
    }

    /// Claims that were just created, or may have been (they have no UID), count from now on, also before a watch shows them.
    pub(crate) async fn assume(&self, claims: Vec<Arc<NodeClaim>>) {
        let (done, taken) = oneshot::channel();
        if self.inbox.send(Message::Assume(claims, done)).await.is_ok() {
            let _ = taken.await;
        }
    }

    /// Claims that were created, and no watch has shown in time.
    pub(crate) async fn overdue_claims(&self) -> Vec<Arc<str>> {
        let (reply, answer) = oneshot::channel();
        let _ = self.inbox.send(Message::OverdueClaims(reply)).await;
        answer.await.unwrap_or_default()
    }

    /// What a lookup of an overdue claim found.
    pub(crate) async fn looked_up(&self, name: Arc<str>, found: Option<Arc<NodeClaim>>) {
        let message = match found {
            Some(claim) => Message::Claim(Change::Applied(claim)),
            None => Message::ClaimAbsent(name),
        };
        let _ = self.inbox.send(message).await;
    }

    /// Pods were sent to these nodes (names as in views): nobody should take them away before `until`.
    pub(crate) async fn nominate(&self, nodes: Vec<Arc<str>>, until: Timestamp) {
        let _ = self.inbox.send(Message::Nominate { nodes, until }).await;
    }

    /// What holds nodes where they are. `None` when the process is ending.
    pub(crate) async fn holding(&self) -> Option<RemovalFacts> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::RemovalFacts(reply)).await.ok()?;
        answer.await.ok()
    }

    /// What is known of a pod.
    pub(crate) async fn pod(&self, namespace: &str, name: &str) -> Option<PodFacts> {
        let (reply, answer) = oneshot::channel();
        let message = Message::AboutPod { namespace: namespace.to_owned(), name: name.to_owned(), reply };
        self.inbox.send(message).await.ok()?;
        answer.await.ok().flatten()
    }
}

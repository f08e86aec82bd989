//! The life of a NodeClaim from creation to a Node that takes pods: launch, registration, initialization, and giving up on
//! what takes too long. It creates no claims, and a claim that is being deleted is termination's.
//!
//! ```text
//!  watches ─► actor (index, queue) ─► decision (pure) ─► execution ─► API server, launch, tags
//!                  ▲                                    │
//!                  └──────────── what was written ──────┘
//! ```
//!
//! Everything is read from the objects: a process that is killed at any instant and started again goes on where it was.

mod actor;
mod decision;
mod execution;
mod index;
mod metrics;
mod queue;
mod records;
mod tagging;
mod write;

use kube::Api;
use runtime::Shell;
use tokio::sync::mpsc;

use crate::deps::Deps;
use crate::launch::Launch;
use crate::nodepool::HealthHandle;

pub(crate) use actor::Message;
#[cfg(test)]
pub(crate) use decision::launch_backoff;
pub(crate) use index::is_older;
pub(crate) use records::Claims;

/// Watch events waiting to be taken in.
const INBOX: usize = 256;

/// Feeds the actor: an index of NodeClaims, Nodes and EC2NodeClasses. All three must be watched.
pub(crate) type Inbox = mpsc::Sender<Message>;

/// Starts following claims. Nothing is done before every kind was listed once and this replica leads.
pub(crate) fn spawn(shell: &mut Shell, deps: &Deps, launch: Launch, health: HealthHandle) -> Inbox {
    let (sender, inbox) = mpsc::channel(INBOX);
    let writer = write::Writer::new(deps.kube.clone());
    let cluster = deps.settings.cluster_name.clone();
    let (tagger, tags) =
        tagging::Tagger::new(deps.launcher.clone(), writer.clone(), deps.leadership.clone(), cluster);
    let executor = execution::Executor {
        writer,
        classes: Api::all(deps.kube.clone()),
        launch,
        launcher: deps.launcher.clone(),
        catalog: deps.catalog.clone(),
        cluster: deps.cluster.clone(),
        recorder: deps.recorder.clone(),
        metrics: metrics::LifecycleMetrics::new(&deps.metrics, deps.calls.clone()),
        health,
        tags,
    };
    let stop = shell.stop();
    let actor = actor::Actor::new(inbox, executor).run(deps.leadership.clone(), stop.clone());
    shell.process.spawn("lifecycle", actor);
    shell.process.spawn("tagging", tagger.run(stop));
    sender
}

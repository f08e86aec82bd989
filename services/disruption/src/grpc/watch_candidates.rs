//! Candidates as a stream. The actor makes the list from the whole cluster, so it is made once for all who watch and at most
//! every few seconds; each watcher is told what differs from what it was told before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use proto::disruption::v1 as pb;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tonic::Status;

use super::{budgets, candidate};
use crate::actor::{Disruptions, Report, Silent};

const AT_MOST_EVERY: Duration = Duration::from_secs(5);

/// The candidates as they were at one moment.
struct Listed {
    /// Of the actor's changes: those up to this one are in it.
    version: u64,
    at: Instant,
    /// By name.
    nodes: BTreeMap<String, pb::Candidate>,
    budgets: Vec<pb::BudgetState>,
}

impl Listed {
    fn of(report: &Report, version: u64) -> Self {
        let nodes = report.nodes.iter().map(|node| (node.node.name.to_string(), candidate(node)));
        Self { version, at: Instant::now(), nodes: nodes.collect(), budgets: budgets(report).collect() }
    }
}

/// The newest list, shared by all who watch.
pub(super) struct Listing {
    disruptions: Disruptions,
    newest: Mutex<Option<Arc<Listed>>>,
}

impl Listing {
    pub(super) fn new(disruptions: Disruptions) -> Self {
        Self { disruptions, newest: Mutex::default() }
    }

    /// A list that is not older than a new one could be.
    async fn recent(&self) -> Result<Arc<Listed>, Silent> {
        let mut newest = self.newest.lock().await;
        match &*newest {
            Some(listed) if listed.at.elapsed() < AT_MOST_EVERY => Ok(Arc::clone(listed)),
            _ => self.make(&mut newest).await,
        }
    }

    /// A list with the changes up to this one. The first watcher who wants it waits until it may be made, the others for the
    /// first; when that one leaves meanwhile, the next takes its place.
    async fn with(&self, version: u64) -> Result<Arc<Listed>, Silent> {
        let mut newest = self.newest.lock().await;
        if let Some(listed) = &*newest {
            if listed.version >= version {
                return Ok(Arc::clone(listed));
            }
            tokio::time::sleep_until(listed.at + AT_MOST_EVERY).await;
        }
        self.make(&mut newest).await
    }

    async fn make(&self, newest: &mut Option<Arc<Listed>>) -> Result<Arc<Listed>, Silent> {
        // Before the question: what changes meanwhile is told next time.
        let version = *self.disruptions.node_changes().borrow();
        let listed = Arc::new(Listed::of(&self.disruptions.report().await?, version));
        *newest = Some(Arc::clone(&listed));
        Ok(listed)
    }
}

/// One who watches.
pub(super) struct Watcher {
    listing: Arc<Listing>,
    changes: watch::Receiver<u64>,
    pool: String,
    told: Option<Arc<Listed>>,
}

impl Watcher {
    /// An empty `pool` means all.
    pub(super) fn new(listing: &Arc<Listing>, pool: String) -> Self {
        let changes = listing.disruptions.node_changes();
        Self { listing: Arc::clone(listing), changes, pool, told: None }
    }

    pub(super) fn stream(self) -> impl Stream<Item = Result<pb::WatchCandidatesResponse, Status>> + Send {
        futures::stream::unfold(self, |mut watcher| async move {
            let told = watcher.next().await?;
            Some((Ok(told), watcher))
        })
    }

    /// `None` when the process ends.
    async fn next(&mut self) -> Option<pb::WatchCandidatesResponse> {
        loop {
            let listed = match self.told.as_ref().map(|told| told.version) {
                None => self.listing.recent().await,
                Some(told) => {
                    let version = *self.changes.wait_for(|version| *version > told).await.ok()?;
                    self.listing.with(version).await
                }
            };
            let listed = match listed {
                Ok(listed) => listed,
                Err(Silent::Stopping) => return None,
                Err(Silent::NotSynced) => {
                    self.changes.changed().await.ok()?;
                    continue;
                }
            };
            let difference = difference(self.told.as_deref(), &listed, &self.pool);
            self.told = Some(listed);
            if difference.is_some() {
                return difference;
            }
        }
    }
}

/// Everything for somebody who was told nothing yet; `None` where nothing is different.
fn difference(told: Option<&Listed>, now: &Listed, pool: &str) -> Option<pb::WatchCandidatesResponse> {
    let wanted = |name: &str| pool.is_empty() || pool == name;
    let before = |name: &str| told.and_then(|told| told.nodes.get(name));
    let is_gone = |(name, candidate): &(&String, &pb::Candidate)| {
        wanted(&candidate.node_pool) && !now.nodes.get(*name).is_some_and(|now| wanted(&now.node_pool))
    };
    let candidates: Vec<pb::Candidate> = now
        .nodes
        .iter()
        .filter(|(name, candidate)| wanted(&candidate.node_pool) && before(name) != Some(*candidate))
        .map(|(_, candidate)| candidate.clone())
        .collect();
    let removed_nodes: Vec<String> =
        told.iter().flat_map(|told| &told.nodes).filter(is_gone).map(|(name, _)| name.clone()).collect();
    let of = |listed: &Listed| -> Vec<pb::BudgetState> {
        listed.budgets.iter().filter(|budget| wanted(&budget.node_pool)).cloned().collect()
    };
    let budgets = of(now);
    let same =
        candidates.is_empty() && removed_nodes.is_empty() && told.is_some_and(|told| of(told) == budgets);
    (!same).then_some(pb::WatchCandidatesResponse {
        full: told.is_none(),
        candidates,
        removed_nodes,
        budgets,
    })
}

#[cfg(test)]
mod tests;

//! One decision under way, and deciding ahead: when pods have stopped coming but their window is still open, the decision is
//! prepared for the cluster as it is then. If nothing changes until the window closes, it is the decision; otherwise it is
//! thrown away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use solver::Options;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::plan_check::{CheckedPlan, PlanCheck};
use super::zones;
use crate::cluster::ClusterView;

/// The longest that one decision may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest that its check may take; a thousand new nodes take a tenth of a second.
const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// A decision under way, or made already.
pub(super) struct Solving {
    /// Of the view that it is about.
    version: u64,
    /// Made before its window was closed.
    pub(super) is_ahead: bool,
    _wanted: DropGuard,
    solved: JoinHandle<Solved>,
}

/// A decision.
pub(super) struct Solved {
    pub(super) vetted: CheckedPlan,
    /// Pods by the zone that they can only run in.
    pub(super) zones: BTreeMap<String, usize>,
    /// What the second opinion took.
    pub(super) checked_in: Duration,
}

impl Solving {
    /// Runs on the pool for computing until it is done, unwanted, or `lost`.
    pub(super) fn start(view: &Arc<ClusterView>, options: Options, lost: &CancellationToken) -> Self {
        let unwanted = CancellationToken::new();
        let (version, view, lost, no_more) = (view.version, Arc::clone(view), lost.clone(), unwanted.clone());
        let solve = move || {
            let deadline = Instant::now() + LIMIT;
            let is_wanted = || !lost.is_cancelled() && !no_more.is_cancelled();
            let plan = solver::solve(&view.snapshot, &options, &|| Instant::now() < deadline && is_wanted());
            let began = Instant::now();
            let vet = PlanCheck {
                input: |plan: &solver::Plan| view.input_for(plan),
                snapshot: &view.snapshot,
                options: &options,
                keep_going: &|| began.elapsed() < CHECK_LIMIT && is_wanted(),
            };
            let vetted = vet.vetted(plan);
            let checked_in = began.elapsed();
            Solved { vetted, zones: zones::of(&view), checked_in }
        };
        Self {
            version,
            is_ahead: false,
            _wanted: unwanted.drop_guard(),
            solved: tokio::task::spawn_blocking(solve),
        }
    }

    /// The same, known to be made before its window is closed.
    pub(super) fn ahead(mut self) -> Self {
        self.is_ahead = true;
        self
    }

    pub(super) fn is_about(&self, view: &ClusterView) -> bool {
        self.version == view.version
    }

    pub(super) async fn solved(mut self) -> anyhow::Result<Solved> {
        Ok((&mut self.solved).await?)
    }
}

//! Solving ahead: when pods have stopped coming but their window is still open, the decision is prepared for the cluster as it
//! is then. If nothing changes until the window closes, it is the decision; otherwise it is thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use solver::{Options, Plan};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cluster::ClusterView;

/// The longest that one decision may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A decision under way, or made already.
pub(super) struct Solving {
    /// Of the view that it is about.
    version: u64,
    not_wanted: Arc<AtomicBool>,
    plan: JoinHandle<Plan>,
}

impl Solving {
    /// Runs on the pool for computing until it is done, unwanted, or `lost`.
    pub(super) fn start(view: &Arc<ClusterView>, options: Options, lost: &CancellationToken) -> Self {
        let not_wanted = Arc::new(AtomicBool::new(false));
        let (version, view, lost, unwanted) =
            (view.version, Arc::clone(view), lost.clone(), Arc::clone(&not_wanted));
        let solve = move || {
            let deadline = Instant::now() + LIMIT;
            solver::solve(&view.snapshot, &options, &|| {
                Instant::now() < deadline && !lost.is_cancelled() && !unwanted.load(Ordering::Relaxed)
            })
        };
        Self { version, not_wanted, plan: tokio::task::spawn_blocking(solve) }
    }

    pub(super) fn is_about(&self, view: &ClusterView) -> bool {
        self.version == view.version
    }

    pub(super) async fn plan(mut self) -> anyhow::Result<Plan> {
        Ok((&mut self.plan).await?)
    }
}

impl Drop for Solving {
    fn drop(&mut self) {
        self.not_wanted.store(true, Ordering::Relaxed);
    }
}

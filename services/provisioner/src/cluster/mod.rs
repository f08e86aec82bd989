//! The cluster as this replica sees it: one actor takes in every watch and publishes immutable views. Only this actor knows
//! Kubernetes objects of pods and nodes; everything else reads views.

mod view;

use std::sync::Arc;

use tokio::sync::watch;

pub(crate) use view::{ClusterView, NodeView, PoolUsage};

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct ClusterHandle {
    latest: watch::Receiver<Arc<ClusterView>>,
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

    /// For tests of other parts: a handle that always shows `view`.
    #[cfg(test)]
    pub(crate) fn fixed(view: ClusterView) -> Self {
        let (sender, latest) = watch::channel(Arc::new(view));
        std::mem::forget(sender);
        Self { latest }
    }
}

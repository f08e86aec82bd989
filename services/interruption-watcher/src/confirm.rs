//! Whether EC2 itself says that an instance ends. A message is the word of everybody who may write to the queue: it drains a
//! node within its PodDisruptionBudgets. Only EC2's own word lets a drain pass them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloud::HealthSource;

/// An interruption leaves two minutes: the drain does not wait longer for the answer.
const LONGEST: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Confirmations(pub(crate) Arc<dyn HealthSource>);

impl Confirmations {
    /// Those of the instances that EC2 says end; none while it does not answer.
    pub(crate) async fn ending(&self, ids: Vec<String>) -> BTreeSet<String> {
        if ids.is_empty() {
            return BTreeSet::new();
        }
        match tokio::time::timeout(LONGEST, self.0.ending(ids)).await {
            Ok(Ok(ending)) => ending,
            Ok(Err(error)) => {
                tracing::warn!(%error, "EC2 did not confirm an interruption: budgets are respected");
                BTreeSet::new()
            }
            Err(_) => {
                tracing::warn!("EC2 did not answer within {LONGEST:?}: budgets are respected");
                BTreeSet::new()
            }
        }
    }
}

//! What people watch on their boards: conditions of our objects, nodes, pods and pools as gauges and histograms, with the
//! reference's names and labels. It decides nothing. Gauges are computed when somebody scrapes, so that they cost nothing
//! between scrapes and never show what is gone.

mod conditions;
mod gauges;
mod kinds;
mod nodes;
mod pods;
mod pools;

use runtime::Shell;

use crate::deps::Deps;
pub(crate) use gauges::resource_type;
pub(crate) use kinds::Conditions;
pub(crate) use pods::{PodMetrics, Times, limits};

/// Registers everything; what is returned must be fed by the watches.
pub(crate) fn spawn(shell: &Shell, deps: &Deps) -> Conditions {
    if !deps.settings.disable_cluster_state_observability {
        shell.metrics.register_collector(nodes::Nodes::new(deps.cluster.clone(), deps.leadership.clone()));
        shell.metrics.register_collector(pools::Pools::new(deps.cluster.clone(), deps.leadership.clone()));
        shell.metrics.register_collector(pods::Pods::new(deps.cluster.clone(), deps.leadership.clone()));
    }
    Conditions::new(
        &shell.metrics,
        deps.leadership.clone(),
        !deps.settings.disable_cluster_state_observability,
    )
}

//! What a NodePool says about disruption, as `policy` reads it.

use api::disruption::Budget;
use api::nodepool::NodePool;
use policy::budget::Spec;
use policy::churn;

/// Its budgets as written.
pub fn budget_specs(pool: &NodePool) -> Vec<Spec> {
    let spec = |budget: &Budget| Spec {
        nodes: budget.nodes.clone(),
        reasons: budget
            .reasons
            .as_ref()
            .map(|reasons| reasons.iter().filter_map(|reason| reason.as_str().parse().ok()).collect()),
        schedule: budget.schedule.clone(),
        duration: budget.duration.clone(),
    };
    pool.spec.disruption.budgets.iter().map(spec).collect()
}

/// Its settings against churn.
pub fn churn_settings(pool: &NodePool) -> churn::Settings {
    let annotations = pool.metadata.annotations.as_ref();
    churn::Settings::read(|key| annotations.and_then(|all| all.get(key)).map(String::as_str))
}

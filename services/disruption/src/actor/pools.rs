//! What a NodePool says that cannot be read, told where its owner looks: a budget that nobody can evaluate allows nothing, and a
//! setting against churn that nobody can read stops consolidation of the pool.

use std::sync::Arc;

use api::NodePool;
use api::conditions::{self, ConditionStatus, Finding};
use jiff::Timestamp;
use policy::budget::Budgets;
use tracing::warn;

use super::{Actor, Done};
use crate::world::{Fact, applied};
use crate::writes::{Error, Target};

/// Condition of a NodePool: False while part of what it says about disruption cannot be read, absent otherwise.
pub(crate) const SETTINGS_VALID: &str = "DisruptionSettingsValid";

impl Actor {
    pub(super) fn mark_pools(&mut self, now: Timestamp) {
        let pools: Vec<(Arc<str>, Arc<NodePool>)> =
            self.world.pools().map(|(name, pool)| (Arc::clone(name), Arc::clone(pool))).collect();
        for (name, pool) in pools {
            let wanted = problem(&pool);
            if self.marking_pools.contains(&name) || is_told(&pool, wanted.as_ref()) {
                continue;
            }
            let Some(uid) = pool.metadata.uid.clone() else { continue };
            self.marking_pools.insert(Arc::clone(&name));
            let writes = self.writes.clone();
            let wanted = wanted.map(|(reason, message)| Finding::fails(reason, message));
            self.tasks.spawn(async move {
                let target = Target { name: &name, uid: &uid };
                let result = writes.mark_pool(target, (SETTINGS_VALID, wanted), now).await;
                Done::PoolMarked { result: result.map(applied), pool: name }
            });
        }
    }

    pub(super) fn pool_marked(&mut self, pool: &Arc<str>, result: Result<Fact, Error>) {
        self.marking_pools.remove(pool);
        match result {
            Ok(fact) => self.learn(fact),
            Err(Error::Gone) => {}
            Err(error) => warn!(nodepool = %pool, %error, "condition not written; again at the next look"),
        }
    }
}

/// Reason and message of the condition.
fn problem(pool: &NodePool) -> Option<(&'static str, String)> {
    if let Some(problem) = Budgets::read(&consolidation::budget_specs(pool)).problem() {
        return Some(("BudgetUnreadable", format!("no node is disrupted voluntarily: {problem}")));
    }
    let problem = consolidation::churn_settings(pool).problem?;
    Some(("AnnotationUnreadable", format!("no node is consolidated: {problem}")))
}

fn is_told(pool: &NodePool, wanted: Option<&(&'static str, String)>) -> bool {
    let all = pool.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    match (conditions::find(all, SETTINGS_VALID), wanted) {
        (None, None) => true,
        (Some(told), Some((reason, message))) => {
            told.status == ConditionStatus::False && told.reason == *reason && told.message == *message
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(budget: &str, annotations: &serde_json::Value) -> NodePool {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default", "annotations": annotations},
            "spec": {
                "template": {"spec": {"requirements": [],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}},
                "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": budget}]},
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_told_and_what_can_is_not() {
        let none = serde_json::json!({});
        assert_eq!(problem(&pool("10%", &none)), None);
        let (reason, message) = problem(&pool("a tenth", &none)).unwrap();
        assert!(reason == "BudgetUnreadable" && message.contains("budgets[0]"), "{reason}: {message}");
        let annotations = serde_json::json!({model::labels::COOL_DOWN: "a while"});
        let (reason, message) = problem(&pool("10%", &annotations)).unwrap();
        assert!(reason == "AnnotationUnreadable" && message.contains("a while"), "{reason}: {message}");
    }
}

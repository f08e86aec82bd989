//! What a NodePool's owner is told on it: what cannot be read (a budget that nobody can evaluate allows nothing, and a setting
//! against churn that nobody can read stops consolidation of the pool), and that the pool was evaluated at once, as asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::NodePool;
use api::conditions::{self, Condition, ConditionStatus, Finding};
use jiff::{SignedDuration, Timestamp};
use model::labels;
use policy::budget::Budgets;
use tracing::{info, warn};

use super::{Actor, Done, plus};
use crate::cluster::{Fact, applied};
use crate::writes::{Error, Mark, Target};

/// Condition of a NodePool: False while part of what it says about disruption cannot be read, absent otherwise.
pub(crate) const SETTINGS_VALID: &str = "DisruptionSettingsValid";

/// Condition of a NodePool: True since its annotation was granted that asks for an evaluation at once, absent without it. A new leader
/// knows from it what was granted already.
pub(crate) const EVALUATED: &str = "ManualConsolidation";

/// From a person's request to evaluate a pool until its `consolidateAfter` counts again: a look, and its validation.
const EVALUATED_FOR: SignedDuration = SignedDuration::from_secs(60);

impl Actor {
    /// NodePools whose annotation asks to be evaluated at once. That lasts long enough for one look and its validation; after that,
    /// and until the annotation is taken off and set again, `consolidateAfter` counts as before.
    pub(super) fn notice_requests(&mut self, now: Timestamp) {
        let asking: BTreeSet<Arc<str>> =
            self.cluster.pools().filter(|(_, pool)| asks(pool)).map(|(name, _)| Arc::clone(name)).collect();
        self.evaluate_now.retain(|pool, _| asking.contains(pool));
        for pool in asking {
            if self.evaluate_now.contains_key(&pool) {
                continue;
            }
            info!(nodepool = %pool, "evaluated without the wait of consolidateAfter, as its annotation asks");
            self.evaluate(&pool, now);
        }
    }

    /// Those that the leader before granted.
    pub(super) fn resume_requests(&mut self) {
        let granted = self.cluster.pools().filter(|(_, pool)| asks(pool));
        let granted: Vec<(Arc<str>, Timestamp)> =
            granted.filter_map(|(name, pool)| Some((Arc::clone(name), granted_at(pool)?))).collect();
        for (pool, since) in granted {
            self.evaluate(&pool, since);
        }
    }

    fn evaluate(&mut self, pool: &Arc<str>, since: Timestamp) {
        for claim in self.cluster.claims().filter(|claim| claim.pool == *pool) {
            self.unmarked.insert(Arc::clone(&claim.name));
            self.due.at(Arc::clone(&claim.name), plus(since, EVALUATED_FOR));
        }
        self.evaluate_now.insert(Arc::clone(pool), since);
    }

    pub(super) fn is_evaluated_now(&self, pool: &str, now: Timestamp) -> bool {
        self.evaluate_now.get(pool).is_some_and(|since| now < plus(*since, EVALUATED_FOR))
    }

    pub(super) fn mark_pools(&mut self, now: Timestamp) {
        let pools: Vec<(Arc<str>, Arc<NodePool>)> =
            self.cluster.pools().map(|(name, pool)| (Arc::clone(name), Arc::clone(pool))).collect();
        for (name, pool) in pools {
            let mut marks: Vec<Mark> = Vec::new();
            let problem = problem(&pool);
            if !is_told(&pool, problem.as_ref()) {
                marks
                    .push((SETTINGS_VALID, problem.map(|(reason, message)| Finding::fails(reason, message))));
            }
            let granted = self.evaluate_now.contains_key(&name);
            if granted != granted_at(&pool).is_some() {
                marks.push((EVALUATED, granted.then(|| Finding::holds_because(EVALUATED, GRANTED))));
            }
            if marks.is_empty() || self.marking_pools.contains(&name) {
                continue;
            }
            let Some(uid) = pool.metadata.uid.clone() else { continue };
            self.marking_pools.insert(Arc::clone(&name));
            let writes = self.writes.clone();
            self.tasks.spawn(async move {
                let target = Target { name: &name, uid: &uid };
                let result = writes.mark_pool(target, &marks, now).await;
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

const GRANTED: &str = "evaluated once without the wait of consolidateAfter; take the annotation off and set it again for another time";

/// Its annotation asks for an evaluation at once.
fn asks(pool: &NodePool) -> bool {
    let annotations = pool.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(labels::EVALUATE_NOW));
    value.is_some_and(|value| value == labels::MANUAL_CONSOLIDATION)
}

fn conditions_of(pool: &NodePool) -> &[Condition] {
    pool.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// When that was granted, by whichever process.
fn granted_at(pool: &NodePool) -> Option<Timestamp> {
    let found = conditions::find(conditions_of(pool), EVALUATED)?;
    (found.status == ConditionStatus::True).then_some(found.last_transition_time.0)
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
    match (conditions::find(conditions_of(pool), SETTINGS_VALID), wanted) {
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

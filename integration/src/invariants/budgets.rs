//! No NodePool has more nodes disrupted at the same time than its budget allows.
//!
//! Judged where the answer needs no interpretation: a pool with one budget that is a number, has no schedule and names no
//! reasons. What schedules, shares and reasons mean is the business of `policy` and of its tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{NodeClaim, NodePool, conditions};
use futures::TryStreamExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};

/// Reasons that budgets limit. Expiration, repair and deletion by others do not ask them.
const LIMITED: [&str; 3] = ["Drifted", "Empty", "Underutilized"];
/// Pause before the claims are listed again when the API server is away.
const AGAIN: Duration = Duration::from_secs(1);

/// What the rule looks at, of one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    pool: String,
    is_deleting: bool,
    /// Reason for which the disruption service removes it.
    disrupted: Option<String>,
}

impl Standing {
    fn of(claim: &NodeClaim) -> Self {
        let all = claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let reason = conditions::find(all, "DisruptionReason")
            .filter(|_| conditions::is_true(all, "DisruptionReason"))
            .map(|condition| condition.reason.clone());
        Self {
            pool: claim.labels().get("karpenter.sh/nodepool").cloned().unwrap_or_default(),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
            disrupted: reason,
        }
    }
}

/// All claims as they stand.
#[derive(Debug, Default)]
struct Claims(BTreeMap<String, Standing>);

impl Claims {
    /// Takes a change over. Some, when this claim is now disrupted for a reason that budgets limit: its pool, and how many of
    /// the pool's claims are on their way out with it.
    fn change(&mut self, name: &str, now: Standing) -> Option<(String, usize)> {
        let before = self.0.insert(name.to_owned(), now.clone());
        let is_news = before.is_none_or(|before| before.disrupted.is_none() && !before.is_deleting);
        let is_limited = now.disrupted.as_deref().is_some_and(|reason| LIMITED.contains(&reason));
        (is_news && is_limited).then(|| {
            let leaving =
                |one: &&Standing| one.pool == now.pool && (one.is_deleting || one.disrupted.is_some());
            (now.pool.clone(), self.0.values().filter(leaving).count())
        })
    }
}

/// The number of nodes that the pool's only budget allows, where it is as simple as that.
fn plain_limit(pool: &NodePool) -> Option<usize> {
    let [budget] = pool.spec.disruption.budgets.as_slice() else { return None };
    let is_plain = budget.schedule.is_none() && budget.reasons.is_none();
    is_plain.then(|| budget.nodes.parse().ok()).flatten()
}

/// Violations that were seen since the last look.
pub(super) type Found = Arc<Mutex<Vec<String>>>;

/// Watches the claims of a cluster until it is dropped. An API server that goes away is waited for.
pub(super) async fn watch(client: Client, found: Found) {
    loop {
        // Only an error ends it, and what it missed cannot be judged.
        let _ended: Result<()> = follow(&client, &found).await;
        tokio::time::sleep(AGAIN).await;
    }
}

async fn follow(client: &Client, found: &Found) -> Result<()> {
    let (claims, pools): (Api<NodeClaim>, Api<NodePool>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    let listed = claims.list(&ListParams::default()).await?;
    let mut version = listed.metadata.resource_version.context("a list has a version")?;
    let mut now = Claims(listed.items.iter().map(|claim| (claim.name_any(), Standing::of(claim))).collect());
    loop {
        let mut stream = std::pin::pin!(claims.watch(&WatchParams::default(), &version).await?);
        while let Some(event) = stream.try_next().await? {
            let claim = match event {
                WatchEvent::Added(claim) | WatchEvent::Modified(claim) => {
                    if let Some((pool, leaving)) = now.change(&claim.name_any(), Standing::of(&claim)) {
                        let limit = pools.get_opt(&pool).await?.as_ref().and_then(plain_limit);
                        if let Some(limit) = limit.filter(|limit| leaving > *limit) {
                            let text = format!(
                                "NodePool {pool}: {leaving} nodes disrupted at once, its budget allows {limit}"
                            );
                            found.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                        }
                    }
                    claim
                }
                WatchEvent::Deleted(claim) => {
                    now.0.remove(&claim.name_any());
                    claim
                }
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => bail!("{error:?}"),
            };
            version = claim.resource_version().context("a version")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(is_deleting: bool, disrupted: Option<&str>) -> Standing {
        Standing { pool: "p".into(), is_deleting, disrupted: disrupted.map(str::to_owned) }
    }

    #[test]
    fn a_disruption_counts_all_of_its_pool_that_are_leaving() {
        let mut claims = Claims::default();
        assert_eq!(claims.change("a", standing(false, None)), None);
        assert_eq!(claims.change("b", standing(true, None)), None);
        assert_eq!(claims.change("a", standing(false, Some("Drifted"))), Some(("p".into(), 2)));
        // The same disruption, one step on.
        assert_eq!(claims.change("a", standing(true, Some("Drifted"))), None);
    }

    #[test]
    fn what_budgets_do_not_limit_is_not_judged() {
        let mut claims = Claims::default();
        assert_eq!(claims.change("a", standing(false, Some("Expired"))), None);
        assert_eq!(claims.change("b", standing(true, None)), None);
    }

    #[test]
    fn only_a_plain_number_is_a_limit() {
        let pool = |budgets: serde_json::Value| -> NodePool {
            let class =
                serde_json::json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"});
            serde_json::from_value(serde_json::json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
                "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}},
                    "disruption": {"consolidateAfter": "0s", "budgets": budgets}},
            }))
            .expect("a pool")
        };
        assert_eq!(plain_limit(&pool(serde_json::json!([{"nodes": "2"}]))), Some(2));
        assert_eq!(plain_limit(&pool(serde_json::json!([{"nodes": "10%"}]))), None);
        assert_eq!(plain_limit(&pool(serde_json::json!([{"nodes": "2", "reasons": ["Empty"]}]))), None);
        assert_eq!(plain_limit(&pool(serde_json::json!([{"nodes": "2"}, {"nodes": "1"}]))), None);
    }
}

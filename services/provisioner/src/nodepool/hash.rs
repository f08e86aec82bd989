//! Drift hashes: on the pool, and on its claims when the version of the hash has changed.

use std::collections::BTreeMap;

use api::conditions;
use api::hash::{NODE_POOL_VERSION, node_pool};
use api::{NodeClaim, NodePool};
use model::labels::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};

/// Annotations to set.
pub(super) type Annotations = BTreeMap<String, String>;

/// What a pool's annotations are to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rehash {
    pub(super) annotations: Annotations,
    /// The claims carry hashes of another version and come first.
    pub(super) migrate_claims: bool,
}

/// `None` when the pool's annotations are as they should be.
pub(super) fn of_pool(pool: &NodePool) -> Option<Rehash> {
    let own = pool.metadata.annotations.as_ref();
    let annotation = |key: &str| own.and_then(|all| all.get(key)).map(String::as_str);
    let hash = node_pool(pool);
    let migrate_claims = annotation(NODEPOOL_HASH_VERSION) != Some(NODE_POOL_VERSION);
    if !migrate_claims && annotation(NODEPOOL_HASH) == Some(hash.as_str()) {
        return None;
    }
    Some(Rehash { annotations: both(hash), migrate_claims })
}

/// What a claim of the pool gets when the version changes. A drifted one keeps its hash, and so stays drifted; `None`: it is of
/// this version already.
pub(super) fn of_claim(claim: &NodeClaim, pool: &NodePool) -> Option<Annotations> {
    let own = claim.metadata.annotations.as_ref();
    if own.and_then(|all| all.get(NODEPOOL_HASH_VERSION)).is_some_and(|version| version == NODE_POOL_VERSION)
    {
        return None;
    }
    let list = claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let mut wanted = both(node_pool(pool));
    if conditions::find(list, "Drifted").is_some() {
        wanted.remove(NODEPOOL_HASH);
    }
    Some(wanted)
}

fn both(hash: String) -> Annotations {
    let version = NODE_POOL_VERSION.to_owned();
    [(NODEPOOL_HASH.to_owned(), hash), (NODEPOOL_HASH_VERSION.to_owned(), version)].into_iter().collect()
}

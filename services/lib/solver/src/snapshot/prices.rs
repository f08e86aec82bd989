//! What nodes that exist cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::catalog::{InstanceType, Offering};
use model::node::{Node, PriceKey};
use model::pool::NodePool;
use model::price::MicroDollars;
use rustc_hash::FxHashMap;

/// Instance types and where each name is among them.
type NamedTypes = (Arc<Vec<InstanceType>>, BTreeMap<Arc<str>, usize>);

/// Prices of all offerings, open or not, by NodePool: a NodeOverlay may give the same offering another price in one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PriceList {
    lists: Vec<NamedTypes>,
    /// Index into `lists`; pools without overlays of their own share one.
    of_pool: FxHashMap<Arc<str>, usize>,
}

impl PriceList {
    pub(crate) fn of(pools: &[NodePool]) -> Self {
        let mut lists: Vec<NamedTypes> = Vec::new();
        let mut of_pool = FxHashMap::default();
        for pool in pools {
            let known = lists.iter().position(|(types, _)| Arc::ptr_eq(types, &pool.instance_types));
            let list = known.unwrap_or_else(|| {
                let names = pool.instance_types.iter().enumerate().map(|(i, t)| (Arc::clone(&t.name), i));
                lists.push((Arc::clone(&pool.instance_types), names.collect()));
                lists.len() - 1
            });
            of_pool.insert(Arc::clone(&pool.name), list);
        }
        Self { lists, of_pool }
    }

    /// The price in the node's own NodePool. A node of no NodePool, of one that makes no nodes now, or of an offering that its
    /// NodePool does not list any more costs the least that any NodePool lists: no overlay of another pool makes it look worth
    /// replacing.
    pub(super) fn of_node(&self, node: &Node) -> Option<MicroDollars> {
        let key = node.price_key()?;
        let own = node.pool.as_ref().and_then(|pool| self.of_pool.get(pool));
        let own = own.and_then(|list| price_in(&self.lists[*list], &key));
        own.or_else(|| self.lists.iter().filter_map(|list| price_in(list, &key)).min())
    }
}

fn price_in((types, names): &NamedTypes, key: &PriceKey<'_>) -> Option<MicroDollars> {
    let instance = &types[*names.get(key.instance_type)?];
    let same = |o: &&Offering| {
        *o.zone == *key.zone
            && o.capacity_type == key.capacity_type
            && (key.reservation.is_none() || o.reservation.as_ref().map(|r| &*r.id) == key.reservation)
    };
    instance.offerings.iter().find(same).map(|o| o.price)
}

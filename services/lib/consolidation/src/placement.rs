//! Whether moved pods still fit when kube-scheduler places them, which spreads them over the emptiest nodes and knows nothing of the plan.
//! Without this, small pods take the new node first, the large one it was bought for stays pending, and another node is bought.

use std::sync::Arc;

use model::pool::NodePool;
use model::resources::{CPU, MEMORY, Resources};
use solver::{NewNode, NodeId, Options, Order, PodRef, Scheduler, Snapshot};

use crate::launch::{choose_launch, kinds_of};
use crate::state::allocatable;

/// As drains evict, and as pods may arrive when their graceful terminations differ.
const ORDERS: [Order; 5] =
    [Order::LargestFirst, Order::Shuffled(1), Order::Shuffled(2), Order::Shuffled(3), Order::Shuffled(4)];
/// Sizes of one replacement that are tried; what is larger than one that is enough counts as enough.
const MOST_SIZES: usize = 4;

/// Keeps the types of a replacement with which all pods of the removed nodes find a place in every order. Returns the pods that are left
/// pending where there is no such type, and where there is no replacement or several.
pub(crate) fn keep_schedulable(
    snapshot: &Snapshot,
    remove: &[NodeId],
    nodes: &mut [NewNode],
    pools: &[NodePool],
    options: &Options,
) -> Vec<PodRef> {
    let scheduler = Scheduler::new(snapshot, remove, options);
    let left = |nodes: &[NewNode]| left_pending(&scheduler, nodes);
    let [node] = nodes else { return left(nodes) };
    let Some(pool) = pools.iter().find(|pool| pool.name == node.pool) else { return left(nodes) };
    let as_type = |name: &Arc<str>| {
        let mut one = NewNode { instance_types: [Arc::clone(name)].into(), ..node.clone() };
        choose_launch(&mut one, pool);
        one
    };
    let kinds = kinds_of(pool, &node.instance_types).into_iter().flatten();
    let sizes: Vec<(Arc<str>, Resources)> =
        kinds.map(|kind| (Arc::clone(&kind.name), allocatable(&kind.capacity, &kind.overhead))).collect();
    let largest = sizes.iter().max_by_key(|(_, size)| (size.get(CPU), size.get(MEMORY)));
    let Some((largest, largest_size)) = largest else { return left(nodes) };
    let displaced = left(&[as_type(largest)]);
    if !displaced.is_empty() {
        return displaced;
    }
    let mut tried: Vec<(&Resources, bool)> = vec![(largest_size, true)];
    let mut kept: Vec<Arc<str>> = Vec::new();
    for (name, size) in &sizes {
        let known = tried.iter().find(|(known, _)| *known == size).map(|(_, enough)| *enough);
        let enough = known.unwrap_or_else(|| {
            if tried.len() > MOST_SIZES {
                return tried.iter().any(|(known, enough)| *enough && covers(size, known));
            }
            let enough = left(&[as_type(name)]).is_empty();
            tried.push((size, enough));
            enough
        });
        if enough {
            kept.push(Arc::clone(name));
        }
    }
    node.instance_types = kept.into();
    choose_launch(node, pool);
    Vec::new()
}

fn covers(size: &Resources, other: &Resources) -> bool {
    other.iter().all(|(name, amount)| size.get(name) >= amount)
}

/// The pods that the first order that does not work out leaves pending.
fn left_pending(scheduler: &Scheduler<'_>, nodes: &[NewNode]) -> Vec<PodRef> {
    let left = |order| scheduler.schedule(nodes, order).left;
    ORDERS.into_iter().map(left).find(|left| !left.is_empty()).unwrap_or_default()
}

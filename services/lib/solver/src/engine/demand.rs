//! What is to be placed: pods by class and by where they come from.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use crate::classes::ClassId;
use crate::dims::{CPU, MEMORY};
use crate::nodes::PodEntry;
use crate::world::World;

/// Why a pod needs a place; some nodes accept only some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// Has no node.
    Pending,
    /// Its node is being deleted anyway.
    Deleting,
    /// Its node is to be removed in this what-if.
    Moved,
}

/// Pods of one class and origin, in placing order.
#[derive(Clone, Debug)]
pub(crate) struct Demand<'a> {
    pub(crate) class: ClassId,
    pub(crate) origin: Origin,
    /// Some node could hold such a pod, were it empty. Pods that none could hold are reported, and change nothing for others.
    pub(crate) placeable: bool,
    pub(crate) pods: Vec<&'a PodEntry>,
}

pub(crate) type DemandId = u32;

/// Oldest first.
pub(crate) fn in_order(a: &PodEntry, b: &PodEntry) -> Ordering {
    (a.created, &a.uid, &a.namespace, &a.name).cmp(&(b.created, &b.uid, &b.namespace, &b.name))
}

/// Groups pods into demands and adds them to the given ones, in the order of the reference: processor time descending, memory
/// descending, oldest first. Placeholders of capacity buffers come last.
pub(crate) fn demands<'a>(
    world: &World,
    mut out: Vec<Demand<'a>>,
    pods: impl Iterator<Item = (&'a PodEntry, Origin)>,
) -> Vec<Demand<'a>> {
    let given = out.len();
    let mut index: FxHashMap<(ClassId, Origin), usize> = FxHashMap::default();
    for (pod, origin) in pods {
        let slot = *index.entry((pod.class, origin)).or_insert_with(|| {
            out.push(Demand { class: pod.class, origin, placeable: true, pods: Vec::new() });
            out.len() - 1
        });
        out[slot].pods.push(pod);
    }
    for demand in &mut out[given..] {
        demand.pods.sort_by(|a, b| in_order(a, b));
    }
    let size = |d: &Demand<'_>| {
        let class = world.classes.get(d.class);
        (class.buffer, -class.requests[CPU], -class.requests[MEMORY])
    };
    out.sort_by(|a, b| {
        let first = |d: &Demand<'a>| (d.pods[0].created, &d.pods[0].uid, &d.pods[0].name);
        size(a).cmp(&size(b)).then_with(|| first(a).cmp(&first(b)))
    });
    out
}

//! What people want to see beside the bare answer: how full nodes are, and how large pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pod::PodSpec;
use model::pool::ClusterInput;
use model::resources::Resources;

/// Sizes by name; without any, shares are not shown.
#[derive(Default)]
pub(super) struct People {
    allocatable: BTreeMap<Arc<str>, Resources>,
    pods: BTreeMap<String, Arc<PodSpec>>,
    /// Pending pods in all.
    pub(super) pending: usize,
}

impl People {
    /// Sizes of pods are kept only where they are to be drawn: there may be very many. Those that run already are among them,
    /// since consolidation moves them.
    pub(super) fn new(input: &ClusterInput, with_pods: bool) -> Self {
        let mut allocatable = BTreeMap::new();
        for kind in input.pools.iter().flat_map(|pool| pool.instance_types.iter()) {
            allocatable.entry(Arc::clone(&kind.name)).or_insert_with(|| {
                let mut free = kind.capacity.clone();
                free.sub(&kind.overhead);
                free
            });
        }
        let drawn = input.pods.iter().filter(|_| with_pods);
        Self {
            allocatable,
            pending: input.pods.iter().filter(|pod| pod.node.is_none()).count(),
            pods: drawn.map(|pod| (pod.key(), Arc::clone(&pod.spec))).collect(),
        }
    }

    /// What pods may use of a type.
    pub(super) fn allocatable(&self, instance_type: &str) -> Option<&Resources> {
        self.allocatable.get(instance_type)
    }

    /// What a pod asks for.
    pub(super) fn requests(&self, pod: &str) -> Option<&Resources> {
        self.pods.get(pod).map(|spec| &spec.requests)
    }
}

/// Share in thousandths; `None` where there is none of it.
pub(super) fn per_mille(used: &Resources, of: &Resources, name: &str) -> Option<u64> {
    let whole = of.get(name).nano();
    (whole > 0)
        .then(|| u64::try_from(used.get(name).nano().max(0).saturating_mul(1000) / whole).unwrap_or(u64::MAX))
}

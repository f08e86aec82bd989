//! What of a node's capacity pods cannot have: kube-reserved, system-reserved, eviction thresholds.

use model::quantity::Quantity;
use model::resources::{self, Resources};

use super::capacity::{address_limited_pods, estimated_memory};
use super::inputs::{NodeClass, Settings, Threshold, share};
use crate::facts::TypeFacts;

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const MIB_PER_POD: i64 = 11;
const MIB_BASE: i64 = 255;
const DEFAULT_EVICTION_MEMORY: i64 = 100 * MIB;
/// A tenth, in millionths.
const DEFAULT_EVICTION_STORAGE: u32 = 100_000;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overhead {
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    pub eviction: Resources,
}

impl Overhead {
    pub fn total(&self) -> Resources {
        let mut total = self.kube_reserved.clone();
        total.add(&self.system_reserved);
        total.add(&self.eviction);
        total
    }
}

/// `capacity` is that of the same type, class and settings.
pub fn overhead(facts: &TypeFacts, class: &NodeClass, settings: &Settings, capacity: &Resources) -> Overhead {
    // Reserved interfaces lower the pods capacity but, as in the reference, not the memory reserved for kubelet.
    let counted_pods = if class.family.reserves_by_addresses() {
        address_limited_pods(facts, class, 0)
    } else {
        capacity.get(resources::PODS).value_ceil()
    };
    let memory = counted_pods.saturating_mul(MIB_PER_POD).saturating_add(MIB_BASE).saturating_mul(MIB);
    let mut kube_reserved = Resources::new()
        .with(resources::CPU, Quantity::from_milli(reserved_milli_cpu(facts.vcpus)))
        .with(resources::MEMORY, Quantity::from_bytes(memory))
        .with(resources::EPHEMERAL_STORAGE, Quantity::from_bytes(GIB));
    for (name, amount) in class.kubelet.kube_reserved.iter() {
        kube_reserved.insert(name, amount);
    }
    let of = |threshold: Option<Threshold>, base: i64, default: i64| {
        Quantity::from_bytes(threshold.map_or(default, |t| t.of(base)))
    };
    let storage = capacity.get(resources::EPHEMERAL_STORAGE).value_ceil();
    let eviction = Resources::new()
        .with(
            resources::MEMORY,
            // A share is taken of the estimate, also where real nodes have taught us the true figure.
            of(class.kubelet.eviction_memory, estimated_memory(facts, settings), DEFAULT_EVICTION_MEMORY),
        )
        .with(
            resources::EPHEMERAL_STORAGE,
            of(class.kubelet.eviction_storage, storage, share(storage, DEFAULT_EVICTION_STORAGE)),
        );
    Overhead { kube_reserved, system_reserved: class.kubelet.system_reserved.clone(), eviction }
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest; each band cut to whole millicores.
fn reserved_milli_cpu(vcpus: u32) -> i64 {
    // First core of the band, first core after it, and tenths of a millicore a core.
    const BANDS: [(u32, u32, i64); 4] = [(0, 1, 600), (1, 2, 100), (2, 4, 50), (4, u32::MAX, 25)];
    BANDS.iter().map(|(from, to, tenths)| i64::from(vcpus.clamp(*from, *to) - from) * tenths / 10).sum()
}

//! What a node of a type has: cpu, memory, storage, pods, devices.

use model::quantity::{Format, Quantity};
use model::resources::{self, Resources};

use super::family::Family;
use super::inputs::{NodeClass, Settings, share};
use crate::facts::{Accelerator, TypeFacts};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const GB: i64 = 1_000_000_000;
/// Graviton keeps this much for its contiguous memory allocator.
const ARM_CMA_MIB: u64 = 64;
/// What kubelet allows where neither addresses nor the class decide.
const DEFAULT_PODS: i64 = 110;

/// All resources of a node; those of which there is none are left out. `learned_memory` (bytes) replaces the estimate.
pub fn capacity(
    facts: &TypeFacts,
    class: &NodeClass,
    settings: &Settings,
    learned_memory: Option<u64>,
) -> Resources {
    let memory = learned_memory
        .map_or_else(|| estimated_memory(facts, settings), |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let mut all = Resources::new()
        .with(resources::CPU, Quantity::from_units(i64::from(facts.vcpus)))
        .with(resources::MEMORY, Quantity::from_bytes(memory))
        .with(resources::EPHEMERAL_STORAGE, ephemeral_storage(facts, class))
        .with(resources::PODS, Quantity::from_units(pods(facts, class, settings)));
    let gpus = |maker: &str| count(facts.gpus.iter().filter(|gpu| gpu.manufacturer == maker));
    let neuron_cores = facts.neuron.first().map_or(0, |d| i64::from(d.count) * i64::from(d.cores));
    let windows_addresses = i64::from(facts.ipv4_per_interface.saturating_sub(1));
    for (name, amount) in [
        (resources::AWS_POD_ENI, i64::from(facts.branch_interfaces)),
        (resources::NVIDIA_GPU, gpus("NVIDIA")),
        (resources::AMD_GPU, gpus("AMD")),
        (resources::HABANA_GAUDI, gpus("Habana")),
        (resources::AWS_NEURON, count(facts.neuron.iter())),
        (resources::AWS_NEURON_CORE, neuron_cores),
        (resources::EFA, efa(facts, class)),
        (resources::AWS_PRIVATE_IPV4, if class.family.is_windows() { windows_addresses } else { 0 }),
    ] {
        if amount > 0 {
            all.insert(name, Quantity::from_units(amount));
        }
    }
    all
}

/// Bytes left after the hypervisor's assumed share.
pub(super) fn estimated_memory(facts: &TypeFacts, settings: &Settings) -> i64 {
    let arm = facts.architectures.first().is_some_and(|a| a == "arm64");
    let usable = facts.memory_mib.saturating_sub(if arm { ARM_CMA_MIB } else { 0 });
    let mib = i64::try_from(usable).unwrap_or(i64::MAX / MIB).min(i64::MAX / MIB);
    (mib - share(mib, settings.vm_memory_overhead_millionths)).max(0) * MIB
}

/// Most pods with an address of their own: each interface gives its addresses but the first, and two pods use the
/// host's network. No usable interface gives no pods at all. Prefix delegation gives each address a prefix and EC2 does not tell
/// whether a cluster uses it: as with the reference, such a class says `maxPods`.
pub fn address_limited_pods(facts: &TypeFacts, class: &NodeClass, reserved_enis: u32) -> i64 {
    let efa_only = class.efa_only().filter(|i| i.card_index == 0).count();
    let usable = i64::from(facts.max_network_interfaces)
        - i64::from(reserved_enis)
        - i64::try_from(efa_only).unwrap_or(i64::MAX);
    if usable <= 0 { 0 } else { usable * (i64::from(facts.ipv4_per_interface) - 1).max(0) + 2 }
}

pub(super) fn pods(facts: &TypeFacts, class: &NodeClass, settings: &Settings) -> i64 {
    let count = match class.kubelet.max_pods {
        Some(fixed) => i64::from(fixed),
        None if class.family.limits_pods_by_addresses() => {
            address_limited_pods(facts, class, settings.reserved_enis)
        }
        None => DEFAULT_PODS,
    };
    match class.kubelet.pods_per_core {
        Some(per_core) if per_core > 0 && class.family.honours_pods_per_core() => {
            count.min(i64::from(per_core) * i64::from(facts.vcpus))
        }
        _ => count,
    }
}

fn ephemeral_storage(facts: &TypeFacts, class: &NodeClass) -> Quantity {
    if class.raid0 && facts.instance_store_gb > 0 {
        let gb = i64::try_from(facts.instance_store_gb).unwrap_or(i64::MAX / GB).min(i64::MAX / GB);
        return Quantity::from_units(gb * GB);
    }
    let default = Quantity::from_bytes(class.family.ephemeral_gib() * GIB);
    let root = class.volumes.iter().find(|v| v.root && v.size.is_some());
    let chosen = match (root, class.family, class.family.ephemeral_device()) {
        (Some(root), ..) => root.size,
        (None, Family::Custom, _) => class.volumes.last().and_then(|v| v.size),
        (None, _, device) => class
            .volumes
            .iter()
            .find(|v| Some(v.device_name.as_str()) == device && v.size.is_some())
            .and_then(|v| v.size),
    };
    chosen.unwrap_or(default).with_format(Format::BinarySi)
}

fn efa(facts: &TypeFacts, class: &NodeClass) -> i64 {
    if class.interfaces.is_empty() {
        i64::from(facts.max_efa_interfaces)
    } else {
        i64::try_from(class.efa_only().count()).unwrap_or(i64::MAX)
    }
}

fn count<'a>(devices: impl Iterator<Item = &'a Accelerator>) -> i64 {
    devices.map(|d| i64::from(d.count)).sum()
}

//! Labels of a type's nodes, as requirements: everything that does not depend on offerings.

use model::labels;
use model::requirement::Requirement;
use model::requirements::Requirements;

use super::inputs::NodeClass;
use super::name;
use crate::facts::TypeFacts;

/// The Kubernetes name of the first architecture that has one.
pub fn architecture(facts: &TypeFacts) -> Option<&'static str> {
    facts.architectures.iter().find_map(|a| match a.as_str() {
        "x86_64" => Some(labels::AMD64),
        "arm64" => Some(labels::ARM64),
        _ => None,
    })
}

/// Keys that are left out are labels its nodes do not have. Zones, capacity types and reservations follow from the
/// offerings and are not here.
pub fn requirements(facts: &TypeFacts, class: &NodeClass, region: &str) -> Requirements {
    let mut all = Requirements::new();
    let mut put = |key: &str, value: String| all.add(Requirement::is(key, value));
    let arch = architecture(facts);
    if let Some(arch) = arch {
        put(labels::ARCH, arch.to_owned());
    }
    put(labels::REGION, region.to_owned());
    put(labels::INSTANCE_CPU, facts.vcpus.to_string());
    put(labels::INSTANCE_MEMORY, facts.memory_mib.to_string());
    put(labels::INSTANCE_HYPERVISOR, facts.hypervisor.clone());
    put(labels::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, facts.encryption_in_transit.to_string());
    if !facts.cpu_manufacturer.is_empty() {
        put(labels::INSTANCE_CPU_MANUFACTURER, kebab(&facts.cpu_manufacturer));
    }
    let parts = name::parts(&facts.name);
    put(labels::INSTANCE_CAPABILITY_FLEX, parts.flex.to_string());
    for (key, part) in [
        (labels::INSTANCE_CATEGORY, parts.category),
        (labels::INSTANCE_GENERATION, parts.generation),
        (labels::INSTANCE_FAMILY, parts.family),
        (labels::INSTANCE_SIZE, parts.size),
    ] {
        if let Some(part) = part {
            put(key, part.to_owned());
        }
    }
    for (key, figure) in [
        (labels::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, u64::from(facts.clock_mhz)),
        (labels::INSTANCE_EBS_BANDWIDTH, u64::from(facts.ebs_mbps)),
        (labels::INSTANCE_NETWORK_BANDWIDTH, u64::from(facts.network_mbps)),
        (labels::INSTANCE_LOCAL_NVME, if facts.nvme { facts.instance_store_gb } else { 0 }),
    ] {
        if figure > 0 {
            put(key, figure.to_string());
        }
    }
    if let [gpu] = facts.gpus.as_slice() {
        put(labels::INSTANCE_GPU_NAME, kebab(&gpu.name));
        put(labels::INSTANCE_GPU_MANUFACTURER, kebab(&gpu.manufacturer));
        put(labels::INSTANCE_GPU_COUNT, gpu.count.to_string());
        put(labels::INSTANCE_GPU_MEMORY, gpu.memory_mib.to_string());
    }
    let accelerator = match (facts.neuron.as_slice(), facts.inference.as_slice()) {
        ([neuron], _) => Some((neuron, "aws".to_owned())),
        ([], [inference]) => Some((inference, kebab(&inference.manufacturer))),
        _ => None,
    };
    if let Some((device, manufacturer)) = accelerator {
        put(labels::INSTANCE_ACCELERATOR_NAME, kebab(&device.name));
        put(labels::INSTANCE_ACCELERATOR_MANUFACTURER, manufacturer);
        put(labels::INSTANCE_ACCELERATOR_COUNT, device.count.to_string());
    }
    if let Some(build) = class.family.windows_build() {
        put(labels::WINDOWS_BUILD, build.to_owned());
    }
    let os: &[&str] = match (class.family.is_windows(), arch) {
        (false, _) => &[labels::LINUX],
        (true, Some(labels::AMD64)) => &[labels::WINDOWS],
        // Windows runs on no other architecture: an empty set matches nothing.
        (true, _) => &[],
    };
    all.add(Requirement::one_of(labels::OS, os.iter().copied()));
    all.add(Requirement::one_of(
        labels::INSTANCE_TENANCY,
        [labels::TENANCY_DEFAULT, labels::TENANCY_DEDICATED],
    ));
    if let Some(group) = &class.placement_group {
        all.add(Requirement::is(labels::PLACEMENT_GROUP_ID, group.id.as_str()));
        let partitions = group.strategy.partitions();
        if partitions > 0 {
            all.add(Requirement::one_of(
                labels::PLACEMENT_GROUP_PARTITION,
                (1..=partitions).map(|n| n.to_string()),
            ));
        }
    }
    all
}

fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

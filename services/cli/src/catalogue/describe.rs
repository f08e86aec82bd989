//! Catalogues as `aws ec2 describe-instance-types` prints them: no prices, no zones. Those come from the built-in table, by
//! type or, for a type it does not know, at the family's rate for each vCPU.

use model::labels;
use model::price::MicroDollars;
use model::resources::{AMD_GPU, AWS_NEURON, EFA, NVIDIA_GPU};
use serde::Deserialize;

use super::figures::{Figures, Gpu, Prices, Table};
use super::{Catalogue, builtin, line_of_type, read_typed};
use crate::manifest::InputError;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    instance_types: Vec<Described>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    instance_type: String,
    #[serde(default)]
    hypervisor: String,
    #[serde(default)]
    bare_metal: bool,
    #[serde(default)]
    processor_info: Processor,
    #[serde(rename = "VCpuInfo")]
    vcpu_info: Vcpu,
    memory_info: Memory,
    #[serde(default)]
    network_info: Network,
    instance_storage_info: Option<Storage>,
    ebs_info: Option<Ebs>,
    gpu_info: Option<Gpus>,
    neuron_info: Option<Neurons>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Processor {
    supported_architectures: Vec<String>,
    sustained_clock_speed_in_ghz: Option<f64>,
    manufacturer: String,
}

#[derive(Deserialize)]
struct Vcpu {
    #[serde(rename = "DefaultVCpus")]
    default_vcpus: i64,
}

#[derive(Deserialize)]
struct Memory {
    #[serde(rename = "SizeInMiB")]
    size_in_mib: i64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Network {
    maximum_network_interfaces: Option<i64>,
    default_network_card_index: usize,
    network_cards: Vec<Card>,
    ipv4_addresses_per_interface: Option<i64>,
    encryption_in_transit_supported: bool,
    efa_info: Option<EfaInfo>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Card {
    maximum_network_interfaces: Option<i64>,
    baseline_bandwidth_in_gbps: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct EfaInfo {
    maximum_efa_interfaces: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Storage {
    #[serde(rename = "TotalSizeInGB")]
    total_size_in_gb: i64,
    #[serde(rename = "NvmeSupport")]
    nvme_support: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Ebs {
    ebs_optimized_info: Option<EbsOptimized>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct EbsOptimized {
    maximum_bandwidth_in_mbps: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Gpus {
    gpus: Vec<DescribedGpu>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct DescribedGpu {
    name: String,
    manufacturer: String,
    count: i64,
    memory_info: Option<Memory>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Neurons {
    neuron_devices: Vec<Neuron>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Neuron {
    count: i64,
}

pub(super) fn parse(text: &str, name: &str) -> Result<Catalogue, InputError> {
    let file: File = read_typed(text, name)?;
    let mut table = builtin::table();
    let mut types = Vec::new();
    let mut unpriced = Vec::new();
    for (index, described) in file.instance_types.into_iter().enumerate() {
        let shown = described.instance_type.clone();
        let mut figures = figures(described).map_err(|(field, problem)| InputError {
            line: line_of_type(text, index, "InstanceTypes"),
            object: format!("type {shown}"),
            field: format!("InstanceTypes[{index}].{field}"),
            ..InputError::of_file(name, problem)
        })?;
        match prices(&figures, &table) {
            Some(prices) => {
                figures.prices = prices;
                types.push(figures);
            }
            None => unpriced.push(shown),
        }
    }
    let mut remarks = Vec::new();
    if !unpriced.is_empty() {
        let some: Vec<&str> = unpriced.iter().take(5).map(String::as_str).collect();
        remarks.push(format!(
            "{} types left out, since the built-in price table has neither them nor their family: {}{}",
            unpriced.len(),
            some.join(", "),
            if unpriced.len() > some.len() { ", …" } else { "" }
        ));
    }
    let origin = format!("{name}, prices and zones of the built-in table for {}", table.region);
    table.types = types;
    Ok(Catalogue::derived(table, origin, remarks))
}

fn figures(described: Described) -> Result<Figures, (String, String)> {
    let positive = |value: i64, field: &str| {
        if (1..=1 << 40).contains(&value) {
            Ok(value)
        } else {
            Err((field.to_owned(), format!("{value} cannot be")))
        }
    };
    let arch = match described.processor_info.supported_architectures.iter().find(|a| a.as_str() != "i386") {
        Some(arch) if arch.starts_with("arm64") => labels::ARM64,
        _ => labels::AMD64,
    };
    let network = &described.network_info;
    let card = network.network_cards.get(network.default_network_card_index);
    let interfaces =
        card.and_then(|c| c.maximum_network_interfaces).or(network.maximum_network_interfaces).unwrap_or(0);
    let addresses = network.ipv4_addresses_per_interface.unwrap_or(0);
    let pods = interfaces.clamp(0, 1 << 16) * (addresses.clamp(0, 1 << 16) - 1).max(0) + 2;
    let gbps: f64 = network.network_cards.iter().filter_map(|c| c.baseline_bandwidth_in_gbps).sum();
    let gpu = described.gpu_info.as_ref().and_then(|g| g.gpus.first()).map(|g| Gpu {
        name: g.name.to_lowercase().replace(' ', "-"),
        maker: g.manufacturer.to_lowercase().replace(' ', "-"),
        count: g.count,
        mib: g.memory_info.as_ref().map_or(0, |m| m.size_in_mib),
    });
    let mut devices = Vec::new();
    match gpu.as_ref().map(|g| (g.maker.as_str(), g.count)) {
        Some(("nvidia", count)) => devices.push((NVIDIA_GPU.to_owned(), count)),
        Some(("amd", count)) => devices.push((AMD_GPU.to_owned(), count)),
        _ => {}
    }
    let neurons: i64 = described.neuron_info.iter().flat_map(|n| &n.neuron_devices).map(|n| n.count).sum();
    let efas = network.efa_info.as_ref().map_or(0, |e| e.maximum_efa_interfaces);
    devices.extend([(AWS_NEURON, neurons), (EFA, efas)].map(|(name, count)| (name.to_owned(), count)));
    devices.retain(|(_, count)| *count > 0);
    let local =
        described.instance_storage_info.filter(|s| !matches!(s.nvme_support.as_str(), "" | "unsupported"));
    Ok(Figures {
        arch: arch.to_owned(),
        hypervisor: if described.bare_metal { String::new() } else { described.hypervisor },
        cpu_maker: described.processor_info.manufacturer.to_lowercase(),
        cpus: positive(described.vcpu_info.default_vcpus, "VCpuInfo.DefaultVCpus")?,
        mib: positive(described.memory_info.size_in_mib, "MemoryInfo.SizeInMiB")?,
        pods,
        encryption: network.encryption_in_transit_supported,
        network_mbit: (gbps > 0.0).then_some((gbps * 1000.0) as i64),
        ebs_mbit: described
            .ebs_info
            .and_then(|e| e.ebs_optimized_info)
            .and_then(|e| e.maximum_bandwidth_in_mbps),
        clock_mhz: described
            .processor_info
            .sustained_clock_speed_in_ghz
            .map(|ghz| (ghz * 1000.0).round() as i64),
        nvme_gb: local.map(|s| s.total_size_in_gb),
        gpu,
        devices,
        prices: Prices::default(),
        name: described.instance_type,
    })
}

fn prices(figures: &Figures, table: &Table) -> Option<Prices> {
    if let Some(known) = table.types.iter().find(|known| known.name == figures.name) {
        return Some(known.prices.clone());
    }
    let sibling = table
        .types
        .iter()
        .filter(|known| known.family() == figures.family() && known.prices.on_demand.is_some())
        .min_by_key(|known| (known.cpus - figures.cpus).abs())?;
    let scaled = |price: MicroDollars| {
        let micro = i128::from(price.get()) * i128::from(figures.cpus) / i128::from(sibling.cpus.max(1));
        MicroDollars::new(i64::try_from(micro).unwrap_or(i64::MAX))
    };
    let zones = &sibling.prices.zones;
    Some(Prices {
        on_demand: sibling.prices.on_demand.map(scaled),
        zones: zones.iter().map(|(letter, spot, sold)| (letter.clone(), spot.map(scaled), *sold)).collect(),
    })
}

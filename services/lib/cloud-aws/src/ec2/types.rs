//! DescribeInstanceTypes into plain facts.

use aws_sdk_ec2::types::{
    AttachmentLimitType, EbsOptimizedSupport, EnaSupport, EphemeralNvmeSupport, InstanceTypeInfo, NetworkInfo,
};
use cloud::error::CloudError;
use cloud::facts::{Accelerator, TypeFacts};

use super::{Calls, Ec2, paced, pages, unretried};
use crate::convert::{count, filter, owned, size};
use crate::error::dry_run;

const OPERATION: &str = "DescribeInstanceTypes";
const PAGE: i32 = 100;

impl Ec2 {
    pub(crate) async fn check_access(&self) -> Result<(), CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client.describe_instance_types().dry_run(true);
        let call = call.customize().config_override(unretried()).send();
        dry_run(paced(&paces.describe, OPERATION, call).await)
    }

    pub(crate) async fn instance_types(&self) -> Result<Vec<TypeFacts>, CloudError> {
        let Calls { client, paces } = &self.calls;
        let call = client
            .describe_instance_types()
            .filters(filter("supported-virtualization-type", ["hvm"]))
            .filters(filter("processor-info.supported-architecture", ["x86_64", "arm64"]));
        let mut all = Vec::new();
        pages!(paces.describe, OPERATION, call.into_paginator().page_size(PAGE).send(), |page| {
            all.extend(page.instance_types().iter().filter_map(facts));
        });
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        Ok(all)
    }
}

/// `None` for an entry without a name.
fn facts(info: &InstanceTypeInfo) -> Option<TypeFacts> {
    let processor = info.processor_info();
    let network = info.network_info();
    let storage = info.instance_storage_info();
    let cards = network.map(cards).unwrap_or_default();
    let default_card = count(network.and_then(NetworkInfo::default_network_card_index));
    let default_interfaces = cards.get(default_card as usize).map(|card| card.0);
    let all_interfaces = count(network.and_then(NetworkInfo::maximum_network_interfaces));
    let volumes = info.ebs_info();
    let ebs = volumes.filter(|e| e.ebs_optimized_support() == Some(&EbsOptimizedSupport::Default));
    let ghz = processor.and_then(|p| p.sustained_clock_speed_in_ghz()).unwrap_or(0.0);
    Some(TypeFacts {
        name: info.instance_type()?.as_str().to_owned(),
        architectures: strings(processor.map_or(&[][..], |p| p.supported_architectures()), |a| a.as_str()),
        vcpus: count(info.v_cpu_info().and_then(|v| v.default_v_cpus())),
        memory_mib: size(info.memory_info().and_then(|m| m.size_in_mib())),
        hypervisor: owned(info.hypervisor().map(|h| h.as_str())),
        bare_metal: info.bare_metal().unwrap_or(false),
        usage_classes: strings(info.supported_usage_classes(), |c| c.as_str()),
        cpu_manufacturer: owned(processor.and_then(|p| p.manufacturer())),
        clock_mhz: thousands(ghz),
        cpu_features: strings(processor.map_or(&[][..], |p| p.supported_features()), |f| f.as_str()),
        max_network_interfaces: default_interfaces.unwrap_or(all_interfaces),
        ipv4_per_interface: count(network.and_then(NetworkInfo::ipv4_addresses_per_interface)),
        card_interfaces: cards.iter().map(|card| card.0).collect(),
        default_card,
        max_efa_interfaces: count(
            network.and_then(NetworkInfo::efa_info).and_then(|e| e.maximum_efa_interfaces()),
        ),
        ena: network.and_then(NetworkInfo::ena_support).is_some_and(|e| *e != EnaSupport::Unsupported),
        encryption_in_transit: network
            .and_then(NetworkInfo::encryption_in_transit_supported)
            .unwrap_or(false),
        network_mbps: cards.iter().map(|card| card.1).sum(),
        ebs_mbps: count(ebs.and_then(|e| e.ebs_optimized_info()).and_then(|i| i.maximum_bandwidth_in_mbps())),
        ebs_attachments: count(volumes.and_then(|v| v.maximum_ebs_attachments())),
        ebs_attachments_shared: volumes.and_then(|v| v.attachment_limit_type())
            == Some(&AttachmentLimitType::Shared),
        instance_store_gb: size(storage.and_then(|s| s.total_size_in_gb())),
        nvme: storage
            .and_then(|s| s.nvme_support())
            .is_some_and(|support| *support != EphemeralNvmeSupport::Unsupported),
        gpus: gpus(info),
        neuron: neuron(info),
        inference: inference(info),
        placement_strategies: strings(
            info.placement_group_info().map_or(&[][..], |p| p.supported_strategies()),
            |s| s.as_str(),
        ),
        branch_interfaces: cloud::limits::branch_interfaces(info.instance_type()?.as_str()).unwrap_or(0),
    })
}

/// Interfaces and baseline Mbps of each network card, by card index.
fn cards(network: &NetworkInfo) -> Vec<(u32, u32)> {
    let mut cards: Vec<_> = network.network_cards().iter().collect();
    cards.sort_by_key(|card| card.network_card_index());
    let card = |c: &&aws_sdk_ec2::types::NetworkCardInfo| {
        (count(c.maximum_network_interfaces()), thousands(c.baseline_bandwidth_in_gbps().unwrap_or(0.0)))
    };
    cards.iter().map(card).collect()
}

/// Giga to mega, rounded; anything that makes no sense is 0, unknown.
fn thousands(giga: f64) -> u32 {
    let mega = (giga * 1000.0).round();
    if mega.is_finite() && mega > 0.0 && mega < f64::from(u32::MAX) { mega as u32 } else { 0 }
}

fn gpus(info: &InstanceTypeInfo) -> Vec<Accelerator> {
    let gpus = info.gpu_info().map_or(&[][..], |g| g.gpus());
    gpus.iter()
        .map(|gpu| Accelerator {
            name: owned(gpu.name()),
            manufacturer: owned(gpu.manufacturer()),
            count: count(gpu.count()),
            memory_mib: count(gpu.memory_info().and_then(|m| m.size_in_mib())).into(),
            cores: 0,
        })
        .collect()
}

fn neuron(info: &InstanceTypeInfo) -> Vec<Accelerator> {
    let devices = info.neuron_info().map_or(&[][..], |n| n.neuron_devices());
    devices
        .iter()
        .map(|device| Accelerator {
            name: owned(device.name()),
            manufacturer: "AWS".to_owned(),
            count: count(device.count()),
            memory_mib: count(device.memory_info().and_then(|m| m.size_in_mib())).into(),
            cores: count(device.core_info().and_then(|c| c.count())),
        })
        .collect()
}

fn inference(info: &InstanceTypeInfo) -> Vec<Accelerator> {
    let devices = info.inference_accelerator_info().map_or(&[][..], |i| i.accelerators());
    devices
        .iter()
        .map(|device| Accelerator {
            name: owned(device.name()),
            manufacturer: owned(device.manufacturer()),
            count: count(device.count()),
            memory_mib: count(device.memory_info().and_then(|m| m.size_in_mib())).into(),
            cores: 0,
        })
        .collect()
}

fn strings<T>(list: &[T], text: impl Fn(&T) -> &str) -> Vec<String> {
    list.iter().map(|entry| text(entry).to_owned()).collect()
}

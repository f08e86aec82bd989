//! An EC2NodeClass as the derivation of instance types takes it.

use cloud::derive::{Family, InterfaceSpec, Kubelet, NodeClass, SubnetZone, Threshold, Volume};
use cloud::template::InterfaceKind;
use model::resources::Resources;

use crate::EC2NodeClass;
use crate::ec2nodeclass::{
    BlockDeviceMapping, InstanceStorePolicy, InterfaceType, KubeletConfiguration, Switch,
};

/// What the object itself says. Placement group and reservations are known to EC2 alone: they are left out.
pub fn node_class(class: &EC2NodeClass) -> NodeClass {
    let spec = &class.spec;
    let family = spec.resolved_ami_family();
    let subnets = class.status.as_ref().and_then(|s| s.subnets.as_deref()).unwrap_or_default();
    NodeClass {
        kubelet: spec.kubelet.as_ref().map(kubelet).unwrap_or_default(),
        volumes: spec.block_device_mappings.iter().flatten().map(volume).collect(),
        raid0: spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
        interfaces: spec
            .network_interfaces
            .iter()
            .flatten()
            .map(|i| InterfaceSpec {
                card_index: number(i.network_card_index),
                device_index: number(i.device_index),
                kind: match i.interface_type {
                    InterfaceType::EfaOnly => InterfaceKind::EfaOnly,
                    _ => InterfaceKind::Interface,
                },
            })
            .collect(),
        nested_virtualization: spec
            .cpu_options
            .as_ref()
            .is_some_and(|o| o.nested_virtualization == Some(Switch::Enabled)),
        connection_tracking: spec.connection_tracking.is_some(),
        subnets: subnets
            .iter()
            .map(|s| SubnetZone { id: s.id.clone(), zone: s.zone.clone(), zone_id: s.zone_id.clone() })
            .collect(),
        ..NodeClass::new(Family::parse(family.as_ref().map_or("", |f| f.as_str())))
    }
}

fn number(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn volume(mapping: &BlockDeviceMapping) -> Volume {
    let size = mapping.ebs.as_ref().and_then(|e| e.volume_size.as_deref());
    Volume {
        device_name: mapping.device_name.clone().unwrap_or_default(),
        root: mapping.root_volume == Some(true),
        size: size.and_then(|text| text.parse().ok()),
    }
}

fn kubelet(config: &KubeletConfiguration) -> Kubelet {
    let reserved = |map: &Option<std::collections::BTreeMap<String, String>>| -> Resources {
        let parsed =
            map.iter().flatten().filter_map(|(name, text)| Some((name.as_str(), text.parse().ok()?)));
        parsed.collect()
    };
    let hard =
        |signal: &str| config.eviction_hard.as_ref()?.get(signal).and_then(|text| Threshold::parse(text));
    Kubelet {
        max_pods: config.max_pods.map(number),
        pods_per_core: config.pods_per_core.map(number),
        kube_reserved: reserved(&config.kube_reserved),
        system_reserved: reserved(&config.system_reserved),
        eviction_memory: hard("memory.available"),
        eviction_storage: hard("nodefs.available"),
    }
}

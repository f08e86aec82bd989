//! An EC2NodeClass as the derivation of instance types takes it. Pure.

use api::EC2NodeClass;
use api::ec2nodeclass::{InstanceStorePolicy, InterfaceType, KubeletConfiguration, Switch};
use cloud::derive::{Family, InterfaceSpec, Kubelet, NodeClass, SubnetZone, Threshold, Volume};
use cloud::reservation::Reservation;
use cloud::template::InterfaceKind;
use model::resources::Resources;

use super::offer::ClassFacts;

/// `known` are all reservations with what is left of them; those of the class's status count. `found` comes from whoever keeps
/// the class's status: where it knows of less room in a reservation, that counts.
pub(super) fn plain(class: &EC2NodeClass, known: &[Reservation], found: Option<&ClassFacts>) -> NodeClass {
    let spec = &class.spec;
    let status = class.status.as_ref();
    let family = spec.resolved_ami_family();
    let held = status.and_then(|s| s.capacity_reservations.as_deref()).unwrap_or_default();
    NodeClass {
        family: Family::parse(family.as_ref().map_or("", |f| f.as_str())),
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
        placement_group: found.and_then(|f| f.group.clone()),
        subnets: status
            .and_then(|s| s.subnets.as_deref())
            .unwrap_or_default()
            .iter()
            .map(|s| SubnetZone { id: s.id.clone(), zone: s.zone.clone(), zone_id: s.zone_id.clone() })
            .collect(),
        reservations: known
            .iter()
            .filter(|r| held.iter().any(|h| h.id == r.id))
            .map(|r| {
                let left = found.and_then(|f| f.left.get(&r.id)).copied().unwrap_or(r.available);
                Reservation { available: r.available.min(left), ..r.clone() }
            })
            .collect(),
    }
}

fn number(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn volume(mapping: &api::ec2nodeclass::BlockDeviceMapping) -> Volume {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_and_status_of_a_class_decide_what_its_nodes_offer() {
        let class: EC2NodeClass = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {
                "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
                "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
                "kubelet": {"maxPods": 42, "kubeReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"}},
                "blockDeviceMappings": [{"deviceName": "/dev/xvdb", "rootVolume": true, "ebs": {"volumeSize": "80Gi"}}],
                "instanceStorePolicy": "RAID0",
                "networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "efa-only"}]
            },
            "status": {"subnets": [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}]}
        }))
        .unwrap();
        let plain = plain(&class, &[], None);
        assert_eq!(plain.family, Family::Bottlerocket);
        assert_eq!(plain.kubelet.max_pods, Some(42));
        assert_eq!(plain.kubelet.kube_reserved.get("cpu"), "100m".parse().unwrap());
        assert_eq!(plain.kubelet.eviction_memory, Some(Threshold::Share(50_000)));
        assert_eq!((plain.volumes[0].root, plain.volumes[0].size), (true, "80Gi".parse().ok()));
        assert!(plain.raid0 && !plain.nested_virtualization);
        assert_eq!(plain.interfaces[0].kind, InterfaceKind::EfaOnly);
        assert_eq!(plain.subnets[0].zone_id.as_deref(), Some("use1-az1"));
    }
}

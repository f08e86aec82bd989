//! An EC2NodeClass as the derivation of instance types takes it. Pure.

use api::EC2NodeClass;
use cloud::derive::NodeClass;
use cloud::reservation::Reservation;

use super::offer::ClassFacts;

/// Reservations are those of the class's status. `known` are all that pricing-cache lists; `found` is what this replica found
/// for the class, at once when its status names a new one. Where both know a reservation, the smaller rest of it counts.
pub(super) fn plain(class: &EC2NodeClass, known: &[Reservation], found: Option<&ClassFacts>) -> NodeClass {
    let status = class.status.as_ref();
    let held = status.and_then(|s| s.capacity_reservations.as_deref()).unwrap_or_default();
    NodeClass {
        placement_group: found.and_then(|f| f.group.clone()),
        reservations: held.iter().filter_map(|held| reservation(&held.id, known, found)).collect(),
        ..api::convert::node_class(class)
    }
}

fn reservation(id: &str, known: &[Reservation], found: Option<&ClassFacts>) -> Option<Reservation> {
    let listed = known.iter().find(|r| r.id == id);
    let own = found.and_then(|f| f.reservations.iter().find(|r| r.id == id));
    let left = listed.into_iter().chain(own).map(|r| r.available).min()?;
    Some(Reservation { available: left, ..listed.or(own)?.clone() })
}

#[cfg(test)]
mod tests {
    use cloud::derive::{Family, Threshold};
    use cloud::template::InterfaceKind;

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

    #[test]
    fn a_reservation_of_the_status_counts_before_pricing_cache_lists_it() {
        let class: EC2NodeClass = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
            "status": {"capacityReservations": [{
                "id": "cr-1", "availabilityZone": "us-east-1a", "instanceMatchCriteria": "targeted",
                "instanceType": "m5.large", "ownerID": "1", "reservationType": "default", "state": "active"
            }]}
        }))
        .unwrap();
        let described = |id: &str, available| Reservation {
            id: id.to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            owner_id: "1".to_owned(),
            match_criteria: cloud::reservation::MatchCriteria::Targeted,
            kind: cloud::reservation::ReservationKind::Default,
            available,
            total: 5,
            end: None,
            interruptible: false,
            tags: cloud::Tags::new(),
        };
        let found = ClassFacts { reservations: vec![described("cr-1", 3)], ..ClassFacts::default() };
        let left = |known: &[Reservation], found: Option<&ClassFacts>| -> Vec<u32> {
            plain(&class, known, found).reservations.iter().map(|r| r.available).collect()
        };
        assert_eq!(left(&[], None), [0; 0], "nobody knows what is left of it");
        assert_eq!(left(&[], Some(&found)), [3]);
        assert_eq!(left(&[described("cr-1", 2), described("cr-2", 9)], Some(&found)), [2]);
        assert_eq!(left(&[described("cr-1", 4)], Some(&found)), [3]);
    }
}

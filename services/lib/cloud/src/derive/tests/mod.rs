mod offerings;
mod properties;

use model::labels;
use model::quantity::Quantity;
use model::resources::{self, Resources};

use super::*;
use crate::facts::TypeFacts;
use crate::nodeclass::{PlacementGroup, PlacementStrategy};
use crate::template::InterfaceKind;

fn facts(name: &str) -> TypeFacts {
    crate::memory::types().into_iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no type {name}"))
}

fn allocatable(facts: &TypeFacts, class: &NodeClass, settings: &Settings) -> Resources {
    let mut left = capacity(facts, class, settings, None);
    left.sub(&overhead(facts, class, settings, &left).total());
    left
}

fn text(resources: &Resources, name: &str) -> String {
    resources.get(name).to_string()
}

#[test]
fn allocatable_meets_the_worked_figures_of_the_reference() {
    let class = NodeClass::new(Family::Al2023);
    for (name, cpu, memory, pods) in [
        ("m5.large", "1930m", "6903Mi", "29"),
        ("m6g.large", "1930m", "6844Mi", "29"),
        ("p4d.24xlarge", "95690m", "1082712Mi", "737"),
        ("u-6tb1.56xlarge", "223370m", "5811134Mi", "737"),
        ("inf2.xlarge", "3920m", "14162Mi", "58"),
    ] {
        let left = allocatable(&facts(name), &class, &Settings::default());
        assert_eq!(text(&left, resources::CPU), cpu, "{name}");
        assert_eq!(left.get(resources::MEMORY), memory.parse().unwrap(), "{name}");
        assert_eq!(text(&left, resources::PODS), pods, "{name}");
        assert_eq!(text(&left, resources::EPHEMERAL_STORAGE), "17Gi", "{name}");
    }
}

#[test]
fn devices_become_extended_resources() {
    let class = NodeClass::new(Family::Al2023);
    let of = |name: &str| capacity(&facts(name), &class, &Settings::default(), None);
    let p4d = of("p4d.24xlarge");
    assert_eq!(text(&p4d, resources::NVIDIA_GPU), "8");
    assert_eq!(text(&p4d, resources::EFA), "4");
    assert_eq!(text(&p4d, resources::AWS_POD_ENI), "62");
    let inf2 = of("inf2.xlarge");
    assert_eq!(text(&inf2, resources::AWS_NEURON), "1");
    assert_eq!(text(&inf2, resources::AWS_NEURON_CORE), "2");
    assert_eq!(text(&of("inf2.24xlarge"), resources::AWS_NEURON_CORE), "12");
    assert!(!of("m5.large").contains(resources::NVIDIA_GPU));
}

#[test]
fn interfaces_for_efa_only_carry_no_pods() {
    let interface = |device_index, kind| InterfaceSpec { card_index: 0, device_index, kind };
    let interfaces = vec![interface(0, InterfaceKind::Interface), interface(1, InterfaceKind::EfaOnly)];
    let class = NodeClass { interfaces, ..NodeClass::new(Family::Al2023) };
    let found = capacity(&facts("p4d.24xlarge"), &class, &Settings::default(), None);
    assert_eq!(found.get(resources::PODS), Quantity::from_units(14 * 49 + 2));
    assert_eq!(text(&found, resources::EFA), "1");
}

#[test]
fn pods_by_addresses_agree_with_the_figures_eks_publishes() {
    let class = NodeClass::new(Family::Al2023);
    for (name, pods) in [
        ("t2.micro", 4),
        ("t3.micro", 4),
        ("t3.medium", 17),
        ("t3.large", 35),
        ("t3.xlarge", 58),
        ("m5.xlarge", 58),
        ("m5.4xlarge", 234),
        ("m5.12xlarge", 234),
        ("m5.24xlarge", 737),
        ("m5.metal", 737),
        ("m6g.medium", 8),
        ("c5.9xlarge", 234),
        ("c5n.18xlarge", 737),
        ("r5.large", 29),
        ("g4dn.xlarge", 29),
        ("g5.xlarge", 58),
        ("inf1.xlarge", 38),
        ("i3.large", 29),
        ("m4.large", 20),
        ("c4.large", 29),
        ("a1.large", 29),
        ("t4g.medium", 17),
    ] {
        let found = capacity(&facts(name), &class, &Settings::default(), None).get(resources::PODS);
        assert_eq!(found, Quantity::from_units(pods), "{name}");
    }
}

#[test]
fn reserved_interfaces_lower_pods_but_not_what_is_kept_for_kubelet() {
    let class = NodeClass::new(Family::Al2023);
    let m5 = facts("m5.large");
    let settings = |reserved_enis| Settings { reserved_enis, ..Settings::default() };
    for (reserved, pods) in [(0, 29), (1, 20), (2, 11), (3, 0), (9, 0)] {
        let found = capacity(&m5, &class, &settings(reserved), None);
        assert_eq!(found.get(resources::PODS), Quantity::from_units(pods), "{reserved} reserved");
        let kept = overhead(&m5, &class, &settings(reserved), &found).kube_reserved;
        assert_eq!(text(&kept, resources::MEMORY), "574Mi", "{reserved} reserved");
    }
}

#[test]
fn a_class_with_prefix_delegation_says_how_many_pods_fit() {
    let kubelet = Kubelet { max_pods: Some(110), ..Kubelet::default() };
    let class = NodeClass { kubelet, ..NodeClass::new(Family::Al2023) };
    let (m5, settings) = (facts("m5.large"), Settings { reserved_enis: 1, ..Settings::default() });
    let found = capacity(&m5, &class, &settings, None);
    assert_eq!(found.get(resources::PODS), Quantity::from_units(110));
    let kept = overhead(&m5, &class, &settings, &found).kube_reserved;
    assert_eq!(
        text(&kept, resources::MEMORY),
        "574Mi",
        "kubelet keeps what 29 addresses need, as in the reference"
    );
}

#[test]
fn families_differ_in_pods_and_reservations() {
    let m5 = facts("m5.large");
    let settings = Settings::default();
    let with = |family, max_pods, pods_per_core| {
        let kubelet = Kubelet { max_pods, pods_per_core, ..Kubelet::default() };
        let class = NodeClass { kubelet, ..NodeClass::new(family) };
        let capacity = capacity(&m5, &class, &settings, None);
        let kept = overhead(&m5, &class, &settings, &capacity).kube_reserved;
        (capacity.get(resources::PODS).value_ceil(), text(&kept, resources::MEMORY))
    };
    assert_eq!(with(Family::Al2023, Some(110), None), (110, "574Mi".into()));
    assert_eq!(with(Family::Bottlerocket, Some(110), None), (110, "1465Mi".into()));
    assert_eq!(with(Family::Windows2022, None, None), (110, "1465Mi".into()));
    assert_eq!(with(Family::Al2, None, Some(4)), (8, "574Mi".into()));
    assert_eq!(with(Family::Al2, None, Some(0)), (29, "574Mi".into()));
    assert_eq!(with(Family::Bottlerocket, None, Some(4)), (29, "574Mi".into()));
    let windows = capacity(&m5, &NodeClass::new(Family::Windows2022), &settings, None);
    assert_eq!(text(&windows, resources::AWS_PRIVATE_IPV4), "9");
    assert_eq!(text(&windows, resources::EPHEMERAL_STORAGE), "50Gi");
}

#[test]
fn ephemeral_storage_follows_policy_then_volumes_then_family() {
    let volume = |device: &str, root, size: Option<&str>| Volume {
        device_name: device.to_owned(),
        root,
        size: size.map(|s| s.parse().unwrap()),
    };
    let class = |family, raid0, volumes: Vec<Volume>| NodeClass { raid0, volumes, ..NodeClass::new(family) };
    let (m5, m5d) = (facts("m5.large"), facts("m5d.large"));
    for (facts, class, expected) in [
        (&m5d, class(Family::Al2023, true, vec![volume("/dev/xvda", false, Some("50Gi"))]), "75G"),
        (&m5, class(Family::Al2023, true, vec![]), "20Gi"),
        (&m5, class(Family::Al2023, false, vec![volume("/dev/xvda", false, Some("100Gi"))]), "100Gi"),
        (&m5, class(Family::Al2023, false, vec![volume("/dev/xvdb", false, Some("100Gi"))]), "20Gi"),
        (&m5, class(Family::Al2023, false, vec![volume("/dev/xvdb", true, Some("70Gi"))]), "70Gi"),
        (&m5, class(Family::Bottlerocket, false, vec![volume("/dev/xvdb", false, Some("90Gi"))]), "90Gi"),
        (&m5, class(Family::Bottlerocket, false, vec![volume("/dev/xvda", false, Some("90Gi"))]), "20Gi"),
        (
            &m5,
            class(
                Family::Custom,
                false,
                vec![volume("/dev/sda1", false, Some("30Gi")), volume("/dev/sdb", false, Some("40Gi"))],
            ),
            "40Gi",
        ),
        (
            &m5,
            class(
                Family::Custom,
                false,
                vec![volume("/dev/sda1", false, Some("30Gi")), volume("/dev/sdb", false, None)],
            ),
            "20Gi",
        ),
    ] {
        let found = capacity(facts, &class, &Settings::default(), None);
        let expected: Quantity = expected.parse().unwrap();
        assert_eq!(found.get(resources::EPHEMERAL_STORAGE), expected, "{class:?}");
    }
}

#[test]
fn kubelet_settings_replace_only_the_figures_they_name() {
    let m5 = facts("m5.large");
    let settings = Settings::default();
    let kubelet = Kubelet {
        kube_reserved: Resources::new().with(resources::CPU, "200m".parse().unwrap()),
        system_reserved: Resources::new().with(resources::MEMORY, "1Gi".parse().unwrap()),
        eviction_memory: Threshold::parse("5%"),
        eviction_storage: Threshold::parse("100%"),
        ..Kubelet::default()
    };
    let class = NodeClass { kubelet, ..NodeClass::new(Family::Al2023) };
    let all = capacity(&m5, &class, &settings, None);
    let kept = overhead(&m5, &class, &settings, &all);
    assert_eq!(text(&kept.kube_reserved, resources::CPU), "200m");
    assert_eq!(text(&kept.kube_reserved, resources::MEMORY), "574Mi");
    assert_eq!(text(&kept.system_reserved, resources::MEMORY), "1Gi");
    let memory = 7577_i64 << 20;
    assert_eq!(kept.eviction.get(resources::MEMORY).value_ceil(), (memory + 19) / 20);
    assert!(kept.eviction.get(resources::EPHEMERAL_STORAGE).is_zero());
}

#[test]
fn learned_memory_replaces_the_estimate_but_not_the_base_of_percentages() {
    let m5 = facts("m5.large");
    let settings = Settings::default();
    let kubelet = Kubelet { eviction_memory: Threshold::parse("10%"), ..Kubelet::default() };
    let class = NodeClass { kubelet, ..NodeClass::new(Family::Al2023) };
    let learned = capacity(&m5, &class, &settings, Some(7800 << 20));
    assert_eq!(text(&learned, resources::MEMORY), "7800Mi");
    let kept = overhead(&m5, &class, &settings, &learned);
    let estimate = 7577_i64 << 20;
    assert_eq!(kept.eviction.get(resources::MEMORY).value_ceil(), (estimate + 9) / 10);
}

#[test]
fn thresholds_are_amounts_or_shares_and_nothing_else() {
    for (text, expected) in [
        ("5%", Some(Threshold::Share(50_000))),
        ("7.5%", Some(Threshold::Share(75_000))),
        (".5%", Some(Threshold::Share(5_000))),
        ("100%", Some(Threshold::Share(1_000_000))),
        ("100Mi", Some(Threshold::Amount("100Mi".parse().unwrap()))),
        ("101%", None),
        ("-5%", None),
        ("-1Gi", None),
        ("%", None),
        ("lots", None),
        ("", None),
    ] {
        assert_eq!(Threshold::parse(text), expected, "{text:?}");
    }
}

#[test]
fn labels_are_those_of_the_reference() {
    let class = NodeClass::new(Family::Al2023);
    let of = |name: &str| requirements(&facts(name), &class, "us-east-1").labels();
    let check = |name: &str, expected: &[(&str, &str)]| {
        let found = of(name);
        for (key, value) in expected {
            assert_eq!(found.get(*key).map(String::as_str), Some(*value), "{name} {key}");
        }
    };
    check(
        "g4dn.xlarge",
        &[
            (labels::ARCH, "amd64"),
            (labels::OS, "linux"),
            (labels::INSTANCE_CATEGORY, "g"),
            (labels::INSTANCE_GENERATION, "4"),
            (labels::INSTANCE_FAMILY, "g4dn"),
            (labels::INSTANCE_SIZE, "xlarge"),
            (labels::INSTANCE_CPU, "4"),
            (labels::INSTANCE_MEMORY, "16384"),
            (labels::INSTANCE_CPU_MANUFACTURER, "intel"),
            (labels::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, "2500"),
            (labels::INSTANCE_NETWORK_BANDWIDTH, "5000"),
            (labels::INSTANCE_EBS_BANDWIDTH, "3500"),
            (labels::INSTANCE_LOCAL_NVME, "125"),
            (labels::INSTANCE_HYPERVISOR, "nitro"),
            (labels::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, "true"),
            (labels::INSTANCE_CAPABILITY_FLEX, "false"),
            (labels::INSTANCE_GPU_NAME, "t4"),
            (labels::INSTANCE_GPU_MANUFACTURER, "nvidia"),
            (labels::INSTANCE_GPU_COUNT, "1"),
            (labels::INSTANCE_GPU_MEMORY, "16384"),
        ],
    );
    check("m7i-flex.large", &[(labels::INSTANCE_CAPABILITY_FLEX, "true")]);
    check("m5.metal", &[(labels::INSTANCE_HYPERVISOR, ""), (labels::INSTANCE_SIZE, "metal")]);
    check(
        "inf2.xlarge",
        &[
            (labels::INSTANCE_ACCELERATOR_NAME, "inferentia2"),
            (labels::INSTANCE_ACCELERATOR_MANUFACTURER, "aws"),
            (labels::INSTANCE_ACCELERATOR_COUNT, "1"),
        ],
    );
    assert!(!of("m5.large").contains_key(labels::INSTANCE_GPU_NAME));
    assert!(!of("m5.large").contains_key(labels::INSTANCE_LOCAL_NVME));
    assert!(!of("m5.large").contains_key(labels::WINDOWS_BUILD));

    let windows = NodeClass::new(Family::Windows2022);
    let amd = requirements(&facts("m5.large"), &windows, "us-east-1");
    assert_eq!(amd.get(labels::OS).and_then(|r| r.single()), Some("windows"));
    assert_eq!(amd.get(labels::WINDOWS_BUILD).and_then(|r| r.single()), Some("10.0.20348"));
    let arm = requirements(&facts("m6g.large"), &windows, "us-east-1");
    assert!(arm.get(labels::OS).is_some_and(|r| r.is_empty()), "Windows runs on no arm64 type");
}

#[test]
fn types_that_a_class_cannot_use_are_told_with_the_cause() {
    use compatible::Incompatible as I;
    let interface = |card_index, device_index, kind| InterfaceSpec { card_index, device_index, kind };
    let base = || NodeClass::new(Family::Al2023);
    let with = |interfaces: Vec<InterfaceSpec>| NodeClass { interfaces, ..base() };
    let plain = InterfaceKind::Interface;
    let group = |strategy| NodeClass {
        placement_group: Some(PlacementGroup { id: "pg-1".into(), name: "g".into(), strategy }),
        ..base()
    };
    let tracking = NodeClass { connection_tracking: true, ..base() };
    let nested = NodeClass { nested_virtualization: true, ..base() };
    let efa = interface(0, 1, InterfaceKind::EfaOnly);
    for (name, class, expected) in [
        ("m5.large", base(), Ok(())),
        ("a1.large", base(), Err(I::ImageFamily)),
        ("a1.large", NodeClass::new(Family::Bottlerocket), Ok(())),
        ("m5.large", with(vec![interface(0, 0, plain)]), Ok(())),
        ("m5.large", with(vec![interface(0, 3, plain)]), Err(I::CardFull { card: 0, device: 3 })),
        ("m5.large", with(vec![interface(1, 0, plain)]), Err(I::CardMissing { card: 1 })),
        ("m5.large", with(vec![interface(0, 0, plain), efa]), Err(I::TooFewEfa { wanted: 1, has: 0 })),
        ("p4d.24xlarge", with(vec![interface(0, 0, plain), efa]), Ok(())),
        ("m5.large", tracking.clone(), Ok(())),
        ("m5.metal", tracking.clone(), Err(I::NotNitro)),
        ("m4.large", tracking, Err(I::NotNitro)),
        ("m5.large", nested, Err(I::NoNestedVirtualization)),
        ("m5.large", group(PlacementStrategy::Cluster), Ok(())),
        ("t3.medium", group(PlacementStrategy::Cluster), Err(I::PlacementStrategy)),
        ("t3.medium", group(PlacementStrategy::Partition(3)), Ok(())),
    ] {
        assert_eq!(compatible::check(&facts(name), &class), expected, "{name} {class:?}");
    }
}

#[test]
fn every_known_type_keeps_something_for_pods() {
    for family in Family::ALL {
        for facts in crate::memory::types() {
            // The reservations leave nothing of the smallest types.
            if facts.memory_mib >= 4096 {
                let left = allocatable(&facts, &NodeClass::new(family), &Settings::default());
                assert!(!left.has_negative(), "{} under {}", facts.name, family.as_str());
            }
        }
    }
}

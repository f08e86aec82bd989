use model::quantity::Quantity;
use model::resources::{self, Resources};
use proptest::prelude::*;

use super::super::*;
use crate::facts::TypeFacts;

fn any_facts() -> impl Strategy<Value = TypeFacts> {
    let figures = (1_u32..=1024, 128_u64..=64 << 20, 0_u32..=16, 0_u32..=64, any::<bool>(), 0_u64..=200_000);
    figures.prop_map(|(vcpus, memory_mib, interfaces, addresses, arm, store)| TypeFacts {
        name: "x1.large".into(),
        architectures: vec![if arm { "arm64".into() } else { "x86_64".into() }],
        vcpus,
        memory_mib,
        max_network_interfaces: interfaces,
        ipv4_per_interface: addresses,
        instance_store_gb: store,
        ..TypeFacts::default()
    })
}

proptest! {
    #[test]
    fn no_figure_is_negative_and_no_estimate_exceeds_what_ec2_says(
        facts in any_facts(), overhead_share in 0_u32..=1_000_000, reserved_enis in 0_u32..=20, raid0 in any::<bool>()
    ) {
        let settings = Settings { vm_memory_overhead_millionths: overhead_share, reserved_enis, ..Settings::default() };
        for family in Family::ALL {
            let class = NodeClass { raid0, ..NodeClass::new(family) };
            let all = capacity(&facts, &class, &settings, None);
            prop_assert!(!all.has_negative());
            let limit = i64::try_from(facts.memory_mib << 20).unwrap();
            prop_assert!(all.get(resources::MEMORY).value_ceil() <= limit);
            prop_assert!(!overhead(&facts, &class, &settings, &all).total().has_negative());
        }
    }

    #[test]
    fn a_larger_machine_never_keeps_less_cpu_for_kubelet(vcpus in 1_u32..=1023) {
        let kept = |vcpus| {
            let facts = TypeFacts { vcpus, ..TypeFacts::default() };
            let class = NodeClass::new(Family::Al2023);
            overhead(&facts, &class, &Settings::default(), &Resources::new()).kube_reserved.get(resources::CPU)
        };
        prop_assert!(kept(vcpus) <= kept(vcpus + 1));
        prop_assert!(kept(vcpus) >= Quantity::from_milli(60));
    }
}

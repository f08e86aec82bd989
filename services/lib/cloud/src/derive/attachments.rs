//! How many volumes of pods a new node can have attached, as the EBS CSI driver will report it once it runs there.

use super::inputs::NodeClass;
use crate::facts::TypeFacts;

const XEN: &str = "xen";

/// EBS volumes for pods: what EC2 attaches, less the node's own volumes and, where they share the slots (Nitro types without a
/// dedicated limit), less its further network interfaces. The driver counts the interfaces that it finds when it starts: those of
/// the launch, and the one that the VPC CNI keeps in reserve. `None` where EC2 does not tell.
pub(super) fn of_ebs(facts: &TypeFacts, class: &NodeClass) -> Option<u32> {
    let most = (facts.ebs_attachments > 0).then_some(facts.ebs_attachments)?;
    let own_volumes = match class.volumes.len() {
        0 => class.family.default_volumes().len(),
        given => given,
    };
    let own_volumes = u32::try_from(own_volumes).unwrap_or(u32::MAX).max(1);
    let left = most.saturating_sub(own_volumes).saturating_sub(further_interfaces(facts, class));
    // The driver never reports less.
    Some(left.max(1))
}

/// EC2's figure has the first interface taken off already.
fn further_interfaces(facts: &TypeFacts, class: &NodeClass) -> u32 {
    if !facts.ebs_attachments_shared || facts.hypervisor == XEN {
        return 0;
    }
    let launched = u32::try_from(class.interfaces.len()).unwrap_or(u32::MAX).max(1);
    let possible = facts.card_interfaces.iter().sum::<u32>().max(facts.max_network_interfaces);
    launched.min(possible.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::super::family::Family;
    use super::super::inputs::{InterfaceSpec, Volume};
    use super::*;
    use crate::template::InterfaceKind;

    fn limit(name: &str, class: &NodeClass) -> Option<u32> {
        let types = crate::memory::types();
        of_ebs(types.iter().find(|facts| facts.name == name).expect("the type is in the sample"), class)
    }

    #[test]
    fn slots_are_shared_with_interfaces_only_where_ec2_says_so() {
        let class = NodeClass::new(Family::Al2023);
        // What nodes of these types report in their CSINode: 28 slots less two interfaces, the root volume and local disks.
        assert_eq!(limit("m5.large", &class), Some(25));
        assert_eq!(limit("m5d.large", &class), Some(24));
        assert_eq!(limit("c4.large", &class), Some(39), "Xen");
        assert_eq!(limit("m7i.large", &class), Some(31), "dedicated to volumes");
    }

    #[test]
    fn the_node_s_own_volumes_and_interfaces_take_slots() {
        let mut class = NodeClass::new(Family::Bottlerocket);
        assert_eq!(limit("m5.large", &class), Some(24), "an image with two volumes");
        class.volumes = (0..4)
            .map(|n| Volume { device_name: format!("/dev/xvd{n}"), root: n == 0, size: None })
            .collect();
        assert_eq!(limit("m5.large", &class), Some(22));
        class.interfaces = (0..2)
            .map(|n| InterfaceSpec { card_index: 0, device_index: n, kind: InterfaceKind::Interface })
            .collect();
        assert_eq!(limit("m5.large", &class), Some(21));
    }

    #[test]
    fn a_type_without_a_figure_is_not_limited_and_a_small_one_takes_one_volume() {
        let class = NodeClass::new(Family::Al2023);
        assert_eq!(of_ebs(&TypeFacts::default(), &class), None);
        let tiny = TypeFacts {
            ebs_attachments: 2,
            ebs_attachments_shared: true,
            max_network_interfaces: 4,
            ..TypeFacts::default()
        };
        assert_eq!(of_ebs(&tiny, &class), Some(1));
    }
}

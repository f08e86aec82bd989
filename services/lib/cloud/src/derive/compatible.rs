//! Whether a type can run under a node class at all.

use std::fmt;

use super::family::Family;
use super::inputs::NodeClass;
use crate::facts::TypeFacts;

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Incompatible {
    /// The class lists interfaces, and the type has no network cards or no ENA.
    NoNetworkCards,
    /// The class uses a network card the type does not have.
    CardMissing {
        card: u32,
    },
    /// The card holds fewer interfaces than the class uses.
    CardFull {
        card: u32,
        device: u32,
    },
    /// The class wants more EFA interfaces than the type has.
    TooFewEfa {
        wanted: u32,
        has: u32,
    },
    /// AL2023 does not boot on first-generation Graviton.
    ImageFamily,
    NoNestedVirtualization,
    /// The type cannot be put into a group of this strategy.
    PlacementStrategy,
    /// Connection tracking is configurable on Nitro only.
    NotNitro,
}

pub fn check(facts: &TypeFacts, class: &NodeClass) -> Result<(), Incompatible> {
    if !class.interfaces.is_empty() {
        interfaces(facts, class)?;
    }
    if class.family == Family::Al2023 && facts.name.starts_with("a1.") {
        return Err(Incompatible::ImageFamily);
    }
    if class.nested_virtualization && !facts.cpu_features.iter().any(|f| f == "nested-virtualization") {
        return Err(Incompatible::NoNestedVirtualization);
    }
    if let Some(group) = &class.placement_group
        && !facts.placement_strategies.iter().any(|s| s == group.strategy.as_str())
    {
        return Err(Incompatible::PlacementStrategy);
    }
    // Bare metal of the Nitro generation reports no hypervisor, and is left out as in the reference.
    if class.connection_tracking && facts.hypervisor != "nitro" {
        return Err(Incompatible::NotNitro);
    }
    Ok(())
}

fn interfaces(facts: &TypeFacts, class: &NodeClass) -> Result<(), Incompatible> {
    if facts.card_interfaces.is_empty() || !facts.ena {
        return Err(Incompatible::NoNetworkCards);
    }
    for interface in &class.interfaces {
        let card = interface.card_index;
        let holds = facts.card_interfaces.get(card as usize).ok_or(Incompatible::CardMissing { card })?;
        if interface.device_index >= *holds {
            return Err(Incompatible::CardFull { card, device: interface.device_index });
        }
    }
    let wanted = u32::try_from(class.efa_only().count()).unwrap_or(u32::MAX);
    let has = facts.max_efa_interfaces;
    if wanted > has { Err(Incompatible::TooFewEfa { wanted, has }) } else { Ok(()) }
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNetworkCards => f.write_str("the type has no network cards with ENA"),
            Self::CardMissing { card } => write!(f, "the type has no network card {card}"),
            Self::CardFull { card, device } => {
                write!(f, "network card {card} of the type has no interface {device}")
            }
            Self::TooFewEfa { wanted, has } => {
                write!(f, "{wanted} EFA interfaces are wanted and the type has {has}")
            }
            Self::ImageFamily => f.write_str("AL2023 does not run on a1 types"),
            Self::NoNestedVirtualization => f.write_str("the type has no nested virtualization"),
            Self::PlacementStrategy => {
                f.write_str("the type does not support the placement group's strategy")
            }
            Self::NotNitro => f.write_str("connection tracking needs a Nitro type"),
        }
    }
}

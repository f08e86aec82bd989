//! What a derivation depends on besides EC2's facts: the node class in plain form, and settings of the installation.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::Resources;

use super::family::Family;
use crate::facts::Zone;
use crate::nodeclass::PlacementGroup;
use crate::reservation::Reservation;
use crate::template::InterfaceKind;
use crate::unavailable::Marks;

/// The parts of an EC2NodeClass (spec and status) that decide what its nodes offer.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeClass {
    pub family: Family,
    pub kubelet: Kubelet,
    pub volumes: Vec<Volume>,
    /// `instanceStorePolicy: RAID0`.
    pub raid0: bool,
    pub interfaces: Vec<InterfaceSpec>,
    /// `cpuOptions.nestedVirtualization: enabled`.
    pub nested_virtualization: bool,
    /// `connectionTracking` is set.
    pub connection_tracking: bool,
    pub placement_group: Option<PlacementGroup>,
    /// `status.subnets`.
    pub subnets: Vec<SubnetZone>,
    /// Reservations of `status.capacityReservations`, with what is left of them.
    pub reservations: Vec<Reservation>,
}

impl NodeClass {
    /// A class of this family without any other choice made.
    pub fn new(family: Family) -> Self {
        Self {
            family,
            kubelet: Kubelet::default(),
            volumes: Vec::new(),
            raid0: false,
            interfaces: Vec::new(),
            nested_virtualization: false,
            connection_tracking: false,
            placement_group: None,
            subnets: Vec::new(),
            reservations: Vec::new(),
        }
    }

    pub(super) fn efa_only(&self) -> impl Iterator<Item = &InterfaceSpec> {
        self.interfaces.iter().filter(|i| i.kind == InterfaceKind::EfaOnly)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kubelet {
    pub max_pods: Option<u32>,
    pub pods_per_core: Option<u32>,
    /// Each entry replaces the computed figure of that resource.
    pub kube_reserved: Resources,
    pub system_reserved: Resources,
    /// `evictionHard["memory.available"]`. Soft thresholds do not count.
    pub eviction_memory: Option<Threshold>,
    /// `evictionHard["nodefs.available"]`.
    pub eviction_storage: Option<Threshold>,
}

/// An eviction threshold: an amount, or a part of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    Amount(Quantity),
    /// Millionths of the capacity.
    Share(u32),
}

impl Threshold {
    /// `100Mi` or `5%`. `None` for anything else, negative amounts included.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(number) => {
                let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
                let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
                if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
                    return None;
                }
                // One percent is 10^4 millionths; finer parts than that are below any meaning here.
                let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(4).collect();
                let share: u32 = format!("{whole}{kept}").parse().ok()?;
                (share <= 1_000_000).then_some(Self::Share(share))
            }
            None => text.parse::<Quantity>().ok().filter(|q| !q.is_negative()).map(Self::Amount),
        }
    }

    /// Bytes kept free out of `capacity` bytes. All of it (100 %) means: no threshold.
    pub(super) fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Amount(amount) => amount.value_ceil(),
            Self::Share(1_000_000) => 0,
            Self::Share(millionths) => share(capacity, millionths),
        }
    }
}

/// `millionths` of `amount`, rounded up.
pub(super) fn share(amount: i64, millionths: u32) -> i64 {
    let product = i128::from(amount) * i128::from(millionths);
    i64::try_from(product.div_euclid(1_000_000) + i128::from(product.rem_euclid(1_000_000) > 0))
        .unwrap_or(i64::MAX)
}

/// A block device mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    pub device_name: String,
    pub root: bool,
    pub size: Option<Quantity>,
}

/// An entry of `spec.networkInterfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceSpec {
    pub card_index: u32,
    pub device_index: u32,
    pub kind: InterfaceKind,
}

/// A subnet of the class and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetZone {
    pub id: String,
    /// Zone name.
    pub zone: String,
    pub zone_id: Option<String>,
}

/// Settings of the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `VM_MEMORY_OVERHEAD_PERCENT` in millionths: the share of memory that the hypervisor is assumed to keep.
    pub vm_memory_overhead_millionths: u32,
    pub reserved_enis: u32,
    /// Feature gate ReservedCapacity.
    pub reserved_capacity: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { vm_memory_overhead_millionths: 75_000, reserved_enis: 0, reserved_capacity: true }
    }
}

/// The state of the region at one moment, shared by all types.
#[derive(Debug, Clone, Copy)]
pub struct Region<'a> {
    pub name: &'a str,
    /// In the order that catalogue entries refer to.
    pub zones: &'a [Zone],
    pub marks: &'a Marks,
    /// Absolute prices of validated NodeOverlays that name nothing but instance types, for types without a public price.
    pub overlay_prices: &'a BTreeMap<String, MicroDollars>,
    /// Memory in bytes that nodes of a type (with the class's images) really reported.
    pub learned_memory: &'a BTreeMap<String, u64>,
    pub now: Timestamp,
}

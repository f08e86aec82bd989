//! Instance types and offerings: what can be launched, and for how much.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::labels;
use crate::price::MicroDollars;
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::resources::Resources;

/// Labels of an object, ordered by key.
pub type LabelMap = BTreeMap<String, String>;

/// An instance type as one node class would run it.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    pub name: Arc<str>,
    /// What its nodes' labels can be: its own labels, its name, and the zones, zone ids, capacity types and reservations
    /// of its *available* offerings. A well-known key that is missing here is one that its nodes will not have.
    pub requirements: Requirements,
    pub capacity: Resources,
    /// Sum of kube-reserved, system-reserved and eviction threshold. Allocatable is capacity less this.
    pub overhead: Resources,
    pub offerings: Vec<Offering>,
    pub overlaid: Overlaid,
    /// Volumes that a new node can have attached, by CSI driver; a driver that is not listed is not limited.
    pub attach_limits: BTreeMap<Arc<str>, u32>,
}

/// What NodeOverlays set on a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// Of some offering.
    pub price: bool,
    pub capacity: bool,
}

/// One way to launch a type: where, how bought, for how much.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    pub zone: Arc<str>,
    pub zone_id: Option<Arc<str>>,
    pub capacity_type: CapacityType,
    pub price: MicroDollars,
    pub available: bool,
    /// Given exactly where the capacity type is reserved.
    pub reservation: Option<Reservation>,
    /// Resources that differ from the type's own when launched this way; each given one replaces the type's.
    pub capacity_override: Resources,
    pub overhead_override: Resources,
}

/// A capacity reservation behind an offering. The same id may stand behind several offerings; its capacity is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub id: Arc<str>,
    /// Instances left.
    pub capacity: u32,
    /// `default` or `capacity-block`, the value of the reservation-type label.
    pub kind: Arc<str>,
    /// EC2 may take it back early.
    pub interruptible: bool,
}

impl Reservation {
    /// The value of the label that says whether it is interruptible.
    pub fn interruptible_label(&self) -> &'static str {
        if self.interruptible { "true" } else { "false" }
    }
}

/// Order of preference at launch: reserved, else spot, else on-demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    Reserved,
    Spot,
    OnDemand,
}

impl CapacityType {
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Spot, Self::OnDemand];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str() == text)
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl InstanceType {
    /// The type whose single-valued labels are given; name, zones, zone ids, capacity types and reservations follow from
    /// the name and the available offerings.
    pub fn new(
        name: &str,
        own_labels: &LabelMap,
        capacity: Resources,
        overhead: Resources,
        offerings: Vec<Offering>,
    ) -> Self {
        let mut requirements = Requirements::new();
        for (key, value) in own_labels {
            requirements.add(Requirement::is(key, value.as_str()));
        }
        Self::with_requirements(name, requirements, capacity, overhead, offerings)
    }

    /// As [`InstanceType::new`], for types whose own labels may take several values.
    pub fn with_requirements(
        name: &str,
        mut requirements: Requirements,
        capacity: Resources,
        overhead: Resources,
        offerings: Vec<Offering>,
    ) -> Self {
        let open = || offerings.iter().filter(|o| o.is_open());
        let mut define = |key: &str, values: Vec<&str>| {
            requirements.add(Requirement::one_of(key, values));
        };
        define(labels::INSTANCE_TYPE, vec![name]);
        define(labels::ZONE, open().map(|o| &*o.zone).collect());
        define(labels::CAPACITY_TYPE, open().map(|o| o.capacity_type.as_str()).collect());
        let zone_ids: Vec<&str> = open().filter_map(|o| o.zone_id.as_deref()).collect();
        if !zone_ids.is_empty() {
            define(labels::ZONE_ID, zone_ids);
        }
        let reservations: Vec<&Reservation> = open().filter_map(|o| o.reservation.as_ref()).collect();
        if !reservations.is_empty() {
            define(labels::CAPACITY_RESERVATION_ID, reservations.iter().map(|r| &*r.id).collect());
            define(labels::CAPACITY_RESERVATION_TYPE, reservations.iter().map(|r| &*r.kind).collect());
            let interruptible = reservations.iter().map(|r| r.interruptible_label()).collect();
            define(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, interruptible);
        }
        let overlaid = Overlaid::default();
        let attach_limits = BTreeMap::new();
        Self { name: Arc::from(name), requirements, capacity, overhead, offerings, overlaid, attach_limits }
    }
}

impl Offering {
    /// Can be launched now: available, and its reservation, if it has one, has room.
    pub fn is_open(&self) -> bool {
        self.available && self.reservation.as_ref().is_none_or(|r| r.capacity > 0)
    }
}

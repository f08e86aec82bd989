//! What a launch gave: everything the NodeClaim's status, labels and annotations are written from. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::EC2NodeClass;
use cloud::instance::Instance;
use cloud::nodeclass::PlacementGroup;
use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::price::MicroDollars;
use model::resources::{EFA, Resources};

use super::candidates::{allocatable, capacity};
use super::claim_request::ClaimRequest;
use super::template::partition;

#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    pub instance_id: String,
    /// `aws:///<zone>/<id>`.
    pub provider_id: String,
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    pub zone_id: Option<String>,
    pub capacity_type: CapacityType,
    pub image_id: String,
    /// As the catalogue has it; `None` when it no longer lists the offering.
    pub price: Option<MicroDollars>,
    /// To be put on the NodeClaim, over its own.
    pub labels: BTreeMap<String, String>,
    /// To be put on the NodeClaim: hash and version of the class, the instance profile, applied overlays.
    pub annotations: BTreeMap<String, String>,
    /// Without zeros.
    pub capacity: Resources,
    /// Without zeros.
    pub allocatable: Resources,
    pub reservation_id: Option<String>,
    /// The instance was there already, launched by an earlier attempt for the same claim.
    pub adopted: bool,
}

/// Facts of the instance itself, from a fleet's answer or a describe.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) id: String,
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) zone_id: Option<String>,
    pub(super) image_id: String,
    pub(super) capacity_type: CapacityType,
    pub(super) tenancy: String,
    pub(super) efa_interfaces: u32,
    pub(super) reservation: Option<(String, &'static str, bool)>,
    pub(super) partition: Option<u32>,
    pub(super) subnet_id: Option<String>,
    pub(super) adopted: bool,
}

impl Facts {
    /// Of an instance found by its tags.
    pub(super) fn of(instance: &Instance, class: &EC2NodeClass, reserved_capacity: bool) -> Self {
        let capacity_type = instance.capacity_type(reserved_capacity);
        let listed = class.status.iter().flat_map(|s| s.capacity_reservations.iter().flatten());
        let own = instance.reservation_id.as_ref().filter(|_| capacity_type == CapacityType::Reserved);
        let reservation = own.map(|id| {
            let known = listed.clone().find(|r| r.id == *id);
            let block = instance.lifecycle == cloud::instance::Lifecycle::CapacityBlock;
            let interruptible = known.is_some_and(|r| r.interruptible == Some(true))
                || instance.lifecycle == cloud::instance::Lifecycle::InterruptibleReservation;
            (id.clone(), if block { "capacity-block" } else { "default" }, interruptible)
        });
        Self {
            id: instance.id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            zone_id: instance.zone_id.clone(),
            image_id: instance.image_id.clone(),
            capacity_type,
            tenancy: instance.tenancy.clone(),
            efa_interfaces: instance.efa_interfaces,
            reservation,
            partition: instance.partition,
            subnet_id: instance.subnet_id.clone(),
            adopted: true,
        }
    }
}

/// `types` is the class's catalogue; a type it no longer lists leaves labels and capacity empty.
pub(super) fn describe(
    facts: Facts,
    wanted: &ClaimRequest,
    class: &EC2NodeClass,
    types: &[InstanceType],
    group: Option<&PlacementGroup>,
) -> Launched {
    let kind = types.iter().find(|t| *t.name == *facts.instance_type);
    let is_it = |o: &&Offering| {
        *o.zone == *facts.zone
            && o.capacity_type == facts.capacity_type
            && o.reservation.as_ref().map(|r| &*r.id)
                == facts.reservation.as_ref().map(|(id, ..)| id.as_str())
    };
    let offering = kind.and_then(|k| k.offerings.iter().find(is_it));
    let any = kind.and_then(|k| offering.or_else(|| k.offerings.first()).map(|o| (k, o)));
    let with_efa = |mut all: Resources| {
        if facts.efa_interfaces == 0 {
            all.remove(EFA);
        }
        without_zeros(&all)
    };
    let subnets = class.status.iter().flat_map(|s| s.subnets.iter().flatten());
    let zone_id = facts
        .zone_id
        .clone()
        .or_else(|| subnets.clone().find(|s| s.zone == facts.zone).and_then(|s| s.zone_id.clone()));
    Launched {
        provider_id: format!("aws:///{}/{}", facts.zone, facts.id),
        price: offering.map(|o| o.price),
        labels: labels_of(&facts, wanted, kind, zone_id.as_deref(), group),
        annotations: annotations(class, wanted, facts.subnet_id.as_deref()),
        capacity: any.map(|(k, o)| with_efa(capacity(k, o))).unwrap_or_default(),
        allocatable: any.map(|(k, o)| with_efa(allocatable(k, o))).unwrap_or_default(),
        instance_id: facts.id,
        instance_type: facts.instance_type,
        zone: facts.zone,
        zone_id,
        capacity_type: facts.capacity_type,
        image_id: facts.image_id,
        reservation_id: facts.reservation.map(|(id, ..)| id),
        adopted: facts.adopted,
    }
}

fn without_zeros(all: &Resources) -> Resources {
    all.iter()
        .filter(|(_, amount)| !amount.is_zero())
        .map(|(name, amount)| (name.to_owned(), amount))
        .collect()
}

fn labels_of(
    facts: &Facts,
    wanted: &ClaimRequest,
    kind: Option<&InstanceType>,
    zone_id: Option<&str>,
    group: Option<&PlacementGroup>,
) -> BTreeMap<String, String> {
    let mut all = kind.map(|k| k.requirements.labels()).unwrap_or_default();
    for key in [
        labels::CAPACITY_RESERVATION_ID,
        labels::CAPACITY_RESERVATION_TYPE,
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        labels::PLACEMENT_GROUP_PARTITION,
    ] {
        all.remove(key);
    }
    let mut put = |key: &str, value: &str| all.insert(key.to_owned(), value.to_owned());
    put(labels::INSTANCE_TYPE, &facts.instance_type);
    put(labels::ZONE, &facts.zone);
    if let Some(id) = zone_id {
        put(labels::ZONE_ID, id);
    }
    put(labels::CAPACITY_TYPE, facts.capacity_type.as_str());
    put(labels::INSTANCE_TENANCY, &facts.tenancy);
    if !wanted.pool.is_empty() {
        put(labels::NODEPOOL, &wanted.pool);
    }
    if let Some((id, kind, interruptible)) = &facts.reservation {
        put(labels::CAPACITY_RESERVATION_ID, id);
        put(labels::CAPACITY_RESERVATION_TYPE, kind);
        put(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, if *interruptible { "true" } else { "false" });
    }
    if let Some(group) = group {
        put(labels::PLACEMENT_GROUP_ID, &group.id);
        if group.strategy.partitions() > 0 {
            // Empty until EC2 has chosen one: registration waits for it.
            let number = facts.partition.or_else(|| partition(group, wanted));
            put(labels::PLACEMENT_GROUP_PARTITION, &number.map(|n| n.to_string()).unwrap_or_default());
        }
    }
    all
}

fn annotations(
    class: &EC2NodeClass,
    wanted: &ClaimRequest,
    subnet: Option<&str>,
) -> BTreeMap<String, String> {
    let own = class.metadata.annotations.as_ref();
    let copied = [labels::EC2NODECLASS_HASH, labels::EC2NODECLASS_HASH_VERSION]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), own?.get(key)?.clone())));
    let profile = class.status.as_ref().and_then(|s| s.instance_profile.clone());
    let groups = class.status.iter().flat_map(|s| s.security_groups.iter().flatten());
    let overlaid = [
        (labels::PRICE_OVERLAY_APPLIED, wanted.overlaid.price),
        (labels::CAPACITY_OVERLAY_APPLIED, wanted.overlaid.capacity),
    ];
    let overlaid = overlaid.into_iter().filter(|(_, applied)| *applied);
    copied
        .chain(overlaid.map(|(key, _)| (key.to_owned(), labels::TRUE.to_owned())))
        .chain(profile.map(|name| (labels::INSTANCE_PROFILE_NAME.to_owned(), name)))
        .chain(network(subnet, groups.map(|group| group.id.as_str())))
        .collect()
}

/// Annotations that drift of the subnet and of security groups is judged by.
pub(crate) fn network<'a>(
    subnet: Option<&str>,
    security_groups: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    let groups: BTreeSet<&str> = security_groups.collect();
    let groups = groups.into_iter().collect::<Vec<_>>().join(",");
    let subnet = subnet.map(|id| (labels::LAUNCHED_SUBNET.to_owned(), id.to_owned()));
    let groups = (!groups.is_empty()).then(|| (labels::LAUNCHED_SECURITY_GROUPS.to_owned(), groups));
    subnet.into_iter().chain(groups).collect()
}

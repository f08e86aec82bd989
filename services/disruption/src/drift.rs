//! What a claim is compared with for drift: its pool and class, read once per change of theirs, and the comparison itself,
//! which is `policy`'s.

use std::collections::BTreeSet;

use api::{EC2NodeClass, EC2NodeClassStatus, NodePool};
use jiff::Timestamp;
use model::labels;
use model::requirement::Requirement;
use model::requirements::Requirements;
use policy::condition::drift::{self, Hash, Image, Offering, TypeSeen, Verdict};

use crate::cluster::Claim;

/// A NodePool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolFacts {
    hash: Option<String>,
    version: Option<String>,
    requirements: Requirements,
}

/// An EC2NodeClass as it was resolved.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassFacts {
    deleting: bool,
    hash: Option<String>,
    version: Option<String>,
    images: Option<Vec<(String, Requirements)>>,
    subnets: Option<BTreeSet<String>>,
    security_groups: Option<BTreeSet<String>>,
    reservations: Option<BTreeSet<String>>,
    /// Whether its nodes are to be in a placement group.
    grouped: bool,
}

/// One that cannot be read is left out: validation of its owner says so.
fn requirements(list: &[api::requirement::Requirement]) -> Requirements {
    let entries: Vec<_> = list.iter().filter_map(|written| written.to_entry().ok()).collect();
    entries.iter().map(Requirement::from).collect()
}

fn annotation(meta: &kube::core::ObjectMeta, key: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(key).cloned()
}

impl PoolFacts {
    pub(crate) fn of(pool: &NodePool) -> Self {
        Self {
            hash: annotation(&pool.metadata, labels::NODEPOOL_HASH),
            version: annotation(&pool.metadata, labels::NODEPOOL_HASH_VERSION),
            requirements: requirements(&pool.spec.template.spec.requirements),
        }
    }
}

impl ClassFacts {
    pub(crate) fn of(class: &EC2NodeClass) -> Self {
        let status = class.status.as_ref();
        Self {
            deleting: class.metadata.deletion_timestamp.is_some(),
            hash: annotation(&class.metadata, labels::EC2NODECLASS_HASH),
            version: annotation(&class.metadata, labels::EC2NODECLASS_HASH_VERSION),
            images: status.and_then(|status| status.amis.as_ref()).map(|amis| {
                amis.iter().map(|ami| (ami.id.clone(), requirements(&ami.requirements))).collect()
            }),
            subnets: status
                .and_then(|status| status.subnets.as_ref())
                .map(|subnets| subnets.iter().map(|subnet| subnet.id.clone()).collect()),
            security_groups: status
                .and_then(|status| status.security_groups.as_ref())
                .map(|groups| groups.iter().map(|group| group.id.clone()).collect()),
            reservations: status.filter(|status| looked_for_reservations(status)).map(|status| {
                let chosen = status.capacity_reservations.iter().flatten();
                chosen.map(|reservation| reservation.id.clone()).collect()
            }),
            grouped: class.spec.placement_group_selector.is_some(),
        }
    }
}

/// A class that chooses none has no list, as one that was never looked at: only the condition tells them apart.
fn looked_for_reservations(status: &EC2NodeClassStatus) -> bool {
    api::conditions::is_true(status.conditions.as_deref().unwrap_or_default(), "CapacityReservationsReady")
}

/// What no object says and the provisioner may have told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told<'a> {
    /// Its class does not have its instance type any more; `None` when that is not known.
    pub(crate) type_gone: Option<bool>,
    /// The placement group that its class has now.
    pub(crate) group: Option<&'a str>,
}

impl Told<'_> {
    /// Not knowing is no reason to take back what was found before.
    pub(crate) fn keeps(&self, reason: &str) -> bool {
        (reason == drift::Reason::InstanceTypeNotFound.as_str() && self.type_gone.is_none())
            || (reason == drift::Reason::PlacementGroupDrift.as_str() && self.group.is_none())
    }
}

fn names(set: Option<&BTreeSet<String>>) -> Option<BTreeSet<&str>> {
    set.map(|set| set.iter().map(String::as_str).collect())
}

pub(crate) fn verdict(
    claim: &Claim,
    pool: Option<&PoolFacts>,
    class: Option<&ClassFacts>,
    told: Told<'_>,
    now: Timestamp,
) -> Verdict {
    let groups = claim.annotation(labels::LAUNCHED_SECURITY_GROUPS);
    let compared = drift::Claim {
        launched: claim.is_launched(),
        created: claim.created,
        labels: &claim.labels,
        pool_hash: Hash {
            value: claim.annotation(labels::NODEPOOL_HASH),
            version: claim.annotation(labels::NODEPOOL_HASH_VERSION),
        },
        class_hash: Hash {
            value: claim.annotation(labels::EC2NODECLASS_HASH),
            version: claim.annotation(labels::EC2NODECLASS_HASH_VERSION),
        },
        image: claim.image_id.as_deref(),
        subnet: claim.annotation(labels::LAUNCHED_SUBNET),
        security_groups: groups.map(|text| text.split(',').filter(|id| !id.is_empty()).collect()),
    };
    let pool = pool.map(|pool| drift::Pool {
        hash: Hash { value: pool.hash.as_deref(), version: pool.version.as_deref() },
        requirements: &pool.requirements,
    });
    let offered = [Offering {
        zone: claim.label(labels::ZONE).unwrap_or_default(),
        capacity_type: claim.label(labels::CAPACITY_TYPE).unwrap_or_default(),
    }];
    let seen = match told.type_gone {
        None => TypeSeen::NotAsked,
        Some(true) => TypeSeen::Missing,
        Some(false) => TypeSeen::Offered(&offered),
    };
    let class = class.filter(|class| !class.deleting);
    let images: Option<Vec<Image<'_>>> = class
        .and_then(|class| class.images.as_ref())
        .map(|images| images.iter().map(|(id, requirements)| Image { id, requirements }).collect());
    let class = class.map(|class| drift::Class {
        hash: Hash { value: class.hash.as_deref(), version: class.version.as_deref() },
        images: images.as_deref(),
        subnets: names(class.subnets.as_ref()),
        security_groups: names(class.security_groups.as_ref()),
        reservations: names(class.reservations.as_ref()),
        // A group that is wanted and not found is a problem of the class, not of its nodes.
        placement_group: if class.grouped { told.group.map(Some) } else { Some(None) },
    });
    drift::verdict(&compared, pool, seen, class.as_ref(), now)
}

//! The Drifted condition: the first thing in which a claim is not what its pool and node class would make today.
//!
//! Plain comparison, in the reference's order: what the pool says, whether the type still exists, what the node class says. A fact
//! that is not known here (`None`) is not compared; a fact that must be known and is not makes the whole answer
//! [`Verdict::Unknown`], which leaves the condition as it is.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use model::catalog::LabelMap;
use model::labels;
use model::requirements::Requirements;

use crate::drain::time::plus;

/// Drift is asked again after so long, since what it depends on can change unseen.
pub const RECHECK: SignedDuration = SignedDuration::from_mins(5);
/// Younger claims are not asked whether their type exists: the catalogue may lag behind what was launched.
const TYPE_CHECK_AGE: SignedDuration = SignedDuration::from_hours(1);

/// Name and value of a hash, and the version it was made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash<'a> {
    pub value: Option<&'a str>,
    pub version: Option<&'a str>,
}

impl Hash<'_> {
    /// Only hashes of one version can be compared.
    fn differs_from(self, other: Hash<'_>) -> bool {
        let (Some(a), Some(b)) = (self.value, other.value) else { return false };
        let same_version = self.version.is_some() && self.version == other.version;
        same_version && a != b
    }
}

/// A claim and the instance behind it.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub launched: bool,
    pub created: Timestamp,
    pub labels: &'a LabelMap,
    pub pool_hash: Hash<'a>,
    pub class_hash: Hash<'a>,
    pub image: Option<&'a str>,
    pub subnet: Option<&'a str>,
    pub security_groups: Option<BTreeSet<&'a str>>,
}

/// Its NodePool.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    pub hash: Hash<'a>,
    /// Of the template.
    pub requirements: &'a Requirements,
}

/// What is known about the claim's instance type.
#[derive(Clone, Copy, Debug)]
pub enum TypeSeen<'a> {
    /// The catalogue was not asked, or has not answered.
    NotAsked,
    /// The node class does not offer it.
    Missing,
    Offered(&'a [Offering<'a>]),
}

/// Whether it can be bought now does not matter.
#[derive(Clone, Copy, Debug)]
pub struct Offering<'a> {
    pub zone: &'a str,
    pub capacity_type: &'a str,
}

/// Its EC2NodeClass, as resolved. `None` where the status says nothing.
#[derive(Clone, Debug)]
pub struct Class<'a> {
    pub hash: Hash<'a>,
    /// In order of preference: the first whose requirements the node's labels meet is the one it should run.
    pub images: Option<&'a [Image<'a>]>,
    pub subnets: Option<BTreeSet<&'a str>>,
    pub security_groups: Option<BTreeSet<&'a str>>,
    pub reservations: Option<BTreeSet<&'a str>>,
    /// `Some(None)`: none is asked for.
    pub placement_group: Option<Option<&'a str>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub id: &'a str,
    pub requirements: &'a Requirements,
}

/// The reasons of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    NodePoolDrifted,
    RequirementsDrifted,
    InstanceTypeNotFound,
    NodeClassDrift,
    AmiDrift,
    SecurityGroupDrift,
    SubnetDrift,
    CapacityReservationDrift,
    PlacementGroupDrift,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodePoolDrifted => "NodePoolDrifted",
            Self::RequirementsDrifted => "RequirementsDrifted",
            Self::InstanceTypeNotFound => "InstanceTypeNotFound",
            Self::NodeClassDrift => "NodeClassDrift",
            Self::AmiDrift => "AMIDrift",
            Self::SecurityGroupDrift => "SecurityGroupDrift",
            Self::SubnetDrift => "SubnetDrift",
            Self::CapacityReservationDrift => "CapacityReservationDrift",
            Self::PlacementGroupDrift => "PlacementGroupDrift",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fresh,
    /// The reason, and in words what differs.
    Drifted(Reason, String),
    /// Nothing can be said now.
    Unknown(String),
}

/// `pool` and `class`: `None` when they do not exist (or, for the class, are being deleted); then nothing drifts.
pub fn verdict(
    claim: &Claim<'_>,
    pool: Option<Pool<'_>>,
    type_seen: TypeSeen<'_>,
    class: Option<&Class<'_>>,
    now: Timestamp,
) -> Verdict {
    let Some(pool) = pool.filter(|_| claim.launched) else { return Verdict::Fresh };
    let found = of_pool(claim, pool)
        .or_else(|| type_is_gone(claim, type_seen, now))
        .map(|(reason, what)| Verdict::Drifted(reason, what));
    found.or_else(|| class.and_then(|class| of_class(claim, class))).unwrap_or(Verdict::Fresh)
}

fn of_pool(claim: &Claim<'_>, pool: Pool<'_>) -> Option<(Reason, String)> {
    if claim.pool_hash.differs_from(pool.hash) {
        return Some((Reason::NodePoolDrifted, "spec.template of the NodePool has changed".to_owned()));
    }
    let own = Requirements::from_labels(claim.labels.iter().map(|(key, value)| (key, value.clone())));
    let refused = own.compatible(pool.requirements, &|_| false).err()?;
    Some((Reason::RequirementsDrifted, format!("requirements of the NodePool: {refused}")))
}

fn type_is_gone(claim: &Claim<'_>, seen: TypeSeen<'_>, now: Timestamp) -> Option<(Reason, String)> {
    if plus(claim.created, TYPE_CHECK_AGE) >= now {
        return None;
    }
    let label = |key: &str| claim.labels.get(key).map(String::as_str);
    let gone = |what: String| Some((Reason::InstanceTypeNotFound, what));
    let Some(name) = label(labels::INSTANCE_TYPE) else {
        return gone(format!("label {} is missing", labels::INSTANCE_TYPE));
    };
    let offerings = match seen {
        TypeSeen::NotAsked => return None,
        TypeSeen::Missing => return gone(format!("the node class does not offer {name}")),
        TypeSeen::Offered(offerings) => offerings,
    };
    let capacity_type = label(labels::CAPACITY_TYPE);
    // A reservation that has ended leaves its nodes running as on-demand.
    let fits_capacity = |offered: &str| match capacity_type {
        Some(labels::RESERVED) => matches!(offered, labels::RESERVED | labels::ON_DEMAND),
        Some(own) => own == offered,
        None => true,
    };
    let fits = |offering: &Offering<'_>| {
        fits_capacity(offering.capacity_type) && label(labels::ZONE).is_none_or(|zone| zone == offering.zone)
    };
    if offerings.iter().any(fits) {
        return None;
    }
    let (zone, capacity) = (label(labels::ZONE).unwrap_or("any zone"), capacity_type.unwrap_or("any"));
    gone(format!("the node class does not offer {name} as {capacity} in {zone}"))
}

fn of_class(claim: &Claim<'_>, class: &Class<'_>) -> Option<Verdict> {
    let drifted = |reason, what: String| Some(Verdict::Drifted(reason, what));
    if claim.class_hash.differs_from(class.hash) {
        return drifted(Reason::NodeClassDrift, "spec of the EC2NodeClass has changed".to_owned());
    }
    if let Some(verdict) = image(claim, class) {
        return Some(verdict);
    }
    if let (Some(own), Some(wanted)) = (&claim.security_groups, &class.security_groups) {
        if wanted.is_empty() {
            return Some(Verdict::Unknown(
                "the EC2NodeClass has no security groups in its status".to_owned(),
            ));
        }
        if own != wanted {
            let names = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join(", ");
            let what = format!("it has security groups {}, wanted are {}", names(own), names(wanted));
            return drifted(Reason::SecurityGroupDrift, what);
        }
    }
    if let (Some(own), Some(wanted)) = (claim.subnet, &class.subnets) {
        if wanted.is_empty() {
            return Some(Verdict::Unknown("the EC2NodeClass has no subnets in its status".to_owned()));
        }
        if !wanted.contains(own) {
            return drifted(
                Reason::SubnetDrift,
                format!("it is in subnet {own}, which is not chosen any more"),
            );
        }
    }
    let reserved = claim.labels.get(labels::CAPACITY_TYPE).is_some_and(|own| own == labels::RESERVED);
    if let (Some(own), Some(wanted)) =
        (claim.labels.get(labels::CAPACITY_RESERVATION_ID).filter(|_| reserved), &class.reservations)
        && !wanted.contains(own.as_str())
    {
        let what = format!("it uses capacity reservation {own}, which is not chosen any more");
        return drifted(Reason::CapacityReservationDrift, what);
    }
    let group = claim.labels.get(labels::PLACEMENT_GROUP_ID).map(String::as_str);
    match class.placement_group {
        Some(wanted) if wanted != group => {
            let name = |group: Option<&str>| group.unwrap_or("none").to_owned();
            let what = format!("it is in placement group {}, wanted is {}", name(group), name(wanted));
            drifted(Reason::PlacementGroupDrift, what)
        }
        _ => None,
    }
}

/// `None`: the image is right, or is not compared.
fn image(claim: &Claim<'_>, class: &Class<'_>) -> Option<Verdict> {
    let images = class.images?;
    let Some(own) = claim.image else {
        return Some(Verdict::Unknown("the NodeClaim has no image id in its status".to_owned()));
    };
    let node = Requirements::from_labels(claim.labels.iter().map(|(key, value)| (key, value.clone())));
    // The labels are those of the node: what is missing there, its type does not have.
    let fitting = images.iter().find(|image| node.is_compatible(image.requirements, &|_| false));
    match fitting {
        None => Some(Verdict::Unknown("no AMI of the EC2NodeClass fits the node's type".to_owned())),
        Some(image) if image.id == own => None,
        Some(image) => Some(Verdict::Drifted(
            Reason::AmiDrift,
            format!("it runs image {own}, a new node would run {}", image.id),
        )),
    }
}

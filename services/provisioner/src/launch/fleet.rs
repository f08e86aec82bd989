//! A fleet request from candidates, and what its answer means. Pure: launch templates, subnets and the call itself are the
//! caller's.

use std::collections::{BTreeMap, BTreeSet};

use api::ec2nodeclass::Ami;
use cloud::error::{ErrorKind, LaunchReason, launch_reason};
use cloud::launch::{FleetAnswer, FleetError, FleetTarget, Override};
use cloud::unavailable::Scope;
use model::catalog::{CapacityType, InstanceType, Offering};
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::{EFA, PODS};

use super::candidates::{Candidate, Kind, on_demand_price, reservation_kind};

/// Images of a class with what each is for, in the order of the status: the first that fits a type is used.
#[derive(Debug, Clone, Default)]
pub struct Images(Vec<(String, Requirements)>);

impl Images {
    /// Requirements this release does not understand match nothing, so that no type gets a wrong image.
    pub fn of(amis: &[Ami]) -> Self {
        let read = |ami: &Ami| {
            let mut all = Requirements::new();
            for written in &ami.requirements {
                all.add(Requirement::from(&written.to_entry().ok()?));
            }
            Some((ami.id.clone(), all))
        };
        Self(amis.iter().filter_map(read).collect())
    }

    pub fn for_type(&self, kind: &InstanceType) -> Option<&str> {
        let fits = |wants: &Requirements| kind.requirements.is_compatible(wants, &|_| false);
        self.0.iter().find(|(_, wants)| fits(wants)).map(|(id, _)| id.as_str())
    }
}

/// Types that can share one launch template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    pub image_id: String,
    pub max_pods: i64,
    /// EFA interfaces; 0 unless the claim asks for EFA.
    pub efa: u32,
    /// Reservation to launch into, and its kind.
    pub reservation: Option<(String, Kind)>,
}

/// A type and zone of a shape.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub kind: &'a InstanceType,
    pub offering: &'a Offering,
}

/// Candidates of this way of buying, by the launch template they need. Types that no image fits are left out.
pub fn shapes<'a>(
    left: &[Candidate<'a>],
    buying: CapacityType,
    images: &Images,
    wants_efa: bool,
) -> BTreeMap<Shape, Vec<Place<'a>>> {
    let mut all: BTreeMap<Shape, Vec<Place<'a>>> = BTreeMap::new();
    for candidate in left {
        let Some(image) = images.for_type(candidate.kind) else { continue };
        let efa = if wants_efa { candidate.kind.capacity.get(EFA).value_floor() } else { 0 };
        for offering in candidate.offerings.iter().filter(|o| o.capacity_type == buying) {
            let kind = reservation_kind(offering);
            let shape = Shape {
                image_id: image.to_owned(),
                max_pods: candidate.kind.capacity.get(PODS).value_floor(),
                efa: u32::try_from(efa).unwrap_or(0),
                reservation: offering.reservation.as_ref().zip(kind).map(|(r, k)| (r.id.to_string(), k)),
            };
            all.entry(shape).or_default().push(Place { kind: candidate.kind, offering });
        }
    }
    all
}

/// The overrides of one template, cheapest first; places in zones without a subnet are left out.
pub fn overrides(places: &[Place<'_>], image_id: &str, subnets: &BTreeMap<String, String>) -> Vec<Override> {
    let mut sorted: Vec<&Place<'_>> = places.iter().collect();
    sorted.sort_by_cached_key(|p| {
        (p.offering.price, on_demand_price(p.kind), p.kind.name.clone(), p.offering.zone.clone())
    });
    let mut seen = BTreeSet::new();
    let unique = |p: &&&Place<'_>| seen.insert((p.kind.name.clone(), p.offering.zone.clone()));
    sorted
        .iter()
        .filter(unique)
        .filter_map(|place| {
            Some(Override {
                instance_type: place.kind.name.to_string(),
                zone: place.offering.zone.to_string(),
                subnet_id: subnets.get(&*place.offering.zone)?.clone(),
                image_id: Some(image_id.to_owned()),
                priority: Some(place.offering.price),
            })
        })
        .collect()
}

pub fn target(buying: CapacityType, reservation: Option<Kind>) -> FleetTarget {
    match (buying, reservation) {
        (CapacityType::Spot, _) => FleetTarget::Spot,
        (_, Some(Kind::Block)) => FleetTarget::CapacityBlock,
        (_, Some(Kind::Interruptible)) => FleetTarget::InterruptibleReservation,
        _ => FleetTarget::OnDemand,
    }
}

/// For each zone, the fewest pods that a node there could hold: as many addresses may soon be taken from its subnet.
pub fn least_pods(shapes: &BTreeMap<Shape, Vec<Place<'_>>>) -> BTreeMap<String, u32> {
    let mut least: BTreeMap<String, u32> = BTreeMap::new();
    for (shape, places) in shapes {
        let pods = u32::try_from(shape.max_pods).unwrap_or(0);
        for place in places {
            let known = least.entry(place.offering.zone.to_string()).or_insert(pods);
            *known = (*known).min(pods);
        }
    }
    least
}

/// What an answer teaches about what cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lessons {
    /// Marks to report, each with EC2's code.
    pub marks: Vec<(Scope, String)>,
    pub full_subnets: BTreeSet<String>,
    /// EC2 may not buy spot in this account.
    pub spot_role_missing: bool,
    /// Offerings that this launch need not try again.
    pub refused: BTreeSet<(CapacityType, String, String)>,
    pub drained_reservations: BTreeSet<String>,
}

/// What was asked, as far as judging the answer needs it.
pub struct Asked<'a> {
    pub buying: CapacityType,
    pub places: &'a [(String, Place<'a>)],
    pub placement_group: Option<&'a str>,
}

pub fn lessons(answer: &FleetAnswer, asked: &Asked<'_>) -> Lessons {
    let mut learned = Lessons::default();
    for error in &answer.errors {
        learn(&mut learned, error, asked);
    }
    learned.marks.sort();
    learned.marks.dedup();
    learned
}

fn learn(learned: &mut Lessons, error: &FleetError, asked: &Asked<'_>) {
    let kind = error.kind();
    if !kind.is_insufficient_capacity() {
        return;
    }
    if kind == ErrorKind::SpotRoleMissing {
        learned.spot_role_missing = true;
        learned.marks.push((Scope::capacity_type(CapacityType::Spot), error.code.clone()));
        return;
    }
    let (Some(instance_type), Some(zone)) = (error.instance_type.as_deref(), error.zone.as_deref()) else {
        return;
    };
    let refused = |name: &str| (asked.buying, name.to_owned(), zone.to_owned());
    learned.refused.insert(refused(instance_type));
    if kind == ErrorKind::SubnetFull
        && let Some(subnet) = &error.subnet_id
    {
        learned.full_subnets.insert(subnet.clone());
        learned.marks.push((Scope::subnet(subnet), error.code.clone()));
        return;
    }
    if kind == ErrorKind::SpreadGroupFull
        && let Some(group) = asked.placement_group
    {
        // The group is full in the zone whatever the type.
        for (_, place) in asked.places.iter().filter(|(_, p)| *p.offering.zone == *zone) {
            let scope = Scope::offering(asked.buying, &place.kind.name, zone).in_placement_group(group);
            learned.marks.push((scope, error.code.clone()));
            learned.refused.insert(refused(&place.kind.name));
        }
        return;
    }
    let scope = match asked.buying {
        CapacityType::Reserved => {
            let place = asked.places.iter().find(|(_, p)| {
                *p.kind.name == *instance_type
                    && *p.offering.zone == *zone
                    && error.template.as_ref().is_none_or(|t| asked.template_of(p) == Some(t.as_str()))
            });
            let Some(own) = place.and_then(|(_, p)| p.offering.reservation.as_ref()) else { return };
            learned.drained_reservations.insert(own.id.to_string());
            Scope::reservation(&own.id)
        }
        buying => {
            let scope = Scope::offering(buying, instance_type, zone);
            match asked.placement_group {
                Some(group) => scope.in_placement_group(group),
                None => scope,
            }
        }
    };
    learned.marks.push((scope, error.code.clone()));
}

impl Asked<'_> {
    fn template_of(&self, place: &Place<'_>) -> Option<&str> {
        let same = |other: &Place<'_>| std::ptr::eq(other.offering, place.offering);
        self.places.iter().find(|(_, p)| same(p)).map(|(template, _)| template.as_str())
    }
}

/// The reason and text of an answer without an instance: each of EC2's codes once, with how often and one of its messages.
pub fn failure(answer: &FleetAnswer) -> (&'static str, String) {
    let mut by_code: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for error in &answer.errors {
        by_code.entry(&error.code).or_insert((0, &error.message)).0 += 1;
    }
    let told: Vec<String> = by_code
        .iter()
        .map(|(code, (times, message))| match times {
            1 => format!("{code}: {message}"),
            times => format!("{code} in {times} places, such as: {message}"),
        })
        .collect();
    let (reason, advice) = launch_reason(&answer.error_text());
    let message =
        if told.is_empty() { "EC2 launched nothing and named no reason".to_owned() } else { told.join("; ") };
    // For the general reason there is nothing to add to what EC2 says.
    let told = if reason == LaunchReason::LaunchFailed { message } else { format!("{message} ({advice})") };
    (reason.as_str(), told)
}

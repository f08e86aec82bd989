//! Which types and offerings a claim is launched with: the reference's filters in the reference's order (`aws.md` §5.2), then
//! the cheapest types first, as many as EC2 is asked at once. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::catalog::{CapacityType, InstanceType, Offering};
use model::labels;
use model::price::MicroDollars;
use model::quantity::Quantity;
use model::resources::{
    AMD_GPU, AWS_NEURON, AWS_NEURON_CORE, HABANA_GAUDI, HUGE_PAGES_PREFIX, MEMORY, NITRO_ENCLAVE_SLOTS,
    NVIDIA_GPU, Resources,
};

use super::claim_request::ClaimRequest;

/// Types in one fleet request.
pub const MOST_TYPES: usize = 60;

/// A type with those of its offerings that are still in the running.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub kind: &'a InstanceType,
    /// Never empty.
    pub offerings: Vec<&'a Offering>,
}

/// What the filters need to know besides the claim.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Ways of buying that this launch tried already.
    pub given_up: BTreeSet<CapacityType>,
    /// Offerings that EC2 refused in this launch: way of buying, type, zone.
    pub refused: BTreeSet<(CapacityType, String, String)>,
    /// Whether too few types left for `minValues` forbid the launch.
    pub strict_min_values: bool,
}

/// Why nothing is left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCandidates {
    #[error("all requested instance types were unavailable during launch")]
    NothingAvailable,
    #[error("the {left} cheapest instance types have fewer values of {key} than its minValues {wanted}")]
    MinValues { key: String, wanted: u32, left: usize },
}

impl Candidate<'_> {
    pub fn cheapest(&self) -> MicroDollars {
        self.offerings.iter().map(|o| o.price).min().unwrap_or(MicroDollars::MAX)
    }

    fn retain(&mut self, keep: impl Fn(&Offering) -> bool) {
        self.offerings.retain(|o| keep(o));
    }
}

/// The candidates of a launch, cheapest first.
pub fn candidates<'a>(
    types: &'a [InstanceType],
    wanted: &ClaimRequest,
    terms: &Terms,
) -> Result<Vec<Candidate<'a>>, NoCandidates> {
    let mut left = compatible(types, wanted, terms);
    let flexible = !wanted.requirements.has_min_values();
    if may_be_reserved(wanted, terms) {
        one_kind_of_reservation(&mut left);
        one_capacity_block(&mut left);
        roomiest_reservation_per_zone(&mut left);
    }
    if flexible {
        without_exotic(&mut left);
        without_dear_spot(&mut left, wanted, terms);
    }
    if left.is_empty() {
        return Err(NoCandidates::NothingAvailable);
    }
    left.sort_by_cached_key(|c| (c.cheapest(), on_demand_price(c.kind), c.kind.name.clone()));
    left.truncate(MOST_TYPES);
    if terms.strict_min_values {
        enough_values(&left, wanted)?;
    }
    Ok(left)
}

/// Decides between types of equal price: what is reserved costs next to nothing, a large type as little as a small one.
pub(super) fn on_demand_price(kind: &InstanceType) -> MicroDollars {
    let on_demand = kind.offerings.iter().filter(|o| o.capacity_type == CapacityType::OnDemand);
    on_demand.map(|o| o.price).min().unwrap_or(MicroDollars::MAX)
}

fn may_be_reserved(wanted: &ClaimRequest, terms: &Terms) -> bool {
    wanted.allows(labels::CAPACITY_TYPE, labels::RESERVED)
        && !terms.given_up.contains(&CapacityType::Reserved)
}

/// Types that the claim lists, whether or not they can be had.
pub fn listed<'a>(
    types: &'a [InstanceType],
    wanted: &ClaimRequest,
) -> impl Iterator<Item = &'a InstanceType> {
    // What no type defines is the pool's own label; what the type lacks although it is well known, its nodes will lack.
    let undefined_is_fine = |key: &str| !labels::is_well_known(key) || key == labels::NODEPOOL;
    // A claim names its types; comparing names first spares comparing every label of the whole catalogue.
    let named = wanted.requirements.get(labels::INSTANCE_TYPE);
    types
        .iter()
        .filter(move |kind| named.is_none_or(|names| names.contains(&kind.name)))
        .filter(move |kind| kind.requirements.is_compatible(&wanted.requirements, &undefined_is_fine))
}

fn compatible<'a>(types: &'a [InstanceType], wanted: &ClaimRequest, terms: &Terms) -> Vec<Candidate<'a>> {
    listed(types, wanted)
        .filter_map(|kind| {
            let fits_plain = fits(&plain_allocatable(kind), wanted);
            let usable = |o: &&Offering| {
                let overridden = !o.capacity_override.is_empty() || !o.overhead_override.is_empty();
                o.is_open()
                    && offering_fits(o, wanted)
                    && !terms.given_up.contains(&o.capacity_type)
                    && !is_refused(kind, o, terms)
                    && if overridden { fits(&allocatable(kind, o), wanted) } else { fits_plain }
            };
            let offerings: Vec<&Offering> = kind.offerings.iter().filter(usable).collect();
            (!offerings.is_empty()).then_some(Candidate { kind, offerings })
        })
        .collect()
}

fn is_refused(kind: &InstanceType, offering: &Offering, terms: &Terms) -> bool {
    !terms.refused.is_empty()
        && terms.refused.contains(&(offering.capacity_type, kind.name.to_string(), offering.zone.to_string()))
}

fn offering_fits(offering: &Offering, wanted: &ClaimRequest) -> bool {
    let reservation = match &offering.reservation {
        None => [
            labels::CAPACITY_RESERVATION_ID,
            labels::CAPACITY_RESERVATION_TYPE,
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        ]
        .into_iter()
        .all(|key| wanted.allows_absence_of(key)),
        Some(own) => {
            wanted.allows(labels::CAPACITY_RESERVATION_ID, &own.id)
                && wanted.allows(labels::CAPACITY_RESERVATION_TYPE, &own.kind)
                && wanted.allows(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, own.interruptible_label())
        }
    };
    reservation
        && wanted.allows(labels::CAPACITY_TYPE, offering.capacity_type.as_str())
        && wanted.allows(labels::ZONE, &offering.zone)
        && match &offering.zone_id {
            Some(id) => wanted.allows(labels::ZONE_ID, id),
            None => wanted.allows_absence_of(labels::ZONE_ID),
        }
}

/// Whether the node has room for what the claim asks. Enclave slots are an option of the launch, not a resource of a type.
fn fits(allocatable: &Resources, wanted: &ClaimRequest) -> bool {
    if wanted.wants_enclave() {
        let mut rest = wanted.requests.clone();
        rest.remove(NITRO_ENCLAVE_SLOTS);
        return rest.fits(allocatable);
    }
    wanted.requests.fits(allocatable)
}

/// What a node of this type has, bought this way.
pub fn capacity(kind: &InstanceType, offering: &Offering) -> Resources {
    replaced(&kind.capacity, &offering.capacity_override)
}

/// What pods may use of a node of this type, bought this way: capacity less overhead, memory also less huge pages.
pub fn allocatable(kind: &InstanceType, offering: &Offering) -> Resources {
    less_overhead(capacity(kind, offering), &replaced(&kind.overhead, &offering.overhead_override))
}

fn plain_allocatable(kind: &InstanceType) -> Resources {
    less_overhead(kind.capacity.clone(), &kind.overhead)
}

fn replaced(own: &Resources, over: &Resources) -> Resources {
    let mut all = own.clone();
    for (name, amount) in over.iter() {
        all.insert(name, amount);
    }
    all
}

fn less_overhead(mut left: Resources, overhead: &Resources) -> Resources {
    left.sub(overhead);
    let huge: Quantity =
        left.iter().filter(|(name, _)| name.starts_with(HUGE_PAGES_PREFIX)).map(|(_, amount)| amount).sum();
    if !huge.is_zero() {
        let memory = left.get(MEMORY).saturating_sub(huge).max(Quantity::ZERO);
        left.insert(MEMORY, memory);
    }
    left
}

/// Kinds of reservations in order of preference at equal price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    OnDemand,
    Block,
    Interruptible,
}

/// The kind of the reservation behind an offering.
pub fn reservation_kind(offering: &Offering) -> Option<Kind> {
    let reservation = offering.reservation.as_ref()?;
    Some(match &*reservation.kind {
        "capacity-block" => Kind::Block,
        _ if reservation.interruptible => Kind::Interruptible,
        _ => Kind::OnDemand,
    })
}

/// Keeps the kind of reservation that has the cheapest offering; without any reservation everything stays.
fn one_kind_of_reservation(left: &mut Vec<Candidate<'_>>) {
    let offered = left.iter().flat_map(|c| c.offerings.iter().map(|o| (c.kind, o)));
    let best = offered
        .filter_map(|(kind, o)| Some((o.price, on_demand_price(kind), reservation_kind(o)?)))
        .min()
        .map(|(.., kind)| kind);
    let Some(best) = best else { return };
    keep_offerings(left, |_, o| reservation_kind(o) == Some(best));
}

/// EC2 takes one capacity block in a request: the cheapest of the cheapest type.
fn one_capacity_block(left: &mut Vec<Candidate<'_>>) {
    let is_block = |o: &Offering| o.reservation.as_ref().is_some_and(|r| &*r.kind == "capacity-block");
    let blocks =
        left.iter().flat_map(|c| c.offerings.iter().map(move |o| (c, o))).filter(|(_, o)| is_block(o));
    let best = blocks
        .min_by_key(|(c, o)| (o.price, on_demand_price(c.kind), c.kind.name.clone(), o.zone.clone()))
        .map(|(c, o)| (c.kind.name.clone(), o.reservation.as_ref().map(|r| r.id.clone())));
    let Some((name, id)) = best else { return };
    keep_offerings(left, |kind, o| kind.name == name && o.reservation.as_ref().map(|r| r.id.clone()) == id);
}

/// Of several reservations in a zone the one with most room; without any reservation everything stays.
fn roomiest_reservation_per_zone(left: &mut Vec<Candidate<'_>>) {
    if !left.iter().any(|c| c.offerings.iter().any(|o| o.reservation.is_some())) {
        return;
    }
    for candidate in left.iter_mut() {
        let mut best: BTreeMap<&str, &Offering> = BTreeMap::new();
        for offering in &candidate.offerings {
            let Some(own) = &offering.reservation else { continue };
            let room = |o: &Offering| o.reservation.as_ref().map_or(0, |r| r.capacity);
            let place = best.entry(&offering.zone).or_insert(offering);
            let id = |o: &Offering| o.reservation.as_ref().map(|r| r.id.clone());
            if own.capacity > room(place) || (own.capacity == room(place) && id(offering) < id(place)) {
                *place = offering;
            }
        }
        candidate.offerings = best.into_values().collect();
    }
    left.retain(|c| !c.offerings.is_empty());
}

fn keep_offerings(left: &mut Vec<Candidate<'_>>, keep: impl Fn(&InstanceType, &Offering) -> bool) {
    for candidate in left.iter_mut() {
        let kind = candidate.kind;
        candidate.retain(|o| keep(kind, o));
    }
    left.retain(|c| !c.offerings.is_empty());
}

/// Bare metal and accelerators are for those who ask for nothing else.
fn without_exotic(left: &mut Vec<Candidate<'_>>) {
    let ordinary = |c: &Candidate<'_>| {
        let metal = c.kind.name.split_once('.').is_some_and(|(_, size)| size.contains("metal"));
        let accelerated = [AWS_NEURON, AWS_NEURON_CORE, AMD_GPU, NVIDIA_GPU, HABANA_GAUDI]
            .into_iter()
            .any(|name| !c.kind.capacity.get(name).is_zero());
        !metal && !accelerated
    };
    if left.iter().any(ordinary) {
        left.retain(|c| ordinary(c));
    }
}

/// Where both can be had, spot that costs more than the cheapest on-demand is not worth its risk.
fn without_dear_spot(left: &mut Vec<Candidate<'_>>, wanted: &ClaimRequest, terms: &Terms) {
    let open = |kind: CapacityType| {
        wanted.allows(labels::CAPACITY_TYPE, kind.as_str()) && !terms.given_up.contains(&kind)
    };
    if !open(CapacityType::Spot) || !open(CapacityType::OnDemand) {
        return;
    }
    let all = || left.iter().flat_map(|c| c.offerings.iter());
    let of = |kind: CapacityType| move |o: &&&Offering| o.capacity_type == kind;
    let Some(limit) = all().filter(of(CapacityType::OnDemand)).map(|o| o.price).min() else { return };
    if !all().any(|o| o.capacity_type == CapacityType::Spot) {
        return;
    }
    keep_offerings(left, |_, o| o.capacity_type != CapacityType::Spot || o.price <= limit);
}

fn enough_values(left: &[Candidate<'_>], wanted: &ClaimRequest) -> Result<(), NoCandidates> {
    for (key, least) in wanted.requirements.min_values() {
        let values: BTreeSet<&String> = left
            .iter()
            .filter_map(|c| c.kind.requirements.get(key))
            .filter(|requirement| !requirement.is_complement())
            .flat_map(|requirement| requirement.values())
            .collect();
        if values.len() < least as usize {
            return Err(NoCandidates::MinValues { key: key.to_owned(), wanted: least, left: left.len() });
        }
    }
    Ok(())
}

/// The first of reserved, spot, on-demand that some candidate offers; on-demand when none does.
pub fn capacity_type(left: &[Candidate<'_>]) -> CapacityType {
    let offered: BTreeSet<CapacityType> =
        left.iter().flat_map(|c| c.offerings.iter().map(|o| o.capacity_type)).collect();
    CapacityType::ALL.into_iter().find(|kind| offered.contains(kind)).unwrap_or(CapacityType::OnDemand)
}

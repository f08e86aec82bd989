//! NodeOverlays applied to the instance types of a NodePool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::catalog::{InstanceType, Offering};
use model::labels;
use model::pool::NodePool as Pool;
use model::price::MicroDollars;
use model::requirement::Requirement;
use model::requirements::Requirements;
use model::resources::Resources;

use super::error::{At, Error, Invalid};
use super::pool::requirements;
use super::quantities::amounts;
use crate::nodeoverlay::NodeOverlay;

/// One overlay, read and checked.
#[derive(Clone, Debug)]
pub struct Overlay {
    pub name: Arc<str>,
    weight: i32,
    requirements: Requirements,
    price: Option<Price>,
    capacity: Resources,
}

#[derive(Clone, Copy, Debug)]
enum Price {
    Fixed(MicroDollars),
    Added(MicroDollars),
    /// Change in millionths of the price.
    Scaled(i64),
}

/// Reads one overlay.
pub fn overlay(object: &NodeOverlay) -> Result<Overlay, Error> {
    read(object).map_err(|invalid| invalid.of("NodeOverlay", None, object.metadata.name.as_deref()))
}

fn read(object: &NodeOverlay) -> Result<Overlay, Invalid> {
    let root = At::Root;
    let at = root.key("spec");
    let spec = &object.spec;
    let price = match (&spec.price, &spec.price_adjustment) {
        (Some(text), _) => {
            let price = text.parse().map_err(|error| at.key("price").invalid(error))?;
            Some(Price::Fixed(price))
        }
        (None, Some(text)) => Some(adjustment(text, &at.key("priceAdjustment"))?),
        (None, None) => None,
    };
    Ok(Overlay {
        name: Arc::from(object.metadata.name.as_deref().unwrap_or_default()),
        weight: spec.weight.unwrap_or(0),
        requirements: requirements(&spec.requirements, &at.key("requirements"))?,
        price,
        capacity: amounts(spec.capacity.as_ref(), &at.key("capacity"))?,
    })
}

/// `+0.02`, `-0.1`, `+10%`, `-25.5%`.
fn adjustment(text: &str, at: &At<'_>) -> Result<Price, Invalid> {
    match text.strip_suffix('%') {
        // A percentage has the shape of a price; its micro-units, divided by 100, are millionths.
        Some(percent) => {
            let parsed: MicroDollars = percent.parse().map_err(|error| at.invalid(error))?;
            Ok(Price::Scaled(parsed.get() / 100))
        }
        None => Ok(Price::Added(text.parse().map_err(|error| at.invalid(error))?)),
    }
}

impl Price {
    fn applied_to(self, price: MicroDollars) -> MicroDollars {
        let changed = match self {
            Self::Fixed(fixed) => fixed,
            Self::Added(change) => price + change,
            Self::Scaled(millionths) => {
                let change = i128::from(price.get()) * i128::from(millionths) / 1_000_000;
                price + MicroDollars::new(i64::try_from(change).unwrap_or(i64::MAX))
            }
        };
        changed.max(MicroDollars::ZERO)
    }
}

/// The pools with overlaid types, and overlays that were left out entirely because another of the same weight touches the
/// same price or resource, with the sentence that says so.
pub struct Applied {
    pub pools: Vec<Pool>,
    pub conflicts: BTreeMap<Arc<str>, String>,
}

/// Heavier overlays win; of equal weight the one with the later name comes first, and one that collides with an earlier one
/// of its weight does not count anywhere.
pub fn apply(pools: Vec<Pool>, overlays: &[Overlay]) -> Applied {
    let mut order: Vec<&Overlay> = overlays.iter().collect();
    order.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    let mut conflicts = BTreeMap::new();
    let mut accepted: Vec<&Overlay> = Vec::new();
    let mut touched = Touched::default();
    for overlay in order {
        let marks = marks_of(overlay, &pools);
        match touched.collision(overlay, &marks) {
            Some(why) => {
                conflicts.insert(overlay.name.clone(), why);
            }
            None => {
                touched.add(overlay, marks);
                accepted.push(overlay);
            }
        }
    }
    let pools = pools.into_iter().map(|pool| overlaid(pool, &accepted)).collect();
    Applied { pools, conflicts }
}

/// What an overlay would change: prices by pool, type and offering, resources by pool, type and name.
type Marks = BTreeSet<(usize, usize, Mark)>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Price(usize),
    Resource(String),
}

#[derive(Default)]
struct Touched(BTreeMap<i32, Vec<(Arc<str>, Marks)>>);

impl Touched {
    fn collision(&self, overlay: &Overlay, marks: &Marks) -> Option<String> {
        let others = self.0.get(&overlay.weight)?;
        let (other, _) = others.iter().find(|(_, theirs)| !theirs.is_disjoint(marks))?;
        Some(format!("it changes the same price or resource as overlay {other} of the same weight"))
    }

    fn add(&mut self, overlay: &Overlay, marks: Marks) {
        self.0.entry(overlay.weight).or_default().push((overlay.name.clone(), marks));
    }
}

fn marks_of(overlay: &Overlay, pools: &[Pool]) -> Marks {
    let mut marks = Marks::new();
    for (p, pool) in pools.iter().enumerate() {
        for (t, kind) in pool.instance_types.iter().enumerate() {
            let offerings = matching(overlay, pool, kind);
            if offerings.is_empty() {
                continue;
            }
            if overlay.price.is_some() {
                marks.extend(offerings.iter().map(|o| (p, t, Mark::Price(*o))));
            }
            marks.extend(overlay.capacity.iter().map(|(name, _)| (p, t, Mark::Resource(name.to_owned()))));
        }
    }
    marks
}

/// Offerings of a type that an overlay is about; none unless the type itself matches.
fn matching(overlay: &Overlay, pool: &Pool, kind: &InstanceType) -> Vec<usize> {
    let mut known = Requirements::from_labels(&pool.labels);
    known.add(Requirement::is(labels::NODEPOOL, &*pool.name));
    known.add_all(&kind.requirements);
    if !known.is_compatible(&overlay.requirements, &|_| false) {
        return Vec::new();
    }
    let fits = |offering: &Offering| {
        let mut own = Requirements::new();
        own.add(Requirement::is(labels::ZONE, &*offering.zone));
        own.add(Requirement::is(labels::CAPACITY_TYPE, offering.capacity_type.as_str()));
        if let Some(id) = &offering.zone_id {
            own.add(Requirement::is(labels::ZONE_ID, &**id));
        }
        if let Some(reservation) = &offering.reservation {
            own.add(Requirement::is(labels::CAPACITY_RESERVATION_ID, &*reservation.id));
        }
        overlay.requirements.overlaps(&own)
    };
    (0..kind.offerings.len()).filter(|o| fits(&kind.offerings[*o])).collect()
}

fn overlaid(mut pool: Pool, overlays: &[&Overlay]) -> Pool {
    let mut types = None;
    for (t, kind) in pool.instance_types.iter().enumerate() {
        let mut priced = BTreeSet::new();
        let mut given = BTreeSet::new();
        for overlay in overlays {
            let offerings = matching(overlay, &pool, kind);
            if offerings.is_empty() {
                continue;
            }
            let changed = &mut types.get_or_insert_with(|| pool.instance_types.to_vec())[t];
            changed.overlaid.price |= overlay.price.is_some();
            changed.overlaid.capacity |= !overlay.capacity.is_empty();
            if let Some(price) = overlay.price {
                for o in offerings.into_iter().filter(|o| priced.insert(*o)) {
                    changed.offerings[o].price = price.applied_to(kind.offerings[o].price);
                }
            }
            for (name, amount) in overlay.capacity.iter().filter(|(name, _)| given.insert((*name).to_owned()))
            {
                changed.capacity.insert(name, amount);
            }
        }
    }
    if let Some(types) = types {
        pool.instance_types = Arc::new(types);
    }
    pool
}

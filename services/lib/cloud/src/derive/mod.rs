//! What an instance type offers under a given node class: a pure function of EC2's facts, prices, the class and settings.
//!
//! ```text
//! catalog::Entry + NodeClass + Settings + Region  ->  model::catalog::InstanceType
//!   capacity, overhead      what a node has, and what pods cannot have of it
//!   requirements            labels of its nodes
//!   compatible              whether the class can use the type at all
//!   offerings               zones, ways of buying, prices, availability
//! ```
//!
//! Nothing here calls the cloud or reads a clock. NodeOverlays change the result afterwards, elsewhere; only their prices
//! for types without a public price come in here.

mod attachments;
mod capacity;
pub mod compatible;
mod family;
mod inputs;
pub mod name;
mod offerings;
mod overhead;
mod requirements;
#[cfg(test)]
mod tests;

use model::catalog::InstanceType;
use model::pod::EBS_DRIVER;

pub use capacity::{address_limited_pods, capacity};
pub use family::Family;
pub use inputs::{InterfaceSpec, Kubelet, NodeClass, Region, Settings, SubnetZone, Threshold, Volume};
pub use offerings::ClassZones;
pub use overhead::{Overhead, overhead};
pub use requirements::{architecture, requirements};

use crate::catalog::Entry;

/// The type as this class would run it. A type that the class cannot use has offerings, none of them available.
pub fn instance_type(
    entry: &Entry,
    class: &NodeClass,
    zones: &ClassZones,
    region: &Region<'_>,
    settings: &Settings,
) -> InstanceType {
    let facts = entry.facts.as_ref();
    let learned = region.learned_memory.get(&facts.name).copied();
    let capacity = capacity(facts, class, settings, learned);
    let overhead = overhead(facts, class, settings, &capacity).total();
    let compatible = compatible::check(facts, class).is_ok();
    let offerings = offerings::offerings(entry, class, zones, region, settings, compatible);
    let requirements = requirements(facts, class, region.name);
    let mut derived =
        InstanceType::with_requirements(&facts.name, requirements, capacity, overhead, offerings);
    derived.attach_limits.extend(attachments::of_ebs(facts, class).map(|most| (EBS_DRIVER.into(), most)));
    derived
}

/// All types of the catalogue, in its order. Types of no architecture Kubernetes knows are left out.
pub fn instance_types(
    entries: &[Entry],
    class: &NodeClass,
    region: &Region<'_>,
    settings: &Settings,
) -> Vec<InstanceType> {
    let zones = ClassZones::of(class);
    entries
        .iter()
        .filter(|entry| architecture(&entry.facts).is_some())
        .map(|entry| instance_type(entry, class, &zones, region, settings))
        .collect()
}

//! What EC2 said about types and zones, in a ConfigMap: the next life of a replica is ready without waiting for EC2's many
//! pages, and also while EC2 does not answer. A row of JSON without names for each type, some 250 KB for a large region where
//! a ConfigMap may hold a megabyte.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use cloud::facts::{Accelerator, TypeFacts, Zone};
use serde::{Deserialize, Serialize};

use crate::facts::{RegionFacts, Sold};

const FORMAT: &str = "format";
/// Raised whenever rows change their shape; rows of another shape are not read.
const CURRENT: &str = "2";
const REGION: &str = "region";
const ZONES: &str = "zones";
const TYPES: &str = "types";
/// A ConfigMap takes a megabyte in all. More than this is not stored: the next start then waits for EC2.
const MOST_BYTES: usize = 900_000;

#[derive(Serialize, Deserialize)]
struct Row(String, Vec<u32>, [Vec<String>; 4], [String; 2], [u64; 12], [bool; 5], Vec<u32>, [Vec<Device>; 3]);

#[derive(Serialize, Deserialize)]
struct Device(String, String, u32, u64, u32);

#[derive(Serialize, Deserialize)]
struct ZoneRow(String, String, String);

/// Tells texts apart without keeping them.
pub(crate) fn fingerprint(data: &BTreeMap<String, String>) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

/// `None` when it is more than a ConfigMap takes.
pub(crate) fn types_text(region: &str, facts: &RegionFacts) -> Option<BTreeMap<String, String>> {
    let zones = lines(facts.zones.iter().map(|z| ZoneRow(z.name.clone(), z.id.clone(), z.kind.clone())));
    let types = lines(facts.types.iter().map(row));
    (zones.len() + types.len() <= MOST_BYTES).then(|| {
        BTreeMap::from([
            (FORMAT.to_owned(), CURRENT.to_owned()),
            (REGION.to_owned(), region.to_owned()),
            (ZONES.to_owned(), zones),
            (TYPES.to_owned(), types),
        ])
    })
}

/// `None` for another region, another format, or when any of it does not make sense: half a catalogue is none.
pub(crate) fn types_from(region: &str, data: &BTreeMap<String, String>) -> Option<RegionFacts> {
    let text = |key: &str| data.get(key).map(String::as_str);
    if text(FORMAT) != Some(CURRENT) || text(REGION) != Some(region) {
        return None;
    }
    let zone = |line| {
        let ZoneRow(name, id, kind) = serde_json::from_str(line).ok()?;
        Some(Zone { name, id, kind, shifted: false })
    };
    let zones: Vec<Zone> = text(ZONES)?.lines().map(zone).collect::<Option<_>>()?;
    let types: Vec<Sold> = text(TYPES)?.lines().map(sold).collect::<Option<_>>()?;
    let in_order = types.is_sorted_by(|a, b| a.facts.name < b.facts.name)
        && zones.is_sorted_by(|a, b| a.name < b.name)
        && types.iter().all(|t| t.zones.iter().all(|at| (*at as usize) < zones.len()));
    let usable = in_order && types.iter().any(|t| !t.zones.is_empty());
    usable.then_some(RegionFacts { types, zones })
}

fn lines(rows: impl Iterator<Item = impl Serialize>) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(&row).expect("texts and numbers are always JSON"));
        text.push('\n');
    }
    text
}

fn row(sold: &Sold) -> Row {
    // Taken apart in full, so that a new field cannot be forgotten here.
    let TypeFacts {
        name,
        architectures,
        vcpus,
        memory_mib,
        hypervisor,
        bare_metal,
        usage_classes,
        cpu_manufacturer,
        clock_mhz,
        cpu_features,
        max_network_interfaces,
        ipv4_per_interface,
        card_interfaces,
        default_card,
        max_efa_interfaces,
        ena,
        encryption_in_transit,
        network_mbps,
        ebs_mbps,
        ebs_attachments,
        ebs_attachments_shared,
        instance_store_gb,
        nvme,
        gpus,
        neuron,
        inference,
        placement_strategies,
        branch_interfaces,
    } = sold.facts.as_ref();
    let small = [
        vcpus,
        clock_mhz,
        max_network_interfaces,
        ipv4_per_interface,
        default_card,
        max_efa_interfaces,
        network_mbps,
        ebs_mbps,
        branch_interfaces,
        ebs_attachments,
    ];
    let mut figures = [0; 12];
    for (at, figure) in small.into_iter().enumerate() {
        figures[at] = u64::from(*figure);
    }
    (figures[10], figures[11]) = (*memory_mib, *instance_store_gb);
    let devices = |list: &[Accelerator]| -> Vec<Device> {
        let device =
            |d: &Accelerator| Device(d.name.clone(), d.manufacturer.clone(), d.count, d.memory_mib, d.cores);
        list.iter().map(device).collect()
    };
    Row(
        name.clone(),
        sold.zones.clone(),
        [architectures.clone(), usage_classes.clone(), cpu_features.clone(), placement_strategies.clone()],
        [hypervisor.clone(), cpu_manufacturer.clone()],
        figures,
        [*bare_metal, *ena, *encryption_in_transit, *nvme, *ebs_attachments_shared],
        card_interfaces.clone(),
        [devices(gpus), devices(neuron), devices(inference)],
    )
}

fn sold(line: &str) -> Option<Sold> {
    let Row(name, zones, words, [hypervisor, cpu_manufacturer], figures, flags, card_interfaces, devices) =
        serde_json::from_str(line).ok()?;
    let [architectures, usage_classes, cpu_features, placement_strategies] = words;
    let [bare_metal, ena, encryption_in_transit, nvme, ebs_attachments_shared] = flags;
    let small = |at: usize| u32::try_from(figures[at]).ok();
    let [gpus, neuron, inference] = devices.map(|list| {
        let device = |Device(name, manufacturer, count, memory_mib, cores)| Accelerator {
            name,
            manufacturer,
            count,
            memory_mib,
            cores,
        };
        list.into_iter().map(device).collect()
    });
    let facts = TypeFacts {
        name,
        architectures,
        vcpus: small(0).filter(|vcpus| *vcpus > 0)?,
        memory_mib: Some(figures[10]).filter(|mib| *mib > 0)?,
        hypervisor,
        bare_metal,
        usage_classes,
        cpu_manufacturer,
        clock_mhz: small(1)?,
        cpu_features,
        max_network_interfaces: small(2)?,
        ipv4_per_interface: small(3)?,
        card_interfaces,
        default_card: small(4)?,
        max_efa_interfaces: small(5)?,
        ena,
        encryption_in_transit,
        network_mbps: small(6)?,
        ebs_mbps: small(7)?,
        ebs_attachments: small(9)?,
        ebs_attachments_shared,
        instance_store_gb: figures[11],
        nvme,
        gpus,
        neuron,
        inference,
        placement_strategies,
        branch_interfaces: small(8)?,
    };
    Some(Sold { facts: Arc::new(facts), zones })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> RegionFacts {
        let zone =
            |n: u32| Zone { name: format!("us-west-2{n}"), kind: "local-zone".into(), ..Zone::default() };
        let mut types: Vec<Sold> = cloud::memory::types()
            .iter()
            .map(|facts| Sold { facts: Arc::new(facts.clone()), zones: vec![0, 1] })
            .collect();
        types.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        RegionFacts { types, zones: vec![zone(1), zone(2)] }
    }

    #[test]
    fn every_fact_comes_back_as_it_was() {
        let facts = region();
        assert!(facts.types.iter().any(|t| !t.facts.gpus.is_empty()));
        let text = types_text("us-west-2", &facts).unwrap();
        assert_eq!(types_from("us-west-2", &text), Some(facts));
    }

    #[test]
    fn fourteen_hundred_types_fit_with_room_to_spare() {
        let mut facts = region();
        let sample = facts.types.clone();
        facts.types = sample.iter().cycle().take(1400).cloned().collect();
        let text = types_text("us-west-2", &facts).unwrap();
        let size: usize = text.values().map(String::len).sum();
        assert!(size < 500_000, "{size} bytes");
        facts.types = sample.iter().cycle().take(20_000).cloned().collect();
        assert_eq!(types_text("us-west-2", &facts), None);
    }

    #[test]
    fn half_a_memory_or_another_region_s_is_none() {
        let whole = types_text("us-west-2", &region()).unwrap();
        assert_eq!(types_from("eu-west-1", &whole), None);
        assert_eq!(types_from("us-west-2", &BTreeMap::new()), None);
        let with = |key: &str, text: &str| {
            let mut data = whole.clone();
            data.insert(key.to_owned(), text.to_owned());
            types_from("us-west-2", &data)
        };
        assert_eq!(with(FORMAT, "1"), None);
        assert_eq!(with(ZONES, ""), None, "types are sold in zones that are not there");
        assert_eq!(with(TYPES, ""), None);
        let cut = &whole[TYPES][..whole[TYPES].len() - 9];
        assert_eq!(with(TYPES, cut), None);
        let twice = format!("{0}{0}", whole[TYPES]);
        assert_eq!(with(TYPES, &twice), None);
    }
}

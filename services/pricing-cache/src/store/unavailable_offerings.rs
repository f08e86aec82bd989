//! Marks as entries of a ConfigMap: one key each, so that replicas write side by side without reading first.

use std::collections::BTreeMap;

use cloud::unavailable::{Scope, Unavailable};
use jiff::Timestamp;
use model::catalog::CapacityType;
use serde::{Deserialize, Serialize};

use super::Read;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subnet_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    placement_group_id: Option<String>,
    since: Timestamp,
    until: Timestamp,
    reason: String,
    repeats: u32,
}

/// ConfigMap keys allow no colon; no part of a mark's key has an underscore.
pub(crate) fn store_key(key: &str) -> String {
    key.replace(':', "_")
}

pub(crate) fn mark_text(mark: &Unavailable) -> String {
    let scope = mark.scope.clone();
    let stored = Stored {
        instance_type: scope.instance_type,
        zone: scope.zone,
        capacity_type: scope.capacity_type.map(|c| c.as_str().to_owned()),
        subnet_id: scope.subnet_id,
        reservation_id: scope.reservation_id,
        placement_group_id: scope.placement_group_id,
        since: mark.since,
        until: mark.until,
        reason: mark.reason.clone(),
        repeats: mark.repeats,
    };
    serde_json::to_string(&stored).expect("texts and numbers are always JSON")
}

/// By key of the mark. The key in the ConfigMap must be the one of what the entry says.
pub(crate) fn marks_from(data: &BTreeMap<String, String>) -> Read<BTreeMap<String, Unavailable>> {
    let mut read = Read::<BTreeMap<_, _>>::default();
    for (key, text) in data {
        match mark(text).filter(|mark| store_key(&mark.scope.key()) == *key) {
            Some(mark) => drop(read.found.insert(mark.scope.key(), mark)),
            None => read.malformed += 1,
        }
    }
    read
}

fn mark(text: &str) -> Option<Unavailable> {
    let stored: Stored = serde_json::from_str(text).ok()?;
    let capacity_type = match stored.capacity_type.as_deref() {
        Some(text) => Some(CapacityType::parse(text)?),
        None => None,
    };
    let scope = Scope {
        instance_type: stored.instance_type,
        zone: stored.zone,
        capacity_type,
        subnet_id: stored.subnet_id,
        reservation_id: stored.reservation_id,
        placement_group_id: stored.placement_group_id,
    };
    let mark = Unavailable {
        scope,
        since: stored.since,
        until: stored.until,
        reason: stored.reason,
        repeats: stored.repeats.max(1),
    };
    (!mark.scope.is_everything()).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark_of(scope: Scope) -> Unavailable {
        let at = |s| Timestamp::from_second(s).unwrap();
        Unavailable { scope, since: at(10), until: at(190), reason: "SpotInterruption".into(), repeats: 2 }
    }

    #[test]
    fn every_kind_of_mark_comes_back_as_it_was() {
        let spot = CapacityType::Spot;
        let marks = [
            Scope::offering(spot, "u-6tb1.56xlarge", "us-west-2-lax-1a").in_placement_group("pg-1"),
            Scope::capacity_type(spot),
            Scope::zone(CapacityType::OnDemand, "us-west-2a"),
            Scope::subnet("subnet-1"),
            Scope::reservation("cr-1"),
        ]
        .map(mark_of);
        let data: BTreeMap<String, String> =
            marks.iter().map(|m| (store_key(&m.scope.key()), mark_text(m))).collect();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        assert!(data.keys().all(|key| key.chars().all(allowed)), "{:?}", data.keys());
        let read = marks_from(&data);
        assert_eq!(read.malformed, 0);
        assert_eq!(read.found, marks.iter().map(|m| (m.scope.key(), m.clone())).collect());
    }

    #[test]
    fn entries_that_make_no_sense_are_left_out() {
        let good = mark_of(Scope::subnet("subnet-1"));
        let text = mark_text(&good);
        let data = BTreeMap::from([
            (store_key(&good.scope.key()), text.clone()),
            ("renamed".to_owned(), text.clone()),
            ("not-json".to_owned(), "{".to_owned()),
            (
                "".to_owned(),
                r#"{"since":"2026-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z","reason":"x","repeats":1}"#
                    .to_owned(),
            ),
            ("odd_m5.large".to_owned(), text.replace("subnetId", "capacityType")),
        ]);
        let read = marks_from(&data);
        assert_eq!((read.found.len(), read.malformed), (1, 4));
    }
}

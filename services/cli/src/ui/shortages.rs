//! What EC2 has run out of, followed in pricing-cache's stream of the whole catalogue. Pure.

use std::collections::BTreeMap;

use proto::pricingcache::v1 as pb;
use proto::pricingcache::v1::catalog_update::Update;

use super::convert;
use super::picture::Event;

/// The part of the catalogue that is shown.
#[derive(Default)]
pub(super) struct Shortages {
    /// By key.
    marks: BTreeMap<String, pb::Unavailable>,
    zones: Vec<pb::Zone>,
}

impl Shortages {
    /// What is to be shown now; `None` where the update was about something else.
    pub(super) fn take(&mut self, update: Update) -> Option<Event> {
        let keyed = |mark: pb::Unavailable| (mark.key.clone(), mark);
        match update {
            Update::Snapshot(all) => {
                self.marks = all.unavailable.into_iter().map(keyed).collect();
                self.zones = all.zones;
            }
            Update::Delta(delta) => {
                let nothing = delta.unavailable.is_empty() && delta.available_again.is_empty();
                if nothing && !delta.zones_changed {
                    return None;
                }
                delta.available_again.iter().for_each(|key| drop(self.marks.remove(key)));
                self.marks.extend(delta.unavailable.into_iter().map(keyed));
                if delta.zones_changed {
                    self.zones = delta.zones;
                }
            }
        }
        Some(self.shown())
    }

    /// Ending soonest first.
    fn shown(&self) -> Event {
        let mut marks: Vec<&pb::Unavailable> = self.marks.values().collect();
        marks.sort_by_key(|mark| mark.until.as_ref().map(|until| (until.seconds, until.nanos)));
        let shifted = self.zones.iter().filter(|zone| zone.shifted).map(|zone| zone.name.clone());
        Event::Unavailable(marks.into_iter().map(convert::unavailable).collect(), shifted.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(key: &str, ends: i64) -> pb::Unavailable {
        let until = Some(prost_types::Timestamp { seconds: ends, nanos: 0 });
        pb::Unavailable { key: key.to_owned(), instance_type: key.to_owned(), until, ..Default::default() }
    }

    fn zone(shifted: bool) -> Vec<pb::Zone> {
        vec![pb::Zone { name: "zone-a".to_owned(), shifted, ..Default::default() }]
    }

    fn shown(event: Option<Event>) -> (Vec<String>, Vec<String>) {
        let Some(Event::Unavailable(marks, shifted)) = event else { panic!("nothing is to be shown") };
        (marks.into_iter().map(|mark| mark.kind).collect(), shifted)
    }

    #[test]
    fn marks_come_change_and_end_and_the_next_to_end_is_first() {
        let mut shortages = Shortages::default();
        let all = pb::CatalogSnapshot {
            zones: zone(false),
            unavailable: vec![mark("late", 90), mark("soon", 10)],
            ..Default::default()
        };
        assert_eq!(shown(shortages.take(Update::Snapshot(all.clone()))).0, ["soon", "late"]);
        let prices = pb::CatalogDelta { spot: vec![pb::SpotPrice::default()], ..Default::default() };
        assert!(shortages.take(Update::Delta(prices)).is_none(), "a price is no shortage");
        let delta = pb::CatalogDelta {
            unavailable: vec![mark("soon", 99), mark("new", 50)],
            available_again: vec!["late".to_owned()],
            ..Default::default()
        };
        assert_eq!(shown(shortages.take(Update::Delta(delta))).0, ["new", "soon"]);
        let shift = pb::CatalogDelta { zones_changed: true, zones: zone(true), ..Default::default() };
        assert_eq!(shown(shortages.take(Update::Delta(shift))).1, ["zone-a"]);
        assert_eq!(
            shown(shortages.take(Update::Snapshot(all))),
            (vec!["soon".into(), "late".into()], vec![])
        );
    }
}

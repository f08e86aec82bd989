//! What EC2 says about types and zones, and whether an answer may replace the one before. Pure.
//!
//! A listing that is empty, or half gone, is a fault on the way and no news about EC2: it is refused and the last good
//! answer stays.

use std::collections::{BTreeMap, BTreeSet};

use cloud::facts::{TypeFacts, Zone};

/// One whole answer of EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionFacts {
    /// By name.
    pub(crate) types: Vec<TypeFacts>,
    /// Type to names of the zones it is sold in.
    pub(crate) offered: BTreeMap<String, BTreeSet<String>>,
    /// By name.
    pub(crate) zones: Vec<Zone>,
}

/// Why an answer is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("EC2 listed no {0}; the last good answer is kept")]
    Empty(&'static str),
    #[error(
        "EC2 listed {now} {what} where it listed {before}; too many are gone to believe it, the last good answer is kept"
    )]
    Shrunk { what: &'static str, before: usize, now: usize },
}

/// Checks an answer against the one before. Entries that no instance type can be are left out; their number is returned
/// with the rest.
pub(crate) fn accept(
    before: Option<&RegionFacts>,
    mut answer: RegionFacts,
) -> Result<(RegionFacts, usize), Refused> {
    let listed = answer.types.len();
    answer.types.retain(|t| !t.name.is_empty() && t.vcpus > 0 && t.memory_mib > 0);
    answer.types.sort_by(|a, b| a.name.cmp(&b.name));
    answer.types.dedup_by(|a, b| a.name == b.name);
    let left_out = listed - answer.types.len();
    answer.zones.retain(|z| !z.name.is_empty());
    answer.zones.sort_by(|a, b| a.name.cmp(&b.name));
    answer.zones.dedup_by(|a, b| a.name == b.name);

    let counts = |facts: &RegionFacts| {
        [("instance types", facts.types.len()), ("zones", facts.zones.len()), ("offerings", pools(facts))]
    };
    for (at, (what, now)) in counts(&answer).into_iter().enumerate() {
        if now == 0 {
            return Err(Refused::Empty(what));
        }
        let known = before.map_or(0, |facts| counts(facts)[at].1);
        if now < known.div_ceil(2) {
            return Err(Refused::Shrunk { what, before: known, now });
        }
    }
    Ok((answer, left_out))
}

/// Pairs of a known type and a known zone it is sold in.
fn pools(facts: &RegionFacts) -> usize {
    let zones: BTreeSet<&str> = facts.zones.iter().map(|z| z.name.as_str()).collect();
    let sold = facts.types.iter().filter_map(|t| facts.offered.get(&t.name));
    sold.map(|names| names.iter().filter(|zone| zones.contains(zone.as_str())).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(types: usize) -> RegionFacts {
        let name = |n: usize| format!("m{n}.large");
        let facts = |n| TypeFacts { name: name(n), vcpus: 2, memory_mib: 8192, ..TypeFacts::default() };
        let zone = Zone { name: "us-west-2a".into(), ..Zone::default() };
        RegionFacts {
            types: (0..types).map(facts).collect(),
            offered: (0..types).map(|n| (name(n), BTreeSet::from(["us-west-2a".to_owned()]))).collect(),
            zones: vec![zone],
        }
    }

    #[test]
    fn an_empty_or_half_gone_listing_never_replaces_a_full_one() {
        let full = answer(10);
        assert!(accept(None, full.clone()).is_ok());
        assert!(accept(Some(&full), answer(5)).is_ok());
        let refused = accept(Some(&full), answer(4)).unwrap_err();
        assert_eq!(refused, Refused::Shrunk { what: "instance types", before: 10, now: 4 });
        assert_eq!(accept(None, answer(0)), Err(Refused::Empty("instance types")));
        let nowhere = RegionFacts { offered: BTreeMap::new(), ..answer(10) };
        assert_eq!(accept(None, nowhere), Err(Refused::Empty("offerings")));
        let zoneless = RegionFacts { zones: Vec::new(), ..answer(10) };
        assert_eq!(accept(None, zoneless), Err(Refused::Empty("zones")));
    }

    #[test]
    fn entries_that_no_instance_type_can_be_are_left_out_and_counted() {
        let mut odd = answer(3);
        odd.types[0].vcpus = 0;
        odd.types[1].name.clear();
        let (kept, left_out) = accept(None, odd).unwrap();
        assert_eq!((kept.types.len(), left_out), (1, 2));
    }
}
